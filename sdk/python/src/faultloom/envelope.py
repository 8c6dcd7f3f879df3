"""The envelope of a request: a signed part that is passed on unchanged, and a hop part that every call writes anew.

``Receiver`` runs the checks of the format in their order; the first that fails names the error. It also holds the
memory against replays (per process: workers that share a port do not share it).
"""

from __future__ import annotations

import base64
import binascii
import functools
import re
import struct
import threading
import time
from collections import OrderedDict
from hmac import compare_digest
from typing import Any, Callable, List, NamedTuple, Optional, Sequence, Tuple

try:  # the interpreter's own: OpenSSL's takes longer to find its SHA-256 than to compute it
    from _sha2 import sha256 as _sha256  # type: ignore[import-not-found,unused-ignore]
except ImportError:
    try:
        from _sha256 import sha256 as _sha256  # type: ignore[import-not-found,unused-ignore]
    except ImportError:
        from hashlib import sha256 as _sha256

from .carriers import attempt_in
from .errors import FaultloomError, malformed
from .plan import Fault, decode_plan
from .trust import Key, Trust, TrustSource
from .wire import Reader, varint

ENVELOPE_BYTES = 2048
HEADER_CHARS = 2731
EXPIRY_SECONDS = 600
SEEN_MAX = 65_536
DOMAIN = b"faultloom/1\n"
ACCEPT_FIELD, ACCEPT_TAIL = 1, 2
HISTORY, PLAN, RUN, BRIDGE = 1, 2, 4, 8

_HEADER = re.compile(r"[A-Za-z0-9_-]*")
_UNSIGNED = bytes(16)

# trace, run, expiry
_WITH_RUN, _WITHOUT_RUN = struct.Struct(">16s16sI"), struct.Struct(">16s0sI")


class Envelope(NamedTuple):
    """An accepted envelope. ``passed_on`` is version to signature, as it stands on the wire."""

    passed_on: bytes
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


_new: Any = tuple.__new__  # what a named tuple's own does behind a function written in Python


def sign(key: Key, part: bytes) -> bytes:
    inner, outer = _prepared(key.secret)
    inner, outer = inner.copy(), outer.copy()
    inner.update(part)
    outer.update(inner.digest())
    signature: bytes = outer.digest()[:16]
    return signature


@functools.lru_cache(maxsize=64)
def _prepared(secret: bytes) -> Tuple[Any, Any]:
    """HMAC's two hashes with the key in them: the rest is a third of the time that a fresh HMAC takes."""
    block = secret.ljust(64, b"\0")
    inner, outer = bytes(byte ^ 0x36 for byte in block), bytes(byte ^ 0x5C for byte in block)
    return _sha256(inner + DOMAIN), _sha256(outer)


def write_hop(passed_on: bytes, call: int, accept: int, receive_limit: int, evidence: bytes) -> Optional[bytes]:
    """A whole envelope for one call, or None if it would be larger than 2048 bytes (then nothing is sent)."""
    out = passed_on + call.to_bytes(8, "big") + accepting(accept, receive_limit) + evidence
    return out if len(out) <= ENVELOPE_BYTES else None


class _SignedBy(NamedTuple):
    """Who has signed, as the end of a signed part names him."""

    data: bytes
    trust: Optional[Trust]
    key_id: str
    environment: str
    key: Optional[Key]
    #: HMAC's hashes with the key in them
    inner: Any
    outer: Any


def _signed_by(data: bytes, trust: Trust) -> _SignedBy:
    r = Reader(data)
    key_id, environment = r.string(1, 32), r.string(1, 64)
    if not r.done():
        raise malformed("bytes behind the environment")
    return _found(data, trust, key_id, environment)


def _found(data: bytes, trust: Trust, key_id: str, environment: str) -> _SignedBy:
    key = trust.keys.get(key_id)
    return _SignedBy(data, trust, key_id, environment, key, *(_prepared(key.secret) if key is not None else (None, None)))


def _accepted(data: bytes, counters: int) -> Tuple[int, int, Sequence[int]]:
    """The hop part behind the call id: accept, receive limit, evidence."""
    r = Reader(data)
    accept = r.u8()
    if accept & ~3:
        raise malformed("reserved accept bit")
    found = accept, r.varint(), tuple(r.varint() for _ in range(counters))
    if not r.done():
        raise malformed("bytes behind the hop part")
    return found


@functools.lru_cache(maxsize=256)
def accepting(accept: int, receive_limit: int) -> bytes:
    """What a hop part has between call id and evidence."""
    return bytes((accept,)) + varint(receive_limit)


def to_header(data: bytes) -> str:
    """base64url without padding."""
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode("ascii")


def from_header(text: str) -> bytes:
    """Raises ``malformed`` unless canonical base64url without padding."""
    if not _HEADER.fullmatch(text) or len(text) % 4 == 1:
        raise malformed("not base64url")
    try:
        data = base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))
    except (binascii.Error, ValueError):
        raise malformed("not base64url") from None
    if len(text) % 4 and to_header(data[-3:] if len(data) % 3 == 0 else data[-(len(data) % 3) :])[-1] != text[-1]:
        raise malformed("stray bits in base64url")
    return data


class Receiver:
    """Decides whether to believe an envelope. Thread-safe."""

    def __init__(
        self, trust: Callable[[], Optional[Trust]], now: Callable[[], float] = time.time, source: Optional[TrustSource] = None
    ) -> None:
        """``source``: what ``trust`` asks, if that need not be asked each time."""
        self._trust = trust
        self._now = now
        self._source = source
        # what a service sees the same in nearly every envelope: who has signed, and the end of the hop part with what it says
        self._by = _SignedBy(b"", None, "", "", None, None, None)
        self._hop_end: Tuple[bytes, Tuple[int, int, Sequence[int]]] = (b"", (0, 0, ()))
        self._seen: OrderedDict[Tuple[bytes, int, int], int] = OrderedDict()
        self._lock = threading.Lock()

    def accept_header(self, value: str, attempt: int = 0, bridged: Optional[int] = None) -> Optional[Envelope]:
        """As ``accept``, for text: the HTTP header, or what baggage brought."""
        if self._trust() is None:
            return None
        if len(value) > HEADER_CHARS:
            raise FaultloomError("oversized")
        return self.accept(from_header(value), attempt, bridged)

    def accept(
        self, data: bytes, attempt: int = 0, bridged: Optional[int] = None, metadata: Optional[Callable[[], Any]] = None
    ) -> Optional[Envelope]:
        """The envelope, or None without trust settings (deaf). Raises the error of the first check that fails.

        ``attempt``: from ``grpc-previous-rpc-attempts``, else 0; a transparent retry is not a replay.
        ``metadata``: tells the attempt instead, if it is needed: only copies of plans are looked for.
        ``bridged``: the call id that ``traceparent`` names if the envelope came in baggage; nobody takes a history then.
        """
        source, now = self._source, self._now()
        trust = source.current if source is not None and source.since <= now < source.until else self._trust()
        if trust is None:
            return None
        size = len(data)
        if size > ENVELOPE_BYTES:
            raise FaultloomError("oversized")
        if not data:
            raise malformed("ends early")
        if data[0] != 1:
            raise FaultloomError("unsupported_version")
        if size > 1 and data[1] < 128:
            at, end = 2, 2 + data[1]
        else:
            r = Reader(data, 1)
            length = r.varint()
            at, end = r.at, r.at + length
        hop = end + 16
        if size < hop:
            raise malformed("ends early")
        part, signature = data[at:end], data[end:hop]
        permissions = part[0] if part else 0
        if permissions & ~15:
            raise malformed("reserved permission")
        layout = _WITH_RUN if permissions & RUN else _WITHOUT_RUN
        try:
            trace, run, expires = layout.unpack_from(part, 1)
        except struct.error:
            raise malformed("ends early") from None
        rest = part[1 + layout.size :]
        if permissions & PLAN:
            s = Reader(rest)
            by = _found(b"", trust, s.string(1, 32), s.string(1, 64))
        else:
            by = self._by
            if by.data != rest or by.trust is not trust:
                by = self._by = _signed_by(rest, trust)
        _, _, key_id, environment, key, inner, outer = by
        if signature == _UNSIGNED:
            raise FaultloomError("unsigned")
        if key is None:
            raise FaultloomError("unknown_key")
        inner, outer = inner.copy(), outer.copy()  # as ``sign``
        inner.update(part)
        outer.update(inner.digest())
        if not compare_digest(outer.digest()[:16], signature):
            raise FaultloomError("bad_signature")
        if environment != trust.environment:
            raise FaultloomError("wrong_environment")
        if expires <= now:
            raise FaultloomError("expired")
        if expires - EXPIRY_SECONDS > now:
            raise FaultloomError("expiry_too_far")
        plan: Optional[List[Fault]] = None
        if permissions & PLAN:
            if not key.fault:
                raise FaultloomError("plan_not_permitted")
            plan = decode_plan(s.rest())
        call = int.from_bytes(data[hop : hop + 8], "big")
        end_of_hop, said = self._hop_end
        if plan or end_of_hop != data[hop + 8 :]:
            end_of_hop = data[hop + 8 :]
            said = _accepted(end_of_hop, sum(fault.counters for fault in plan) if plan else 0)
            if not plan:
                self._hop_end = end_of_hop, said
        accept, limit, evidence = said
        if bridged is not None:
            call, accept, limit = bridged, 0, 0
        if plan and not self._admit((trace, call, attempt_in(metadata()) if metadata else attempt), expires, now):
            raise FaultloomError("replayed")
        history, bridge = permissions & HISTORY != 0, permissions & BRIDGE != 0
        fields = (data[:hop], trace, run or None, expires, key_id, environment, history, bridge, plan, call, accept, limit, evidence)
        accepted: Envelope = _new(Envelope, fields)
        return accepted

    def _admit(self, key: Tuple[bytes, int, int], expires: int, now: float) -> bool:
        seen = self._seen
        with self._lock:
            if seen.get(key, 0) > now:
                return False
            while seen:
                oldest = next(iter(seen))
                if seen[oldest] > now and len(seen) < SEEN_MAX:
                    break
                del seen[oldest]
            seen[key] = expires
            return True
