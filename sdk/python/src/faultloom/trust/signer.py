"""Signs envelopes. ``faultloom.starting`` builds on it to start requests."""

from __future__ import annotations

import os
import secrets
import time
from typing import Optional, Sequence

from ..wire.envelope import BRIDGE, EXPIRY_SECONDS, HISTORY, PLAN, RUN, assemble_envelope, encode_header
from ..wire.errors import FaultloomError
from ..wire.plan import Fault, encode_plan
from ..wire.primitives import encode_string, encode_varint
from .settings import Key


class Signer:
    """Signs envelopes for one environment with one key. Thread-safe."""

    def __init__(self, key: Key, environment: str) -> None:
        self.key = key
        self.environment = environment

    def sign(
        self, plan: Optional[Sequence[Fault]] = None, *, history: bool = True, seconds: int = 60,
        trace: Optional[bytes] = None, run: Optional[bytes] = None, bridge: bool = False,
    ) -> bytes:  # fmt: skip
        """The part of an envelope that services pass on unchanged: version, signed part, signature.

        ``seconds``: how long it is valid, at most 600. ``trace`` and ``run``: 16 bytes each; a random trace by default.
        ``bridge``: the envelope also travels in ``baggage``, past services that support OpenTelemetry only.

        Raises FaultloomError: ``plan_not_permitted`` if the key must not sign plans, else as ``encode_plan``.
        """
        if plan and not self.key.fault:
            raise FaultloomError("plan_not_permitted")
        trace = os.urandom(16) if trace is None else trace
        expires = int(time.time()) + min(seconds, EXPIRY_SECONDS)
        permissions = HISTORY * history | PLAN * bool(plan) | RUN * (run is not None) | BRIDGE * bridge
        signed_by = encode_string(self.key.id) + encode_string(self.environment)
        head = bytes((permissions,)) + trace + (run or b"") + expires.to_bytes(4, "big")
        part = head + signed_by + (encode_plan(plan) if plan else b"")
        return b"\1" + encode_varint(len(part)) + part + self.key.sign(part)

    def envelope(
        self, plan: Optional[Sequence[Fault]] = None, *, call: Optional[int] = None, accept: int = 0, receive_limit: int = 0, **signed: object
    ) -> bytes:
        """A complete envelope for the first call of a request. Raises ``envelope_too_large``."""
        counters = bytes(sum(fault.counters for fault in plan or ()))
        call = secrets.randbits(64) or 1 if call is None else call
        envelope = assemble_envelope(self.sign(plan, **signed), call, accept, receive_limit, counters)  # type: ignore[arg-type]
        if envelope is None:
            raise FaultloomError("envelope_too_large")
        return envelope

    def header(self, plan: Optional[Sequence[Fault]] = None, **options: object) -> str:
        """Like ``envelope``, as the value of the ``x-faultloom`` header."""
        return encode_header(self.envelope(plan, **options))  # type: ignore[arg-type]
