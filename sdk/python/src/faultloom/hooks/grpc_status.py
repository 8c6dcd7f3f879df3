"""gRPC codes, errors that look like the library's own, and metadata helpers for clients and servers."""

from __future__ import annotations

from typing import Any, Iterable, Optional, Tuple

import grpc
from grpc._channel import _InactiveRpcError, _RPCState

from ..bridge import BAGGAGE, TRACEPARENT
from ..carriers import GRPC_KEY, field_bytes
from ..envelope import ENVELOPE_BYTES
from ..errors import FaultloomError
from ..history import split_head
from ..plan import Fault
from ..scope import Scope, Send

DEFAULT_RECEIVE_LIMIT = 4 << 20
#: a server that takes less does not want envelopes in fields
SERVER_LIMIT = 1 << 20
#: a larger message has its envelope in metadata
FIELD_MESSAGE_BYTES = 65_536
UNLIMITED = (1 << 31) - 1

_CODES = {code.value[0]: code for code in grpc.StatusCode}


def code_of(number: int) -> grpc.StatusCode:
    """The code that a caller sees for a status number; like the library, unknown numbers are UNKNOWN (and OK is no error)."""
    return _CODES.get(number, grpc.StatusCode.UNKNOWN) if number else grpc.StatusCode.UNKNOWN


def number_of(code: Any) -> int:
    if isinstance(code, int):
        return code
    return int(code.value[0]) if code is not None else 0


def outcome(fault: Fault, target: str) -> Tuple[grpc.StatusCode, str]:
    """What the caller is told by a fault that ends its call; worded as the library words the real thing."""
    if fault.kind == "unavailable":
        return (
            grpc.StatusCode.UNAVAILABLE,
            "failed to connect to all addresses; last error: UNKNOWN: "
            f"{target}: Failed to connect to remote host: Connection refused",
        )
    if fault.kind == "status":
        return code_of(fault.arg), f"status {fault.arg} injected by Faultloom"
    if fault.kind == "reset":
        return grpc.StatusCode.UNAVAILABLE, "recvmsg:Connection reset by peer"
    if fault.kind == "lost-reply":
        return grpc.StatusCode.UNAVAILABLE, "End of TCP stream"
    return grpc.StatusCode.DEADLINE_EXCEEDED, "Deadline Exceeded"


def debug_string(code: grpc.StatusCode, details: str) -> str:
    return f"{code.name}:{details}"


def error(code: grpc.StatusCode, details: str) -> Any:
    """A finished RPC with this status: an RpcError that is also a grpc.Call and a grpc.Future, the library's own class."""
    state = _RPCState((), (), (), code, details)
    state.debug_error_string = debug_string(code, details)
    return _InactiveRpcError(state)


def is_reply(code: int, told: bool) -> bool:
    """Whether a status came from the callee, or is something the own side found out (refused, timed out, cancelled).

    One whose trailer brought a history (of a stream: its last piece) certainly came from the callee. Without that grpcio does not tell (its debug text
    says "received from peer" of either, or nothing), and the three codes that the own side makes count as no reply. A message, even one that
    brought a history, tells nothing: its status may have been lost.
    """
    return told or code not in (1, 4, 14)


def history_in(metadata: Optional[Iterable[Any]], call: int) -> Optional[bytes]:
    """The history that a trailer carries for this call; other calls' (passed on by the application) are not taken.

    If none fits, the first that claims to be a history is returned: its wrong id makes a gap.
    """
    first: Optional[bytes] = None
    for key, value in metadata or ():
        if key == GRPC_KEY and isinstance(value, bytes):
            first = value if first is None else first
            try:
                if split_head(value)[0] == call:
                    return value
            except FaultloomError:
                pass
    return first


def outgoing(metadata: Optional[Iterable[Any]], scope: Scope, send: Send) -> Tuple[Any, ...]:
    """A call's metadata with our envelope (if no field has it), and without one that the application passed on from elsewhere."""
    if send.in_field:
        return with_own(metadata, None)
    if not metadata and send.envelope is not None and not scope.envelope.bridge:
        return ((GRPC_KEY, send.envelope),)
    if send.envelope is None or not scope.envelope.bridge:
        return with_own(metadata, send.envelope)
    given = tuple(metadata or ())
    values = [[_text(value) for key, value in given if key == name and value] for name in (TRACEPARENT, BAGGAGE)]
    traceparent, baggage = scope.bridged(send, values[0][0] if values[0] else "", ",".join(values[1]))
    kept = [pair for pair in given if pair[0] not in (TRACEPARENT, BAGGAGE)]
    kept += [(TRACEPARENT, traceparent), *([(BAGGAGE, baggage)] if baggage else [])]
    return with_own(kept, send.envelope)


def _text(value: Any) -> str:
    return value.decode("latin-1") if isinstance(value, bytes) else str(value)


def with_own(metadata: Optional[Iterable[Any]], value: Optional[bytes]) -> Tuple[Any, ...]:
    """Metadata with our value under our key, and without anybody else's."""
    if not metadata:
        return () if value is None else ((GRPC_KEY, value),)
    kept = tuple(pair for pair in metadata if pair[0] != GRPC_KEY)
    return kept if value is None else (*kept, (GRPC_KEY, value))


def receive_limit(options: Optional[Iterable[Any]]) -> int:
    """The largest message a channel or server with these options receives, in bytes."""
    return _limit(options, "grpc.max_receive_message_length", DEFAULT_RECEIVE_LIMIT)


def sends_fields(options: Optional[Iterable[Any]]) -> bool:
    """Whether every message that may have an envelope behind it can be sent by a channel with these options."""
    return _limit(options, "grpc.max_send_message_length", -1) >= FIELD_MESSAGE_BYTES + field_bytes(ENVELOPE_BYTES)


def _limit(options: Optional[Iterable[Any]], option: str, limit: int) -> int:
    for name, value in options or ():
        if name in (option, option.encode()):
            limit = int(value)
    return UNLIMITED if limit < 0 else min(limit, UNLIMITED)
