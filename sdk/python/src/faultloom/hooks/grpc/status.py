"""gRPC status codes, errors of the library's own classes, and metadata helpers for clients and servers."""

from __future__ import annotations

from typing import Any, Iterable, Optional, Tuple

import grpc
from grpc._channel import _InactiveRpcError, _RPCState

from ...scope.scope import OutgoingCall, Scope
from ...wire.bridge import BAGGAGE, TRACEPARENT
from ...wire.carriers import GRPC_KEY, field_length
from ...wire.envelope import ENVELOPE_BYTES
from ..faults import DEADLINE, REFUSED, STATUS, FaultEffect

DEFAULT_RECEIVE_LIMIT = 4 << 20
#: servers with a lower receive limit get no envelopes in fields
SERVER_LIMIT = 1 << 20
#: larger messages have their envelope in metadata
FIELD_MESSAGE_BYTES = 65_536
UNLIMITED = (1 << 31) - 1

_CODES = {code.value[0]: code for code in grpc.StatusCode}

CANCELED_LOCALLY = "Locally cancelled by application!"
#: code and text of a call whose reply is lost
LOST_REPLY = (grpc.StatusCode.UNAVAILABLE, "End of TCP stream")


def number_of(code: Any) -> int:
    """The number of a status code; 0 for none."""
    if isinstance(code, int):
        return code
    return int(code.value[0]) if code is not None else 0


def not_sent_error(effect: FaultEffect, authority: str) -> Tuple[grpc.StatusCode, str]:
    """Code and text for a call that a fault keeps from being sent. Texts are those of the library for real failures."""
    code = _CODES.get(effect.status, grpc.StatusCode.UNKNOWN)
    if effect.outcome == REFUSED:
        cause = "failed to connect to all addresses; last error: UNKNOWN: "
        return code, f"{cause}{authority}: Failed to connect to remote host: Connection refused"
    if effect.outcome == STATUS:
        return code, f"status {effect.recorded_status} injected by Faultloom"
    return code, "Deadline Exceeded" if effect.outcome == DEADLINE else "recvmsg:Connection reset by peer"


def debug_string(code: grpc.StatusCode, details: str) -> str:
    return f"{code.name}:{details}"


def error(code: grpc.StatusCode, details: str) -> Any:
    """A finished RPC with this status, of the library's own class: an RpcError that is also a grpc.Call and a
    grpc.Future.
    """
    state = _RPCState((), (), (), code, details)
    state.debug_error_string = debug_string(code, details)
    return _InactiveRpcError(state)


def is_reply(code: int, has_trailer: bool) -> bool:
    """Whether a status was sent by the callee, rather than produced on this side (refused, timed out, canceled).

    ``has_trailer``: its trailer carried a history (for a stream: the last piece), which only the callee can send.
    Otherwise grpcio does not distinguish the two (its debug text contains "received from peer" for both, or nothing),
    and the three codes that this side produces count as no reply. A history on a message proves nothing: the status may
    have been lost.
    """
    return has_trailer or code not in (1, 4, 14)


def history_in(metadata: Optional[Iterable[Any]]) -> Optional[bytes]:
    """The history that a trailer carries. The last value counts: the application may have forwarded earlier ones."""
    last: Optional[bytes] = None
    for key, value in metadata or ():
        if key == GRPC_KEY and isinstance(value, bytes):
            last = value
    return last


def outgoing_metadata(metadata: Optional[Iterable[Any]], scope: Scope, call: OutgoingCall) -> Tuple[Any, ...]:
    """A call's metadata with its envelope (unless a field carries it), without one that the application forwards."""
    if call.in_field:
        return with_own(metadata, None)
    if not metadata and call.envelope is not None and not scope.envelope.bridge:
        return ((GRPC_KEY, call.envelope),)
    if call.envelope is None or not scope.envelope.bridge:
        return with_own(metadata, call.envelope)
    pairs = tuple(metadata or ())
    values = [[_text(value) for key, value in pairs if key == name and value] for name in (TRACEPARENT, BAGGAGE)]
    traceparent, baggage = scope.inject_bridge(call, values[0][0] if values[0] else "", ",".join(values[1]))
    kept = [pair for pair in pairs if pair[0] not in (TRACEPARENT, BAGGAGE)]
    kept += [(TRACEPARENT, traceparent), *([(BAGGAGE, baggage)] if baggage else [])]
    return with_own(kept, call.envelope)


def _text(value: Any) -> str:
    return value.decode("latin-1") if isinstance(value, bytes) else str(value)


def with_own(metadata: Optional[Iterable[Any]], value: Optional[bytes]) -> Tuple[Any, ...]:
    """Metadata in which only ``value``, if any, has our key."""
    if not metadata:
        return () if value is None else ((GRPC_KEY, value),)
    kept = tuple(pair for pair in metadata if pair[0] != GRPC_KEY)
    return kept if value is None else (*kept, (GRPC_KEY, value))


def receive_limit(options: Optional[Iterable[Any]]) -> int:
    """The largest message that a channel or server with these options receives, in bytes."""
    return _limit(options, "grpc.max_receive_message_length", DEFAULT_RECEIVE_LIMIT)


def sends_fields(options: Optional[Iterable[Any]]) -> bool:
    """Whether a channel with these options can send every message that may carry an envelope."""
    return _limit(options, "grpc.max_send_message_length", -1) >= FIELD_MESSAGE_BYTES + field_length(ENVELOPE_BYTES)


def _limit(options: Optional[Iterable[Any]], option: str, limit: int) -> int:
    for name, value in options or ():
        if name in (option, option.encode()):
            limit = int(value)
    return UNLIMITED if limit < 0 else min(limit, UNLIMITED)
