"""Handlers of grpcio servers that run inside the scope of the call they answer. ``aio_server`` uses most of it too.

A stream without an envelope gets the application's own handler object. The answer of a unary call is recorded when its
message is serialized: the last moment at which both the message and the trailers can be changed. The answer of a stream
of replies is recorded when its handler has ended. A reply message is serialized where the handler is called, which
takes one function call less per request than a serializer of ours.

The envelope of a unary call may be in its message. The deserializer, on the thread that serves all calls, takes it out
and passes it to the handler together with the message.
"""

from __future__ import annotations

import functools
import logging
from time import perf_counter_ns, time_ns
from typing import Any, Callable, Dict, Iterator, Optional

import grpc
from grpc._utilities import RpcMethodHandler

from ...scope.current import CURRENT_SCOPE
from ...scope.scope import Scope
from ...wire.carriers import MAGIC, TRAILER_BYTES, encode_field, field_cutter, field_ends
from ...wire.envelope import ACCEPT_FIELD
from ...wire.history import HISTORY_BYTES, TAKES_FIELD, truncate_history
from ..faults import INTERNAL, UNKNOWN
from ..process import this_process
from . import status


class ServerReply:
    """Finishes the scope of one RPC and puts the history on its reply."""

    def __init__(self, scope: Scope) -> None:
        self.scope = scope

    def serializer(self, inner: Optional[Callable[[Any], bytes]], contexts: Dict[str, Any]) -> Callable[[Any], bytes]:
        """The handler's serializer, which appends the history.

        ``contexts`` has the RPC's context when a message is serialized.
        """
        return lambda message: self.serialize(inner, message, contexts["context"])

    def serialize(self, inner: Optional[Callable[[Any], bytes]], message: Any, context: Any) -> bytes:
        try:
            data: bytes = message if inner is None else inner(message)
        except BaseException:
            self.finish_with_error(INTERNAL, context)
            raise
        if not isinstance(data, bytes):
            self.finish_with_error(INTERNAL, context)
            return data
        return self.finish_with_message(data, context)

    def finish_if_failed(self, context: Any) -> None:
        """A handler may set an error code and return. There is no message to carry the history then."""
        code = status.number_of(context.code())
        if code:
            self.finish_with_error(code, context)

    def finish_with_message(self, data: bytes, context: Any) -> bytes:
        """The message to send, with the history appended if the caller accepts that; otherwise sets the trailer."""
        return self.attach_history(self.scope.finish(0), data, context)

    def attach_history(self, history: Optional[bytes], data: bytes, context: Any) -> bytes:
        envelope = self.scope.envelope
        if history is None or not envelope.history:
            return data
        if envelope.accept & ACCEPT_FIELD:
            content = history if len(history) <= HISTORY_BYTES else truncate_history(history, HISTORY_BYTES)
            if content is not None:
                with_field = data + encode_field(content)
                if len(with_field) <= envelope.receive_limit:
                    return with_field
        trailer = truncate_history(history, TRAILER_BYTES)
        if trailer is not None:
            context.set_trailing_metadata(status.with_own(context.trailing_metadata(), trailer))
        return data

    def finish_with_error(self, code: int, context: Any) -> None:
        trailer = self.finish_with_trailer(code)
        if trailer is not None:
            context.set_trailing_metadata(status.with_own(context.trailing_metadata(), trailer))

    def finish_with_trailer(self, code: int) -> Optional[bytes]:
        """Finishes the scope with an error. Returns the value of the trailer, if one is to be sent."""
        history = self.scope.finish(code)
        return truncate_history(history, TRAILER_BYTES) if history is not None and self.scope.envelope.history else None


class ServerStreamReply(ServerReply):
    """For a call with a stream on either side: each message carries a piece of the history."""

    def __init__(self, scope: Scope, one_message: bool) -> None:
        super().__init__(scope)
        self._one_message = one_message

    def finish_if_failed(self, context: Any) -> None:
        code = status.number_of(context.code())
        if code or not self._one_message:
            self.finish_with_error(code, context)

    def finish_with_message(self, data: bytes, context: Any) -> bytes:
        piece = self.scope.next_piece(len(data))
        if self._one_message:
            self.finish_with_error(0, context)
        return data if piece is None else data + encode_field(piece)

    def finish_with_trailer(self, code: int) -> Optional[bytes]:
        return self.scope.last_piece(code)


#: for one reply to a stream of requests
ServerSingleReply = functools.partial(ServerStreamReply, one_message=True)


def server_reply_for(handler: Any, scope: Scope) -> ServerReply:
    if handler.request_streaming or handler.response_streaming:
        return ServerStreamReply(scope, not handler.response_streaming)
    return ServerReply(scope)


#: attributes of the application's handler that cache ours, for servers that do not announce fields and those that do
CACHE_ATTRIBUTES = ("_faultloom", "_faultloom_takes")


def handler_for(handler: Any, scope: Optional[Scope], takes: bool) -> Any:
    """Our handler for one that the application's interceptors and functions returned.

    With one reply message it is the same for every call, and cached. ``takes``: the server announces fields.
    """
    if handler is not None and scope is None and (handler.request_streaming or handler.response_streaming):
        return handler
    behavior = behavior_of(handler)
    if behavior is None or getattr(behavior, "experimental_non_blocking", False):
        if scope is not None:
            scope.abandon()
        return handler
    if scope is not None and handler.response_streaming:
        return reply_stream_handler(handler, behavior, scope)
    ours = traced_handler(handler, behavior, TAKES_FIELD if takes else 0)
    cache_on(handler, CACHE_ATTRIBUTES[takes], ours)
    return ours


def cache_on(handler: Any, attribute: str, ours: Any) -> None:
    """Caches our handler on the library's immutable class only: a copy of a mutable handler would keep an outdated one.
    """
    if type(handler) is RpcMethodHandler:
        setattr(handler, attribute, ours)


def behavior_of(handler: Any) -> Any:
    """The application's function in a handler, or None."""
    if handler is None:
        return None
    if handler.request_streaming:
        return handler.stream_stream if handler.response_streaming else handler.stream_unary
    return handler.unary_stream if handler.response_streaming else handler.unary_unary


class RequestWithEnvelope(tuple):  # type: ignore[type-arg]
    """A request whose message carried its envelope: (message, envelope, µs since the epoch, ns of ``perf_counter_ns``).
    """

    __slots__ = ()


class EnvelopeCutter:
    """The handler's deserializer, which first cuts off an envelope after the message. It is verified later."""

    __slots__ = ("_cut", "plain")

    def __init__(self, plain: Optional[Callable[[bytes], Any]]) -> None:
        self.plain = plain
        self._cut = field_cutter(plain)

    def __call__(self, data: bytes) -> Any:
        if data[-4:] == MAGIC:
            return self.cut(data)
        return data if self.plain is None else self.plain(data)

    def cut(self, data: bytes) -> Any:
        """For bytes that end like an envelope in a field."""
        start_us, start_ns = time_ns() // 1000, perf_counter_ns()
        message, envelope = self._cut(data)
        return message if envelope is None or message is None else RequestWithEnvelope((message, envelope, start_us, start_ns))


def traced_handler(handler: Any, behavior: Any, takes_field: int) -> Any:
    """For one reply message. Serves every call, traced or not; the scope is that of the call's context."""
    reply: Callable[[Scope], ServerReply] = ServerReply
    deserializer = EnvelopeCutter(handler.request_deserializer)
    if handler.request_streaming:
        reply, deserializer, takes_field = ServerSingleReply, handler.request_deserializer, 0
    open_field_scope = this_process().open_field_scope
    serializer = handler.response_serializer
    serialize = finishing_serializer(serializer, reply)

    def run(request: Any, context: Any) -> Any:
        scope = CURRENT_SCOPE.get()
        if type(request) is RequestWithEnvelope:
            request, envelope, start_us, start_ns = request
            scope = open_field_scope(envelope, context.invocation_metadata, scope, start_us, start_ns)
            CURRENT_SCOPE.set(scope)
        if scope is None:
            message = behavior(request, context)
            try:
                return message if serializer is None else serializer(message)
            except Exception:
                return log_serialization_error()
        scope.server_context = context
        if scope.destination is None:
            scope.takes_field = takes_field
        try:
            message = behavior(request, context)
        except BaseException:
            scope.server_context = None
            reply(scope).finish_with_error(status.number_of(context.code()) or UNKNOWN, context)
            raise
        try:
            code = context._state.code  # avoids the function call of ``code()``
        except AttributeError:
            code = context.code()
        if code is not None:
            reply(scope).finish_if_failed(context)
        try:
            return serialize(message)
        except Exception:
            return log_serialization_error()

    pool = getattr(behavior, "experimental_thread_pool", None)
    if pool is not None:  # the library reads the pool that runs a handler from its function
        run.experimental_thread_pool = pool  # type: ignore[attr-defined]
    return method_handler(handler, run, None, deserializer)


def log_serialization_error() -> None:
    """What the library does when a serializer fails: it logs the error, and answers INTERNAL to a message that is None.
    """
    logging.getLogger("grpc._common").exception("Exception serializing message!")


def finishing_serializer(
    serializer: Optional[Callable[[Any], bytes]], reply: Callable[[Scope], ServerReply] = ServerReply
) -> Callable[[Any], Any]:
    """The handler's serializer. If the call has a scope to finish, it finishes it and appends the history."""

    def serialize(message: Any) -> Any:
        scope = CURRENT_SCOPE.get()
        if scope is None or scope.server_context is None:
            return message if serializer is None else serializer(message)
        context = scope.server_context
        scope.server_context = None  # breaks the reference cycle between the scope and the state of the call
        if reply is not ServerReply:
            return reply(scope).serialize(serializer, message, context)
        # like ``ServerReply.serialize``, in fewer steps for an ordinary reply
        try:
            data = message if serializer is None else serializer(message)
        except BaseException:
            ServerReply(scope).finish_with_error(INTERNAL, context)
            raise
        if type(data) is not bytes:
            ServerReply(scope).finish_with_error(INTERNAL, context)
            return data
        history = scope.finish(0)
        if history is not None:
            envelope = scope.envelope
            size = len(history)
            if size <= HISTORY_BYTES and envelope.history and envelope.accept & ACCEPT_FIELD:
                before, after = field_ends(size)
                whole = b"".join((data, before, history, after))
                if len(whole) <= envelope.receive_limit:
                    return whole
        return ServerReply(scope).attach_history(history, data, context)

    return serialize


def call_in_scope(behavior: Any, request: Any, context: Any, reply: ServerReply) -> Any:
    """Calls the application's function inside the scope. An exception finishes the scope and passes through."""
    token = CURRENT_SCOPE.set(reply.scope)
    try:
        return behavior(request, context)
    except BaseException:
        reply.finish_with_error(status.number_of(context.code()) or UNKNOWN, context)
        raise
    finally:
        CURRENT_SCOPE.reset(token)


def reply_stream_handler(
    handler: Any, behavior: Any, scope: Scope, wrap_context: Optional[Callable[[Any, ServerReply], Any]] = None
) -> Any:
    """For a plain function that returns a stream of reply messages. The scope ends with the iterator that it returned.

    ``wrap_context`` replaces the context that the function gets.
    """
    reply = server_reply_for(handler, scope)
    contexts: Dict[str, Any] = {}

    def run(request: Any, context: Any) -> Any:
        context = contexts["context"] = context if wrap_context is None else wrap_context(context, reply)
        return iterate_in_scope(call_in_scope(behavior, request, context, reply), reply, context)

    return wrapped_handler(run, handler, reply.serializer(handler.response_serializer, contexts))


def iterate_in_scope(replies: Any, reply: ServerReply, context: Any) -> Iterator[Any]:
    """The messages of the handler's iterator, which runs inside the scope."""
    scope = reply.scope
    try:
        while True:
            token = CURRENT_SCOPE.set(scope)
            try:
                message = next(replies)
            except StopIteration:
                break
            except BaseException:
                reply.finish_with_error(status.number_of(context.code()) or UNKNOWN, context)
                raise
            finally:
                CURRENT_SCOPE.reset(token)
            yield message
        reply.finish_if_failed(context)
    finally:
        if not scope.is_finished:  # the call was ended early: the handler's clean-up still belongs to it
            token = CURRENT_SCOPE.set(scope)
            try:
                close = getattr(replies, "close", None)
                if close is not None:
                    close()
            finally:
                CURRENT_SCOPE.reset(token)
                scope.abandon()


def wrapped_handler(run: Any, handler: Any, serializer: Any) -> Any:
    """The application's handler with another function and serializer."""
    try:
        functools.update_wrapper(run, behavior_of(handler))
    except (AttributeError, TypeError):
        pass
    return method_handler(handler, run, serializer, handler.request_deserializer)


def method_handler(handler: Any, run: Any, serializer: Any, deserializer: Any) -> Any:
    make = {
        (False, False): grpc.unary_unary_rpc_method_handler,
        (False, True): grpc.unary_stream_rpc_method_handler,
        (True, False): grpc.stream_unary_rpc_method_handler,
        (True, True): grpc.stream_stream_rpc_method_handler,
    }[bool(handler.request_streaming), bool(handler.response_streaming)]
    return make(run, deserializer, serializer)
