"""Starts traced requests from a test or an entry service.

Every call sent inside a ``starting`` block is numbered, traced and faulted like the calls of a service. The history is
available when the block ends.

    signer = Signer(Key("f1", True, secret), "shop-3f9c")
    with starting(signer, plan=[Fault("unavailable", Selector(callee="currency"))]) as started:
        requests.get("http://127.0.0.1:8080/cart/17")
    print(started.history)
"""

from __future__ import annotations

import contextlib
import os
import secrets
from typing import Iterator, Optional, Sequence

from .hooks.install import install_hooks
from .scope.current import with_scope
from .scope.scope import Scope
from .trust import signer as trust_signer
from .trust.settings import Key
from .wire.envelope import Envelope
from .wire.history import History, decode_history
from .wire.names import SERVICE_BYTES
from .wire.plan import Fault
from .wire.primitives import truncate_text


class Signer(trust_signer.Signer):
    """A signer for programs that start requests. Creating one installs the hooks, even without trust settings."""

    def __init__(self, key: Key, environment: str) -> None:
        super().__init__(key, environment)
        install_hooks()


class Started:
    """A request that was started here. ``history`` is None until the block has ended."""

    def __init__(self, scope: Scope) -> None:
        self.scope = scope
        #: the encoded history
        self.bytes: Optional[bytes] = None

    @property
    def history(self) -> Optional[History]:
        return None if self.bytes is None else decode_history(self.bytes)


@contextlib.contextmanager
def starting(
    signer: trust_signer.Signer,
    plan: Optional[Sequence[Fault]] = None,
    *,
    service: str = "faultloom",
    seconds: int = 60,
    bridge: bool = False,
) -> Iterator[Started]:
    """Runs the block in a scope of its own. Needs the hooks (``import faultloom.auto``).

    Faults of the plan also apply to calls that this block sends. ``seconds``: how long the envelope is valid, at most
    600. ``bridge``: the envelope also travels in ``baggage``. Raises FaultloomError as ``Signer.sign`` does.
    """
    trace = os.urandom(16)
    signed_prefix = signer.sign(plan, seconds=seconds, trace=trace, bridge=bridge)
    evidence = [0] * sum(fault.counters for fault in plan or ())
    call = secrets.randbits(64) or 1
    faults = list(plan) if plan else None
    envelope = Envelope(signed_prefix, trace, None, 0, signer.key.id, signer.environment, True, bridge, faults, call, 0, 0, evidence)
    started = Started(Scope(truncate_text(service, SERVICE_BYTES), envelope))
    try:
        with with_scope(started.scope):
            yield started
    finally:
        started.bytes = started.scope.finish(0)
