"""Verifies received envelopes.

``Receiver`` runs the checks of the format in their order; the first that fails determines the error code. It also
remembers plans to detect replays, per process: workers that share a port do not share this memory.
"""

from __future__ import annotations

import struct
import threading
import time
from collections import OrderedDict
from hmac import compare_digest
from typing import Any, Callable, List, NamedTuple, Optional, Sequence, Tuple

from ..wire.carriers import attempt_of
from ..wire.envelope import BRIDGE, ENVELOPE_BYTES, EXPIRY_SECONDS, HEADER_CHARS, HISTORY, PLAN, RUN, Envelope, decode_header, decode_hop_end
from ..wire.errors import FaultloomError, malformed
from ..wire.plan import Fault, decode_plan
from ..wire.primitives import Reader
from .settings import Key, TrustSettings, TrustSource
from .signature import hmac_states

#: plans remembered to detect replays
REPLAY_MEMORY_MAX = 65_536
_UNSIGNED = bytes(16)

# trace, run, expiry
_WITH_RUN, _WITHOUT_RUN = struct.Struct(">16s16sI"), struct.Struct(">16s0sI")

# a named tuple's own constructor is a Python function around this one
_new: Any = tuple.__new__


class _SignedBy(NamedTuple):
    """The signer, as named at the end of a signed part."""

    data: bytes
    settings: Optional[TrustSettings]
    key_id: str
    environment: str
    key: Optional[Key]
    #: HMAC's hashes with the key absorbed
    inner: Any
    outer: Any


def _decode_signed_by(data: bytes, settings: TrustSettings) -> _SignedBy:
    r = Reader(data)
    key_id, environment = r.string(1, 32), r.string(1, 64)
    if not r.done():
        raise malformed("bytes after the environment")
    return _signed_by(data, settings, key_id, environment)


def _signed_by(data: bytes, settings: TrustSettings, key_id: str, environment: str) -> _SignedBy:
    key = settings.keys.get(key_id)
    states = hmac_states(key.secret) if key is not None else (None, None)
    return _SignedBy(data, settings, key_id, environment, key, *states)


class Receiver:
    """Decides whether to accept an envelope. Thread-safe."""

    def __init__(
        self, trust: Callable[[], Optional[TrustSettings]], now: Callable[[], float] = time.time, source: Optional[TrustSource] = None
    ) -> None:
        """``source``: what ``trust`` reads from; ``accept`` skips the call while the settings cannot have changed."""
        self._trust = trust
        self._now = now
        self._source = source
        # caches for what nearly every envelope of a service repeats: the signer, and the end of the hop part
        self._last_signer = _SignedBy(b"", None, "", "", None, None, None)
        self._last_hop_end: Tuple[Optional[bytes], Tuple[int, int, Sequence[int]]] = (None, (0, 0, ()))
        self._admitted: OrderedDict[Tuple[bytes, int, int], int] = OrderedDict()
        self._lock = threading.Lock()

    def accept_header(self, value: str, attempt: int = 0) -> Optional[Envelope]:
        """Like ``accept``, for the header of an HTTP request."""
        return self._accept_text(value, attempt, None)

    def accept_bridged(self, value: str, call: int, attempt: int = 0) -> Optional[Envelope]:
        """Like ``accept``, for the value of a ``baggage`` member. ``call``: the parent id in ``traceparent``."""
        return self._accept_text(value, attempt, call)

    def _accept_text(self, value: str, attempt: int, bridged: Optional[int]) -> Optional[Envelope]:
        if self._trust() is None:
            return None
        if len(value) > HEADER_CHARS:
            raise FaultloomError("oversized")
        return self.accept(decode_header(value), attempt, bridged)

    def accept(
        self, data: bytes, attempt: int = 0, bridged: Optional[int] = None, metadata: Optional[Callable[[], Any]] = None
    ) -> Optional[Envelope]:
        """The envelope, or None without trust settings. Raises the error of the first check that fails.

        ``attempt``: from ``grpc-previous-rpc-attempts``, else 0; a transparent retry is not a replay.
        ``metadata``: returns the metadata to read the attempt from, if it is needed: only plans are checked for
        replays.
        ``bridged``: the call id from ``traceparent`` if the envelope is from ``baggage``; no history is returned then.
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
            signer = _signed_by(b"", trust, s.string(1, 32), s.string(1, 64))
        else:
            signer = self._last_signer
            if signer.data != rest or signer.settings is not trust:
                signer = self._last_signer = _decode_signed_by(rest, trust)
        _, _, key_id, environment, key, inner, outer = signer
        if signature == _UNSIGNED:
            raise FaultloomError("unsigned")
        if key is None:
            raise FaultloomError("unknown_key")
        inner, outer = inner.copy(), outer.copy()  # like ``signature_of``, without the function call
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
        if size < hop + 8:
            raise malformed("ends early")
        call = int.from_bytes(data[hop : hop + 8], "big")
        hop_end, decoded = self._last_hop_end
        if plan or hop_end != data[hop + 8 :]:
            hop_end = data[hop + 8 :]
            decoded = decode_hop_end(hop_end, sum(fault.counters for fault in plan) if plan else 0)
            if not plan:
                self._last_hop_end = hop_end, decoded
        accept, limit, evidence = decoded
        if bridged is not None:
            call, accept, limit = bridged, 0, 0
        if plan and not self._admit((trace, call, attempt_of(metadata()) if metadata else attempt), expires, now):
            raise FaultloomError("replayed")
        history, bridge = permissions & HISTORY != 0, permissions & BRIDGE != 0
        fields = (data[:hop], trace, run or None, expires, key_id, environment, history, bridge, plan, call, accept, limit, evidence)
        accepted: Envelope = _new(Envelope, fields)
        return accepted

    def _admit(self, key: Tuple[bytes, int, int], expires: int, now: float) -> bool:
        """Remembers a plan until it expires. False if it is remembered already."""
        admitted = self._admitted
        with self._lock:
            if admitted.get(key, 0) > now:
                return False
            while admitted:
                oldest = next(iter(admitted))
                if admitted[oldest] > now and len(admitted) < REPLAY_MEMORY_MAX:
                    break
                del admitted[oldest]
            admitted[key] = expires
            return True
