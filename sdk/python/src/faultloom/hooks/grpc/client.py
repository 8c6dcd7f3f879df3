"""grpcio's synchronous client: calls with one reply message (streams of replies: ``client_stream``).

The hook sits below the application's interceptors: ``Channel.unary_unary`` and ``Channel.stream_unary`` return our
multi-callable around the library's. Outside a scope, calls go to the library's own. Inside, the deserializer returns
(message, history), because gRPC may run it on another thread than the caller's. A fault that changes the reply uses a
deserializer of its own for that one call.

To a callee that has announced it, the envelope goes into a field after the request's message instead of the metadata.
Such a request is serialized here and sent by a multi-callable without a serializer.
"""

from __future__ import annotations

import time
from typing import Any, Callable, Optional, Tuple

import grpc
from grpc._channel import _InactiveRpcError

from ...scope.current import CURRENT_SCOPE, call_flags, is_lost
from ...scope.fault_wait import wait_for_fault
from ...scope.scope import OutgoingCall, Scope
from ...scope.unscoped import OPEN_SCOPES, count_unscoped
from ...wire.carriers import GRPC_KEY, cut_field, field_cutter, field_ends
from ...wire.history import HEAD_BYTES, RECV_RESPONSE, TAKES_FIELD
from ...wire.pieces import PieceJoiner
from ..faults import (
    CANCELED, CHANGED_REPLIES, RESET, UNKNOWN, CallResult, FaultEffect, changed_body, fault_effect, record_effect,
    reply_effect, to_timeout_ms,
)  # fmt: skip
from ..patching import Patch
from . import status
from .client_stream import TracedStreams
from .future import BackgroundCall, TracedFuture
from .target import METADATA_ONLY, Target, fail_not_sent, target_for

_OK = grpc.StatusCode.OK
_LIBRARY_FILE = _InactiveRpcError.__init__.__code__.co_filename
_NO_PAIR = (None, None)


def patch(patch: Patch, module: Any) -> None:
    """``module``: grpc._channel."""
    channel = module.Channel
    init = channel.__init__

    def init_with_target(self: Any, target: str, options: Any, *args: Any, **kwargs: Any) -> None:
        options = tuple(options or ())
        init(self, target, options, *args, **kwargs)
        self._faultloom_target = target_for(target, status.receive_limit(options), status.sends_fields(options))

    def traced(make: Any, cls: Any) -> Any:
        def traced_multi_callable(
            self: Any, method: Any, request_serializer: Any = None, response_deserializer: Any = None, *args: Any, **kwargs: Any
        ) -> Any:
            inner = make(self, method, request_serializer, response_deserializer, *args, **kwargs)
            try:
                target = self.__dict__.get("_faultloom_target") or target_for(self._channel.target().decode(), 0, False)
            except Exception:
                return inner

            def untraced(deserializer: Any, serializer: Any = request_serializer) -> Any:
                return make(self, method, serializer, deserializer, *args, **kwargs)

            name = method.decode() if isinstance(method, bytes) else method
            return cls(inner, untraced, request_serializer, response_deserializer, name, target)

        return traced_multi_callable

    patch.replace(channel, "__init__", init_with_target)
    for name, cls in (
        ("unary_unary", TracedUnaryUnary), ("stream_unary", TracedStreamUnary),
        ("unary_stream", TracedStreams), ("stream_stream", TracedStreams),
    ):  # fmt: skip
        patch.replace(channel, name, traced(getattr(channel, name), cls))


def serialize_with_envelope(request: Any, serializer: Optional[Callable[[Any], bytes]], call: OutgoingCall) -> Optional[bytes]:
    """The request's bytes, followed by the envelope unless the message is too large.

    None: the library must report the error.
    """
    try:
        data = request if serializer is None else serializer(request)
    except Exception:
        return None
    if type(data) is not bytes:
        return None
    envelope = call.envelope
    if envelope is None or len(data) > status.FIELD_MESSAGE_BYTES:
        return data
    call.in_field = True
    before, after = field_ends(len(envelope))
    return b"".join((data, before, envelope, after))


class ReplyDeserializer:
    """Cuts the history off one reply and changes its message for a fault with this outcome."""

    __slots__ = ("deserializer", "history", "is_received", "outcome")

    def __init__(self, deserializer: Optional[Callable[[bytes], Any]], outcome: str = "") -> None:
        self.deserializer, self.outcome = deserializer, outcome
        self.is_received = False
        self.history: Optional[bytes] = None

    def __call__(self, data: bytes) -> Any:
        data, self.history = cut_field(data)
        self.is_received = True
        data = changed_body(self.outcome, data)
        return data if self.deserializer is None else self.deserializer(data)


def blocking_function(inner: Any) -> Any:
    """The function by which the library's own multi-callable makes a call and waits for its end.

    None if it has no such function, or if its ``__call__`` was replaced by somebody else.
    """
    call = getattr(type(inner).__call__, "__code__", None)
    return getattr(inner, "_blocking", None) if call is not None and call.co_filename == _LIBRARY_FILE else None


class TracedUnaryUnary(grpc.UnaryUnaryMultiCallable):
    """The multi-callable that stubs call.

    ``untraced`` makes an untraced one for the same method, with another deserializer and, optionally, serializer.
    """

    _in_pieces = False

    def __init__(self, inner: Any, untraced: Callable[..., Any], serializer: Any, deserializer: Any, name: str, target: Target) -> None:
        self._inner = inner
        self._untraced = untraced
        self._serializer = serializer
        self._deserializer = deserializer
        self._name = name
        self._target = target
        self._callee = METADATA_ONLY if self._in_pieces else target.callee(name)
        self._plain = None if self._in_pieces else blocking_function(inner)
        # multi-callables whose replies are (message, history), and their blocking functions
        self._pairs: Any = None
        self._blocking: Any = None
        # the same for requests that are serialized already
        self._serialized_pairs: Any = None
        self._serialized_blocking: Any = None

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)

    def __call__(
        self, request: Any, timeout: Any = None, metadata: Any = None, credentials: Any = None, wait_for_ready: Any = None, compression: Any = None
    ) -> Any:
        scope = CURRENT_SCOPE.get()
        if scope is None or scope.is_finished:
            if OPEN_SCOPES and is_lost():
                count_unscoped(False, self._target.peer, self._name)
            plain = self._plain
            if plain is None:
                return self._inner(request, timeout, metadata, credentials, wait_for_ready, compression)
            # the body of the library's ``__call__``: an untraced call costs no more function calls than without hooks
            state, _ = plain(request, timeout, metadata, credentials, wait_for_ready, compression)
            if state.code is _OK:
                return state.response
            raise _InactiveRpcError(state)
        # the steps of an ordinary call are inline: function calls would cost more than the steps
        target = self._target
        call = scope.begin_call(False, target.peer, self._name, target.accepts, call_flags(scope))
        if call is None:
            return self._inner(request, timeout, metadata, credentials, wait_for_ready, compression)
        if call.fault is not None:
            return self._call_with_fault(scope, call, time.sleep, request, timeout, metadata, credentials, wait_for_ready, compression)[0]
        callee, accepted, envelope = self._callee, scope.envelope, call.envelope
        data: Optional[bytes] = None
        if callee.flag and accepted.history and not accepted.bridge:
            data = serialize_with_envelope(request, self._serializer, call)
        if data is not None:
            request = data
            blocking = self._serialized_blocking or self._find_blocking(True)
        else:
            blocking = self._blocking or self._find_blocking(False)
        if blocking is None:
            rest = (credentials, wait_for_ready, compression)
            return self._call_unchanged(scope, call, data is not None, request, timeout, metadata, *rest)[0]
        if metadata or envelope is None or accepted.bridge:
            metadata = status.outgoing_metadata(metadata, scope, call)
        elif not call.in_field:
            metadata = ((GRPC_KEY, envelope),)
        # like ``_call_unchanged``, without the object that the library creates for an ended call
        try:
            state, _ = blocking(request, timeout, metadata, credentials, wait_for_ready, compression)
            if state.code is not _OK:
                raise _InactiveRpcError(state)
        except grpc.RpcError as error:
            self._record(scope, call, None, None, error)
            raise
        except BaseException:
            self._record_interruption(scope, call)
            raise
        message, history = state.response or _NO_PAIR
        if history is None:
            history = status.history_in(state.trailing_metadata)
        if history is None or len(history) <= HEAD_BYTES or history[HEAD_BYTES] & TAKES_FIELD != callee.flag:
            callee.update(call, True, history)
        scope.record_end(RECV_RESPONSE, call.number, 0, history, history is None)
        return message

    def with_call(self, request: Any, timeout: Any = None, metadata: Any = None, *args: Any, **kwargs: Any) -> Any:
        scope, call = self._target.begin_call(self._name)
        if scope is None or call is None:
            return self._inner.with_call(request, timeout, metadata, *args, **kwargs)
        if call.fault is not None:
            return self._call_with_fault(scope, call, time.sleep, request, timeout, metadata, *args, **kwargs)
        request, serialized = self._request(scope, call, request)
        return self._call_unchanged(scope, call, serialized, request, timeout, metadata, *args, **kwargs)

    def future(self, request: Any, timeout: Any = None, metadata: Any = None, *args: Any, **kwargs: Any) -> Any:
        scope, call = self._target.begin_call(self._name)
        if scope is None or call is None:
            return self._inner.future(request, timeout, metadata, *args, **kwargs)
        if call.fault is not None:
            effect = fault_effect("grpc", call.fault, to_timeout_ms(timeout))
            if not effect.sends and not effect.wait_ms:
                return fail_not_sent(scope, call, effect, self._target)
            job = BackgroundCall(timeout)
            return job.start(lambda: self._call_with_fault(scope, call, job.wait, request, timeout, metadata, *args, **kwargs))
        request, serialized = self._request(scope, call, request)
        metadata = status.outgoing_metadata(metadata, scope, call)
        try:
            future = self._pair_callable(serialized).future(request, timeout, metadata, *args, **kwargs)
        except BaseException:
            scope.record_failure(call.number, UNKNOWN, None, True)
            raise
        return TracedFuture(future, lambda pair, ended, error: self._record(scope, call, pair, ended, error))

    def _request(self, scope: Scope, call: OutgoingCall, request: Any) -> Tuple[Any, bool]:
        """The request to send, and whether it is serialized. Determines whether the metadata carries the envelope."""
        accepted = scope.envelope
        takes = self._callee.flag and accepted.history and not accepted.bridge
        data = serialize_with_envelope(request, self._serializer, call) if takes else None
        return (request, False) if data is None else (data, True)

    def _pair_callable(self, serialized: bool) -> Any:
        if self._pairs is None:
            pair = field_cutter(self._deserializer)
            self._pairs = self._untraced(pair)
            self._serialized_pairs = self._pairs if self._serializer is None else self._untraced(pair, None)
        return self._serialized_pairs if serialized else self._pairs

    def _find_blocking(self, serialized: bool) -> Any:
        """The library's function that makes a call and waits for its end. None for streams, or if it has none."""
        blocking = None if self._in_pieces else getattr(self._pair_callable(serialized), "_blocking", None)
        if serialized:
            self._serialized_blocking = blocking
        else:
            self._blocking = blocking
        return blocking

    def _call_with_fault(
        self, scope: Scope, call: OutgoingCall, sleep: Any, request: Any, timeout: Any, metadata: Any, *args: Any, **kwargs: Any
    ) -> Tuple[Any, Any]:
        effect = fault_effect("grpc", call.fault, to_timeout_ms(timeout))
        deadline = None if timeout is None else time.monotonic() + timeout
        completed = wait_for_fault(scope, effect.wait_ms / 1000, sleep)
        if not effect.sends_after_wait(completed):
            raise fail_not_sent(scope, call, effect, self._target)
        timeout = None if deadline is None else max(0.0, deadline - time.monotonic())
        request, serialized = self._request(scope, call, request)
        if effect.outcome in CHANGED_REPLIES:
            return self._call_changed(scope, call, effect, serialized, request, timeout, metadata, *args, **kwargs)
        return self._call_unchanged(scope, call, serialized, request, timeout, metadata, *args, **kwargs)

    def _call_unchanged(
        self, scope: Scope, call: OutgoingCall, serialized: bool, request: Any, timeout: Any, metadata: Any, *args: Any, **kwargs: Any
    ) -> Tuple[Any, Any]:
        metadata = status.outgoing_metadata(metadata, scope, call)
        try:
            pair, ended = self._pair_callable(serialized).with_call(request, timeout, metadata, *args, **kwargs)
        except grpc.RpcError as error:
            self._record(scope, call, None, None, error)
            raise
        except BaseException:
            self._record_interruption(scope, call)
            raise
        return self._record(scope, call, pair, ended, None), ended

    def _call_changed(
        self, scope: Scope, call: OutgoingCall, effect: FaultEffect, serialized: bool, request: Any, timeout: Any, metadata: Any,
        *args: Any, **kwargs: Any,
    ) -> Tuple[Any, Any]:  # fmt: skip
        """A call whose reply is changed or lost."""
        reply = ReplyDeserializer(self._deserializer, effect.outcome)
        failure: Any = None
        message = ended = None
        metadata = status.outgoing_metadata(metadata, scope, call)
        multi_callable = self._untraced(reply, None) if serialized else self._untraced(reply)
        try:
            message, ended = multi_callable.with_call(request, timeout, metadata, *args, **kwargs)
        except grpc.RpcError as error:
            ended = failure = error
        except BaseException:
            self._record_interruption(scope, call)
            raise
        history, has_trailer = self._history(reply.history, ended.trailing_metadata, call.id)
        is_reply = failure is None or is_reply_error(failure, has_trailer)
        self._callee.update(call, is_reply, history)
        # a message arrived, so its status is not the callee's: the library could not parse the changed bytes
        code = 0 if failure is None or (is_reply and reply.is_received) else status.number_of(failure.code())
        result = reply_effect("grpc", call.fault, CallResult(is_reply, code, history is not None))
        record_effect(scope, call.number, result, history)
        if result.outcome == RESET:
            raise status.error(*status.LOST_REPLY)
        if failure is not None:
            raise failure
        return message, ended

    def _record_interruption(self, scope: Scope, call: OutgoingCall) -> None:
        self._callee.update(call, False, None)
        scope.record_failure(call.number, CANCELED, None, True)

    def _record(self, scope: Scope, call: OutgoingCall, pair: Any, ended: Any, error: Any) -> Any:
        """Records the end of a call with an unchanged reply. Returns the message of ``pair``."""
        if error is None:
            message, history = pair if pair is not None else _NO_PAIR
            if history is None or self._in_pieces:
                history, _ = self._history(history, ended.trailing_metadata, call.id)
            self._callee.update(call, True, history)
            scope.record_reply(call.number, 0, history, history is None)
            return message
        if not isinstance(error, grpc.Call):
            self._callee.update(call, False, None)
            scope.record_failure(call.number, UNKNOWN, None, True)
            return None
        history, has_trailer = self._history(_history_of_message(error), error.trailing_metadata, call.id)
        is_reply = is_reply_error(error, has_trailer)
        self._callee.update(call, is_reply, history)
        record = scope.record_reply if is_reply else scope.record_failure
        record(call.number, status.number_of(error.code()), history, history is None)
        return None

    def _history(self, of_message: Optional[bytes], trailers: Callable[[], Any], call: int) -> Tuple[Optional[bytes], bool]:
        """The history of an ended call, and whether its trailer carried one: then the callee has replied."""
        in_trailer = status.history_in(trailers())
        return (in_trailer if of_message is None else of_message), in_trailer is not None


class TracedStreamUnary(TracedUnaryUnary, grpc.StreamUnaryMultiCallable):
    """A stream of requests: the history comes in pieces, one with the message, one in the trailer."""

    _in_pieces = True

    def _history(self, of_message: Optional[bytes], trailers: Callable[[], Any], call: int) -> Tuple[Optional[bytes], bool]:
        joiner = PieceJoiner(call)
        if of_message is not None:
            joiner.add(of_message)
        joiner.add_trailer(trailers())
        return joiner.history(), joiner.is_complete


def _history_of_message(error: Any) -> Optional[bytes]:
    """The history on the message of a call whose status was lost: the library's error keeps the message."""
    pair = getattr(getattr(error, "_state", None), "response", None)
    return pair[1] if pair is not None else None


def is_reply_error(error: Any, has_trailer: bool) -> bool:
    """Like ``status.is_reply``, for an error raised by grpcio.

    One without a code was raised before the request was sent.
    """
    return isinstance(error, grpc.Call) and status.is_reply(status.number_of(error.code()), has_trailer)
