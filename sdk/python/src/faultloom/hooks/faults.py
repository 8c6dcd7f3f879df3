"""What a fault does to a call: the only place that distinguishes the kinds of faults.

Pure functions, checked by the vectors of kind ``hook`` (spec/README.md). Each hook calls ``fault_effect`` before a
request is sent and ``reply_effect`` after the call has ended. It then maps the outcome to the exceptions or objects of
its library.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, Optional

from ..wire.carriers import corrupt_body

if TYPE_CHECKING:
    from ..scope.scope import Scope
    from ..wire.plan import Fault

#: the longest wait of a delay or a hang
WAIT_MS_MAX = 30_000

CANCELED, UNKNOWN, DEADLINE_EXCEEDED, INTERNAL, UNAVAILABLE = 1, 2, 4, 13, 14

# outcomes: what the caller gets
REFUSED = "refused"  #: connection refused
RESET = "reset"  #: connection reset
DEADLINE = "deadline"  #: the caller's deadline or timeout
STATUS = "status"  #: a reply without a body that has only a status
REPLY = "reply"  #: the callee's reply
LOST = "lost"  #: the callee's reply is lost: ``reply_effect`` makes it a reset
EMPTY = "empty"  #: the callee's status with an empty body
CORRUPT = "corrupt"  #: the callee's reply with the second half of its body overwritten
FAILED = "failed"  #: the failure that really happened

#: outcomes of ``fault_effect`` for which the hook must change or discard the reply
CHANGED_REPLIES = frozenset((LOST, EMPTY, CORRUPT))


class FaultEffect(NamedTuple):
    """The effect of a fault before the request is sent."""

    #: how long the call waits first, in ms
    wait_ms: int
    #: whether the request is sent after the wait
    sends: bool
    #: what the caller gets; one of CHANGED_REPLIES is applied to the reply
    outcome: str
    #: the status that the caller gets if the request is not sent
    status: int = 0
    #: the status of the event that is recorded then
    recorded_status: int = 0
    #: the request is sent if faults are switched off during the wait
    sends_if_released: bool = False

    def sends_after_wait(self, completed: bool) -> bool:
        """Whether to send the request. ``completed``: False if faults were switched off during the wait."""
        return self.sends or (self.sends_if_released and not completed)


class CallResult(NamedTuple):
    """How a call that was sent ended: with a reply of this status, or without one (``status`` is a gRPC code)."""

    is_reply: bool
    status: int
    has_history: bool


class CallEffect(NamedTuple):
    """How a call that was sent ends for its caller, and the event to record."""

    outcome: str
    #: what the caller gets: a gRPC code or, for an HTTP reply, its status
    status: int
    #: RECV_RESPONSE if true, else CALL_FAILED
    is_reply: bool
    recorded_status: int
    #: the callee may have run, and no history arrived
    is_gap: bool


#: the effect of no fault
NO_FAULT = FaultEffect(0, True, REPLY)
_NOT_SENT = {
    "unavailable": FaultEffect(0, False, REFUSED, UNAVAILABLE, UNAVAILABLE),
    "reset": FaultEffect(0, False, RESET, UNAVAILABLE, UNAVAILABLE),
    "deadline": FaultEffect(0, False, DEADLINE, DEADLINE_EXCEEDED, DEADLINE_EXCEEDED),
}
_CHANGES_REPLY = {"lost-reply": LOST, "empty-reply": EMPTY, "corrupt-reply": CORRUPT}


def fault_effect(protocol: str, fault: Optional[Fault], timeout_ms: Optional[int]) -> FaultEffect:
    """The effect of ``fault`` on a call whose caller waits at most ``timeout_ms``.

    ``protocol``: ``grpc`` or ``http``.
    """
    if fault is None:
        return NO_FAULT
    kind, arg = fault.kind, fault.arg
    if kind in _NOT_SENT:
        return _NOT_SENT[kind]
    if kind in _CHANGES_REPLY:
        return FaultEffect(0, True, _CHANGES_REPLY[kind])
    if kind == "status":
        return FaultEffect(0, False, STATUS, _visible_status(protocol, arg), arg)
    is_hang = kind == "hang"
    wait_ms = WAIT_MS_MAX if is_hang and not arg else min(arg, WAIT_MS_MAX)
    # when both end at the same time, the caller's timeout wins
    times_out = timeout_ms is not None and timeout_ms <= wait_ms
    if timeout_ms is not None:
        wait_ms = min(wait_ms, timeout_ms)
    if is_hang or times_out:
        return FaultEffect(wait_ms, False, DEADLINE, DEADLINE_EXCEEDED, DEADLINE_EXCEEDED, sends_if_released=not is_hang)
    return FaultEffect(wait_ms, True, REPLY)


def _visible_status(protocol: str, status: int) -> int:
    """The status that reaches the caller: one that the protocol does not have becomes UNKNOWN (gRPC) or 500 (HTTP)."""
    if protocol == "grpc":
        return status if 1 <= status <= 16 else UNKNOWN
    return status if 200 <= status <= 999 else 500


def reply_effect(protocol: str, fault: Optional[Fault], result: CallResult) -> CallEffect:
    """The effect of ``fault`` on a call that was sent and ended with ``result``."""
    is_reply, status, has_history = result
    if not is_reply:
        return CallEffect(FAILED, status, False, status, not has_history)
    change = _CHANGES_REPLY.get(fault.kind) if fault is not None else None
    if change == LOST:
        return CallEffect(RESET, UNAVAILABLE, False, UNAVAILABLE, not has_history)
    # a gRPC reply with an error status has no message to change
    if change is None or (protocol == "grpc" and status != 0):
        return CallEffect(REPLY, status, True, status, not has_history)
    visible = INTERNAL if change == CORRUPT and protocol == "grpc" else status
    return CallEffect(change, visible, True, status, not has_history)


def changed_body(outcome: str, body: bytes) -> bytes:
    """The body of a reply with this outcome."""
    if outcome == EMPTY:
        return b""
    return corrupt_body(body) if outcome == CORRUPT else body


def to_timeout_ms(seconds: Optional[float]) -> Optional[int]:
    """A library's timeout for ``fault_effect``; None: no timeout."""
    return None if seconds is None else round(max(0.0, min(seconds, 1e9)) * 1000)


def record_unsent(scope: Scope, number: int, effect: FaultEffect) -> None:
    """Records the end of a call that a fault kept from being sent. The callee did not run: no gap."""
    record = scope.record_reply if effect.outcome == STATUS else scope.record_failure
    record(number, effect.recorded_status)


def record_effect(scope: Scope, number: int, effect: CallEffect, history: Optional[bytes]) -> None:
    """Records the end of a call that was sent."""
    record = scope.record_reply if effect.is_reply else scope.record_failure
    record(number, effect.recorded_status, history, effect.is_gap)
