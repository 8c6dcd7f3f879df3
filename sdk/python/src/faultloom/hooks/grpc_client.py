"""grpcio's synchronous client, under the application's own interceptors: calls with one reply message (streams of replies
are in ``grpc_stream.py``).

``Channel.unary_unary`` and ``Channel.stream_unary`` return our multi-callable around the library's. Outside a scope calls go to an untouched one.
Inside, the deserializer returns (message, history), because gRPC may run it on another thread than the caller's;
a fault that changes the reply uses a deserializer of its own for that one call.

To a callee that has said so, an envelope goes behind the request's message instead of into the metadata. Such a request
is serialized here and sent by a multi-callable that leaves it as it is.
"""

from __future__ import annotations

import threading
import time
from typing import Any, Callable, Dict, NamedTuple, Optional, Tuple

import grpc
from grpc._channel import _InactiveRpcError

from ..carriers import GRPC_KEY, corrupt, cut_field, field_cutter, field_ends
from ..context import CURRENT, current
from ..envelope import ACCEPT_FIELD, accepting
from ..history import HEAD_BYTES, RECV_RESPONSE, TAKES_FIELD, takes_field
from ..names import grpc_authority
from ..pieces import Joiner
from ..runtime import hold, runtime, wait_seconds
from ..scope import Scope, Send
from . import grpc_status as status
from .patching import Patch


_OK = grpc.StatusCode.OK
_LIBRARY = _InactiveRpcError.__init__.__code__.co_filename
_NOTHING = (None, None)


class Callee:
    """What a channel knows of one method: whether its requests may have their envelope in a field."""

    __slots__ = ("flag", "never")

    def __init__(self, never: bool = False) -> None:
        #: TAKES_FIELD if they may, else 0
        self.flag = 0
        #: something between here and there has not let a field through
        self.never = never

    def learn(self, send: Send, replied: bool, history: Optional[bytes]) -> None:
        """From how a call of this method ended."""
        with _lock:
            if self.never:
                return
            if not replied:
                if send.in_field:
                    self.flag = 0
            elif history is not None and history[:HEAD_BYTES] == send.head:
                self.flag = TAKES_FIELD if takes_field(history) else 0
            elif send.in_field:
                self.flag, self.never = 0, True


METHODS_MAX = 1024
#: of methods whose envelopes always travel in metadata
METADATA_ONLY = Callee(never=True)
_lock = threading.Lock()


class Target(NamedTuple):
    """What a channel leads to, worked out once per channel."""

    peer: str
    authority: str
    #: what its envelopes say about the reply (``accepting``)
    accepts: bytes
    #: None: replies or requests have no room for a field
    callees: Optional[Dict[str, Callee]]

    def callee(self, name: str) -> Callee:
        callees = self.callees
        if callees is None:
            return METADATA_ONLY
        known = callees.get(name)
        if known is None:
            with _lock:
                known = callees.setdefault(name, Callee()) if len(callees) < METHODS_MAX else METADATA_ONLY
        return known

    def send(self, scope: Scope, name: str) -> Optional[Send]:
        return scope.send(False, self.peer, name, self.accepts)


def patch(patch: Patch, module: Any) -> None:
    """``module``: grpc._channel."""
    from .grpc_stream import TracedStreams

    channel = module.Channel
    init = channel.__init__

    def init_and_note(self: Any, target: str, options: Any, *args: Any, **kwargs: Any) -> None:
        options = tuple(options or ())
        init(self, target, options, *args, **kwargs)
        self._faultloom_target = target_of(target, status.receive_limit(options), status.sends_fields(options))

    def traced(make: Any, cls: Any) -> Any:
        def traced_multi_callable(self: Any, method: Any, request_serializer: Any = None, response_deserializer: Any = None, *args: Any, **kwargs: Any) -> Any:
            inner = make(self, method, request_serializer, response_deserializer, *args, **kwargs)
            try:
                target = self.__dict__.get("_faultloom_target") or target_of(self._channel.target().decode(), 0, False)
            except Exception:
                return inner

            def untraced(deserializer: Any, serializer: Any = request_serializer) -> Any:
                return make(self, method, serializer, deserializer, *args, **kwargs)

            name = method.decode() if isinstance(method, bytes) else method
            return cls(inner, untraced, request_serializer, response_deserializer, name, target)

        return traced_multi_callable

    patch.replace(channel, "__init__", init_and_note)
    for name, cls in (
        ("unary_unary", TracedUnaryUnary), ("stream_unary", TracedStreamUnary),
        ("unary_stream", TracedStreams), ("stream_stream", TracedStreams),
    ):  # fmt: skip
        patch.replace(channel, name, traced(getattr(channel, name), cls))


def target_of(target: Any, receive_limit: int, sends_fields: bool) -> Target:
    authority = grpc_authority(target.decode() if isinstance(target, bytes) else str(target))
    accepts = accepting(ACCEPT_FIELD if receive_limit else 0, receive_limit)
    return Target(runtime().peer(authority), authority, accepts, {} if receive_limit and sends_fields else None)


def serialized(request: Any, serializer: Optional[Callable[[Any], bytes]], send: Send) -> Optional[bytes]:
    """The request's bytes, with the envelope behind them unless they are too many. None: the library shall tell why there are none."""
    try:
        data = request if serializer is None else serializer(request)
    except Exception:
        return None
    if type(data) is not bytes:
        return None
    envelope = send.envelope
    if envelope is None or len(data) > status.FIELD_MESSAGE_BYTES:
        return data
    send.in_field = True
    before, behind = field_ends(len(envelope))
    return b"".join((data, before, envelope, behind))


class Reply:
    """Takes the history out of one reply; ``history`` is there once the message was deserialized."""

    __slots__ = ("came", "deserializer", "history", "kind")

    def __init__(self, deserializer: Optional[Callable[[bytes], Any]], kind: str = "") -> None:
        self.deserializer, self.kind = deserializer, kind
        self.came = False
        self.history: Optional[bytes] = None

    def __call__(self, data: bytes) -> Any:
        data, self.history = cut_field(data)
        self.came = True
        if self.kind == "empty-reply":
            data = b""
        elif self.kind == "corrupt-reply":
            data = corrupt(data)
        return data if self.deserializer is None else self.deserializer(data)


def waiting(inner: Any) -> Any:
    """The function by which the library's own call waits for its end; None where it has no such function, or where the call is not the
    library's own any more."""
    call = getattr(type(inner).__call__, "__code__", None)
    return getattr(inner, "_blocking", None) if call is not None and call.co_filename == _LIBRARY else None


class TracedUnaryUnary(grpc.UnaryUnaryMultiCallable):
    """What stubs call. ``untraced`` makes an untraced multi-callable for the same method, with another deserializer and perhaps serializer."""

    _in_pieces = False

    def __init__(self, inner: Any, untraced: Callable[..., Any], serializer: Any, deserializer: Any, name: str, target: Target) -> None:
        self._inner = inner
        self._untraced = untraced
        self._serializer = serializer
        self._deserializer = deserializer
        self._name = name
        self._target = target
        self._callee = METADATA_ONLY if self._in_pieces else target.callee(name)
        self._plain = None if self._in_pieces else waiting(inner)
        self._pairs: Any = None
        self._blocking: Any = None
        # as those two, for requests that are serialized already
        self._serialized_pairs: Any = None
        self._serialized_blocking: Any = None

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)

    def __call__(
        self, request: Any, timeout: Any = None, metadata: Any = None, credentials: Any = None, wait_for_ready: Any = None, compression: Any = None
    ) -> Any:
        scope = CURRENT.get()
        if scope is None or scope.over:
            plain = self._plain
            if plain is None:
                return self._inner(request, timeout, metadata, credentials, wait_for_ready, compression)
            # as the library's own call; so this function costs none more than without us
            state, _ = plain(request, timeout, metadata, credentials, wait_for_ready, compression)
            if state.code is _OK:
                return state.response
            raise _InactiveRpcError(state)
        # every step of an ordinary call is taken here: in a busy process functions cost more than what they do
        target = self._target
        send = scope.send(False, target.peer, self._name, target.accepts)
        if send is None:
            return self._inner(request, timeout, metadata, credentials, wait_for_ready, compression)
        if send.fault is not None:
            return self._run(scope, send, time.sleep, request, timeout, metadata, credentials, wait_for_ready, compression)[0]
        callee, given, envelope = self._callee, scope.envelope, send.envelope
        data: Optional[bytes] = None
        if callee.flag and given.history and not given.bridge:
            data = serialized(request, self._serializer, send)
        if data is not None:
            request = data
            blocking = self._serialized_blocking or self._blocking_callable(True)
        else:
            blocking = self._blocking or self._blocking_callable(False)
        if blocking is None:
            rest = (credentials, wait_for_ready, compression)
            return self._unchanged_reply(scope, send, data is not None, request, timeout, metadata, *rest)[0]
        if metadata or envelope is None or given.bridge:
            metadata = status.outgoing(metadata, scope, send)
        elif not send.in_field:
            metadata = ((GRPC_KEY, envelope),)
        # as ``_unchanged_reply``, without the object that the library makes for the ended call
        try:
            state, _ = blocking(request, timeout, metadata, credentials, wait_for_ready, compression)
            if state.code is not _OK:
                raise _InactiveRpcError(state)
        except grpc.RpcError as error:
            self._record(scope, send, None, None, error)
            raise
        except BaseException:
            self._interrupted(scope, send)
            raise
        message, history = state.response or _NOTHING
        if history is None:
            history = status.history_in(state.trailing_metadata, send.id)
        if history is None or len(history) <= HEAD_BYTES or history[HEAD_BYTES] & TAKES_FIELD != callee.flag:
            callee.learn(send, True, history)
        scope.ended(RECV_RESPONSE, send.number, 0, history, history is None)
        return message

    def with_call(self, request: Any, timeout: Any = None, metadata: Any = None, *args: Any, **kwargs: Any) -> Any:
        scope = current()
        if scope is None:
            return self._inner.with_call(request, timeout, metadata, *args, **kwargs)
        return self._with_call(scope, request, timeout, metadata, *args, **kwargs)

    def future(self, request: Any, timeout: Any = None, metadata: Any = None, *args: Any, **kwargs: Any) -> Any:
        scope = current()
        send = None if scope is None else self._target.send(scope, self._name)
        if scope is None or send is None:
            return self._inner.future(request, timeout, metadata, *args, **kwargs)
        from . import grpc_future

        fault = send.fault
        if fault is None:
            request, serialized = self._request(scope, send, request)
            metadata = status.outgoing(metadata, scope, send)
            try:
                future = self._pair_callable(serialized).future(request, timeout, metadata, *args, **kwargs)
            except BaseException:
                scope.failed(send.number, 2, None, True)
                raise
            return grpc_future.TracedFuture(future, lambda pair, call, error: self._record(scope, send, pair, call, error))
        if fault.kind in ("unavailable", "status", "deadline", "reset"):
            return refuse(scope, send, self._target)
        job = grpc_future.BackgroundCall(timeout)
        return job.start(lambda: self._run(scope, send, job.wait, request, timeout, metadata, *args, **kwargs))

    def _request(self, scope: Scope, send: Send, request: Any) -> Tuple[Any, bool]:
        """The request to send, and whether it is serialized; to be asked before its metadata is made."""
        given = scope.envelope
        takes = self._callee.flag and given.history and not given.bridge
        data = serialized(request, self._serializer, send) if takes else None
        return (request, False) if data is None else (data, True)

    def _pair_callable(self, serialized: bool) -> Any:
        if self._pairs is None:
            pair = field_cutter(self._deserializer)
            self._pairs = self._untraced(pair)
            self._serialized_pairs = self._pairs if self._serializer is None else self._untraced(pair, None)
        return self._serialized_pairs if serialized else self._pairs

    def _with_call(self, scope: Scope, request: Any, timeout: Any, metadata: Any, *args: Any, **kwargs: Any) -> Tuple[Any, Any]:
        send = self._target.send(scope, self._name)
        if send is None:
            result: Tuple[Any, Any] = self._inner.with_call(request, timeout, metadata, *args, **kwargs)
            return result
        if send.fault is None:
            request, serialized = self._request(scope, send, request)
            return self._unchanged_reply(scope, send, serialized, request, timeout, metadata, *args, **kwargs)
        return self._run(scope, send, time.sleep, request, timeout, metadata, *args, **kwargs)

    def _run(self, scope: Scope, send: Send, wait: Any, request: Any, timeout: Any, metadata: Any, *args: Any, **kwargs: Any) -> Tuple[Any, Any]:
        """A call that a fault fires at."""
        fault = send.fault
        assert fault is not None
        kind = fault.kind
        if kind in ("unavailable", "status", "deadline", "reset"):
            raise refuse(scope, send, self._target)
        if kind in ("delay", "hang"):
            seconds = wait_seconds(fault)
            deadline = None if timeout is None else time.monotonic() + timeout
            lasted = hold(scope, seconds if timeout is None else min(seconds, timeout), wait)
            if kind == "hang" or (lasted and timeout is not None and timeout <= seconds):
                scope.failed(send.number, 4)
                raise status.error(grpc.StatusCode.DEADLINE_EXCEEDED, "Deadline Exceeded")
            timeout = None if deadline is None else max(0.0, deadline - time.monotonic())
        request, serialized = self._request(scope, send, request)
        if kind == "delay":
            return self._unchanged_reply(scope, send, serialized, request, timeout, metadata, *args, **kwargs)
        return self._changed_reply(scope, send, kind, serialized, request, timeout, metadata, *args, **kwargs)

    def _blocking_callable(self, serialized: bool) -> Any:
        """The library's function that makes a call and waits for its end; None: a stream's, or it has no such function."""
        blocking = None if self._in_pieces else getattr(self._pair_callable(serialized), "_blocking", None)
        if serialized:
            self._serialized_blocking = blocking
        else:
            self._blocking = blocking
        return blocking

    def _unchanged_reply(
        self, scope: Scope, send: Send, serialized: bool, request: Any, timeout: Any, metadata: Any, *args: Any, **kwargs: Any
    ) -> Tuple[Any, Any]:
        metadata = status.outgoing(metadata, scope, send)
        try:
            pair, call = self._pair_callable(serialized).with_call(request, timeout, metadata, *args, **kwargs)
        except grpc.RpcError as error:
            self._record(scope, send, None, None, error)
            raise
        except BaseException:
            self._interrupted(scope, send)
            raise
        return self._record(scope, send, pair, call, None), call

    def _changed_reply(
        self, scope: Scope, send: Send, kind: str, serialized: bool, request: Any, timeout: Any, metadata: Any, *args: Any, **kwargs: Any
    ) -> Tuple[Any, Any]:
        reply = Reply(self._deserializer, kind)
        failure: Any = None
        message = call = None
        metadata = status.outgoing(metadata, scope, send)
        multi_callable = self._untraced(reply, None) if serialized else self._untraced(reply)
        try:
            message, call = multi_callable.with_call(request, timeout, metadata, *args, **kwargs)
        except grpc.RpcError as error:
            failure = error
        except BaseException:
            self._interrupted(scope, send)
            raise
        ended: Any = call if failure is None else failure
        history, told = self._history(reply.history, ended.trailing_metadata, send.id)
        replied = failure is None or is_reply(failure, told)
        self._callee.learn(send, replied, history)
        if kind == "lost-reply" and replied:
            scope.failed(send.number, 14, history, history is None)
            assert send.fault is not None
            raise status.error(*status.outcome(send.fault, self._target.authority))
        # what the library makes of the corrupted bytes of a message that came is not the callee's
        code = 0 if failure is None or (replied and reply.came) else status.number_of(failure.code())
        (scope.replied if replied else scope.failed)(send.number, code, history, history is None)
        if failure is not None:
            raise failure
        return message, call

    def _interrupted(self, scope: Scope, send: Send) -> None:
        self._callee.learn(send, False, None)
        scope.failed(send.number, 1, None, True)

    def _record(self, scope: Scope, send: Send, pair: Any, call: Any, error: Any) -> Any:
        """Records how a call without a changed reply ended; the message of ``pair``."""
        if error is None:
            message, history = pair if pair is not None else (None, None)
            if history is None or self._in_pieces:
                history, _ = self._history(history, call.trailing_metadata, send.id)
            self._callee.learn(send, True, history)
            scope.replied(send.number, 0, history, history is None)
            return message
        if not isinstance(error, grpc.Call):
            self._callee.learn(send, False, None)
            scope.failed(send.number, 2, None, True)
            return None
        history, told = self._history(_carried(error), error.trailing_metadata, send.id)
        replied = is_reply(error, told)
        self._callee.learn(send, replied, history)
        record = scope.replied if replied else scope.failed
        record(send.number, status.number_of(error.code()), history, history is None)
        return None

    def _history(self, carried: Optional[bytes], trailers: Callable[[], Any], call: int) -> Tuple[Optional[bytes], bool]:
        """The history of a call that ended, and whether its trailer brought one: then the callee has answered."""
        told = status.history_in(trailers(), call)
        return (told if carried is None else carried), told is not None


class TracedStreamUnary(TracedUnaryUnary, grpc.StreamUnaryMultiCallable):
    """A stream of requests: the history comes in pieces, one with the message, one in the trailer."""

    _in_pieces = True

    def _history(self, carried: Optional[bytes], trailers: Callable[[], Any], call: int) -> Tuple[Optional[bytes], bool]:
        joiner = Joiner(call)
        if carried is not None:
            joiner.add(carried)
        joiner.add_trailer(trailers())
        return joiner.history(), joiner.ended


def _carried(error: Any) -> Optional[bytes]:
    """The history that came with the message of a call whose status was lost: the library's error keeps what it has read."""
    pair = getattr(getattr(error, "_state", None), "response", None)
    return pair[1] if pair is not None else None


def refuse(scope: Scope, send: Send, target: Target) -> Any:
    """The error of a fault that fires before anything is sent; recorded."""
    fault = send.fault
    assert fault is not None
    code, details = status.outcome(fault, target.authority)
    if fault.kind == "status":
        scope.replied(send.number, fault.arg)
    else:
        scope.failed(send.number, status.number_of(code))
    return status.error(code, details)


def is_reply(error: Any, told: bool) -> bool:
    """As ``status.is_reply``, for an error as grpcio raises it; one without a code never left this side."""
    return isinstance(error, grpc.Call) and status.is_reply(status.number_of(error.code()), told)
