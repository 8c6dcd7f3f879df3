"""Signatures of envelopes: HMAC-SHA-256 under a domain prefix, the first 16 bytes."""

from __future__ import annotations

import functools
from typing import Any, Tuple

try:  # the interpreter's own: OpenSSL spends more time on finding its SHA-256 than on computing it
    from _sha2 import sha256 as _sha256  # type: ignore[import-not-found,unused-ignore]
except ImportError:
    try:
        from _sha256 import sha256 as _sha256  # type: ignore[import-not-found,unused-ignore]
    except ImportError:
        from hashlib import sha256 as _sha256

DOMAIN = b"faultloom/1\n"
SIGNATURE_BYTES = 16


def signature_of(secret: bytes, part: bytes) -> bytes:
    """The 16-byte signature of an envelope's signed part."""
    inner, outer = hmac_states(secret)
    inner, outer = inner.copy(), outer.copy()
    inner.update(part)
    outer.update(inner.digest())
    signature: bytes = outer.digest()[:SIGNATURE_BYTES]
    return signature


@functools.lru_cache(maxsize=64)
def hmac_states(secret: bytes) -> Tuple[Any, Any]:
    """HMAC's inner and outer hash with the key absorbed. Copying these takes a third of the time of a new HMAC."""
    block = secret.ljust(64, b"\0")
    inner, outer = bytes(byte ^ 0x36 for byte in block), bytes(byte ^ 0x5C for byte in block)
    return _sha256(inner + DOMAIN), _sha256(outer)
