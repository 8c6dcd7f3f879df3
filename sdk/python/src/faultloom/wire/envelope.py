"""Envelopes: a signed part that is passed on unchanged, and a hop part that is written for each call.

``trust.receiver`` reads and verifies them, ``trust.signer`` makes the signed part. Here are the parts that need no key.
"""

from __future__ import annotations

import base64
import binascii
import functools
import re
from typing import List, NamedTuple, Optional, Sequence, Tuple

from .errors import malformed
from .plan import Fault
from .primitives import Reader, encode_varint

ENVELOPE_BYTES = 2048
HEADER_CHARS = 2731
EXPIRY_SECONDS = 600
#: bits of ``accept``: how the history may be carried by the reply
ACCEPT_FIELD, ACCEPT_TAIL = 1, 2
#: permissions
HISTORY, PLAN, RUN, BRIDGE = 1, 2, 4, 8

_HEADER = re.compile(r"[A-Za-z0-9_-]*")


class Envelope(NamedTuple):
    """A verified envelope. ``signed_prefix`` is version to signature, as encoded. Times in seconds since the epoch."""

    signed_prefix: bytes
    trace: bytes
    run: Optional[bytes]
    expires: int
    key: str
    environment: str
    history: bool
    bridge: bool
    plan: Optional[List[Fault]]
    call: int
    accept: int
    receive_limit: int
    evidence: Sequence[int]


def assemble_envelope(signed_prefix: bytes, call: int, accept: int, receive_limit: int, evidence: bytes) -> Optional[bytes]:
    """The envelope of one call. None if it exceeds 2048 bytes: the call is then sent without one."""
    out = signed_prefix + call.to_bytes(8, "big") + encode_accepts(accept, receive_limit) + evidence
    return out if len(out) <= ENVELOPE_BYTES else None


@functools.lru_cache(maxsize=256)
def encode_accepts(accept: int, receive_limit: int) -> bytes:
    """What the caller accepts: the bytes of a hop part between call id and evidence."""
    return bytes((accept,)) + encode_varint(receive_limit)


def decode_hop_end(data: bytes, counters: int) -> Tuple[int, int, Sequence[int]]:
    """The hop part after the call id: accept, receive limit, and ``counters`` values of evidence.

    Raises ``malformed``.
    """
    r = Reader(data)
    accept = r.u8()
    if accept & ~3:
        raise malformed("reserved accept bit")
    decoded = accept, r.varint(), tuple(r.varint() for _ in range(counters))
    if not r.done():
        raise malformed("bytes after the hop part")
    return decoded


def encode_header(data: bytes) -> str:
    """base64url without padding."""
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode("ascii")


def decode_header(text: str) -> bytes:
    """Raises ``malformed`` unless ``text`` is canonical base64url without padding."""
    if not _HEADER.fullmatch(text) or len(text) % 4 == 1:
        raise malformed("not base64url")
    try:
        data = base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))
    except (binascii.Error, ValueError):
        raise malformed("not base64url") from None
    if len(text) % 4 and encode_header(data[-3:] if len(data) % 3 == 0 else data[-(len(data) % 3) :])[-1] != text[-1]:
        raise malformed("stray bits in base64url")
    return data
