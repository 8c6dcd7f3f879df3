"""Starting a request: signing envelopes, and being its first caller.

A test or an entry service that starts requests itself does so in a ``starting`` block: everything it sends inside is
numbered, traced and faulted like a service's calls, and the history is there when the block ends.

    signer = Signer(Key("f1", True, secret), "shop-3f9c")
    with starting(signer, plan=[Fault("unavailable", Selector(callee="currency"))]) as started:
        requests.get("http://127.0.0.1:8080/cart/17")
    print(started.history)
"""

from __future__ import annotations

import contextlib
import os
import secrets
import time
from typing import Iterator, Optional, Sequence

from .context import CURRENT
from .envelope import BRIDGE, EXPIRY_SECONDS, HISTORY, PLAN, RUN, Envelope, sign, to_header, write_hop
from .errors import FaultloomError
from .history import History, decode_history
from .names import SERVICE_BYTES
from .plan import Fault, encode_plan
from .scope import Scope
from .trust import Key
from .wire import cut, string, varint


class Signer:
    """Signs envelopes for one environment with one key."""

    def __init__(self, key: Key, environment: str) -> None:
        from .install import hook

        self.key = key
        self.environment = environment
        hook()  # who signs starts requests, with trust settings or without

    def sign(
        self, plan: Optional[Sequence[Fault]] = None, *, history: bool = True, seconds: int = 60,
        trace: Optional[bytes] = None, run: Optional[bytes] = None, bridge: bool = False,
    ) -> bytes:  # fmt: skip
        """The part of an envelope that is passed on unchanged; it is believed for ``seconds`` (at most 600).
        ``bridge``: the envelope also travels through hops that know OpenTelemetry only.

        Raises FaultloomError if the plan exceeds the format's limits or the key may not sign plans.
        """
        return self.signed(self.key, self.environment, plan, history=history, seconds=seconds, trace=trace, run=run, bridge=bridge)

    @staticmethod
    def signed(
        key: Key, environment: str, plan: Optional[Sequence[Fault]] = None, *, history: bool = True, seconds: int = 60,
        trace: Optional[bytes] = None, run: Optional[bytes] = None, bridge: bool = False,
    ) -> bytes:  # fmt: skip
        """As ``sign``."""
        if plan and not key.fault:
            raise FaultloomError("plan_not_permitted")
        trace = os.urandom(16) if trace is None else trace
        expires = int(time.time()) + min(seconds, EXPIRY_SECONDS)
        permissions = HISTORY * history | PLAN * bool(plan) | RUN * (run is not None) | BRIDGE * bridge
        part = b"".join(
            (bytes((permissions,)), trace, run or b"", expires.to_bytes(4, "big"), string(key.id), string(environment), encode_plan(plan) if plan else b"")
        )  # fmt: skip
        return b"\1" + varint(len(part)) + part + sign(key, part)

    def envelope(self, plan: Optional[Sequence[Fault]] = None, *, call: Optional[int] = None, accept: int = 0, receive_limit: int = 0, **signed: object) -> bytes:
        """A whole envelope for a request's first call. Raises ``envelope_too_large``."""
        counters = bytes(sum(fault.counters for fault in plan or ()))
        call = secrets.randbits(64) or 1 if call is None else call
        out = write_hop(self.sign(plan, **signed), call, accept, receive_limit, counters)  # type: ignore[arg-type]
        if out is None:
            raise FaultloomError("envelope_too_large")
        return out

    def header(self, plan: Optional[Sequence[Fault]] = None, **how: object) -> str:
        """As ``envelope``, for the ``x-faultloom`` header."""
        return to_header(self.envelope(plan, **how))  # type: ignore[arg-type]


class Started:
    """A request being started here. ``history`` is None until the block has ended."""

    def __init__(self, scope: Scope) -> None:
        self.scope = scope
        self.bytes: Optional[bytes] = None

    @property
    def history(self) -> Optional[History]:
        return None if self.bytes is None else decode_history(self.bytes)


@contextlib.contextmanager
def starting(
    signer: Signer, plan: Optional[Sequence[Fault]] = None, *, service: str = "faultloom", seconds: int = 60, bridge: bool = False
) -> Iterator[Started]:
    """A scope of one's own around calls; needs the hooks (``import faultloom.auto``). The starter's sends can be faulted too."""
    trace = os.urandom(16)
    passed_on = signer.sign(plan, seconds=seconds, trace=trace, bridge=bridge)
    evidence = [0] * sum(fault.counters for fault in plan or ())
    call = secrets.randbits(64) or 1
    envelope = Envelope(
        passed_on, trace, None, 0, signer.key.id, signer.environment, True, bridge, list(plan) if plan else None, call, 0, 0, evidence
    )
    started = Started(Scope(cut(service, SERVICE_BYTES), envelope))
    token = CURRENT.set(started.scope)
    try:
        yield started
    finally:
        CURRENT.reset(token)
        started.bytes = started.scope.respond(0)
