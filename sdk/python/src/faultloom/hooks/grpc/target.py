"""The target of a channel, and what its clients know about the target's methods.

All clients share this module: synchronous and ``grpc.aio``, unary calls and streams.
"""

from __future__ import annotations

import threading
from typing import Any, Dict, NamedTuple, Optional, Tuple

from ...scope.current import call_flags, current_scope, is_lost
from ...scope.scope import OutgoingCall, Scope
from ...scope.unscoped import OPEN_SCOPES, count_unscoped
from ...wire.envelope import ACCEPT_FIELD, encode_accepts
from ...wire.history import HEAD_BYTES, TAKES_FIELD, takes_field
from ...wire.names import grpc_authority
from ..faults import FaultEffect, record_unsent
from ..process import this_process
from . import status


class Callee:
    """State of one method of a channel's target: whether its requests may have their envelope in a field."""

    __slots__ = ("flag", "never")

    def __init__(self, never: bool = False) -> None:
        #: TAKES_FIELD if they may, else 0
        self.flag = 0
        #: something on the way has removed a field
        self.never = never

    def update(self, call: OutgoingCall, is_reply: bool, history: Optional[bytes]) -> None:
        """Evaluates the end of a call of this method."""
        with _lock:
            if self.never:
                return
            if not is_reply:
                if call.in_field:
                    self.flag = 0
            elif history is not None and history[1:HEAD_BYTES] == call.id_bytes:
                self.flag = TAKES_FIELD if takes_field(history) else 0
            elif call.in_field:
                self.flag, self.never = 0, True


METHODS_MAX = 1024
#: for methods whose envelopes always travel in metadata
METADATA_ONLY = Callee(never=True)
_lock = threading.Lock()


class Target(NamedTuple):
    """The target of a channel, determined once per channel."""

    peer: str
    authority: str
    #: what its envelopes announce about the reply (``encode_accepts``)
    accepts: bytes
    #: by method. None: the message limits are too low for fields
    callees: Optional[Dict[str, Callee]]

    def callee(self, name: str) -> Callee:
        callees = self.callees
        if callees is None:
            return METADATA_ONLY
        callee = callees.get(name)
        if callee is None:
            with _lock:
                callee = callees.setdefault(name, Callee()) if len(callees) < METHODS_MAX else METADATA_ONLY
        return callee

    def begin_call(self, name: str) -> Tuple[Optional[Scope], Optional[OutgoingCall]]:
        """Begins a call in the current scope. None: it is not traced, and is counted if it belongs to no request."""
        scope = current_scope()
        if scope is not None:
            call = scope.begin_call(False, self.peer, name, self.accepts, call_flags(scope))
            if call is not None:
                return scope, call
        if OPEN_SCOPES and is_lost():
            count_unscoped(False, self.peer, name)
        return None, None


def target_for(target: Any, receive_limit: int, sends_fields: bool) -> Target:
    """``receive_limit``: the channel's, in bytes; 0: replies cannot carry a field."""
    authority = grpc_authority(target.decode() if isinstance(target, bytes) else str(target))
    accepts = encode_accepts(ACCEPT_FIELD if receive_limit else 0, receive_limit)
    return Target(this_process().peer_name(authority), authority, accepts, {} if receive_limit and sends_fields else None)


def fail_not_sent(scope: Scope, call: OutgoingCall, effect: FaultEffect, target: Target) -> Any:
    """Records a call that a fault keeps from being sent. Returns its error."""
    record_unsent(scope, call.number, effect)
    return status.error(*status.not_sent_error(effect, target.authority))
