"""grpc.aio's server: handlers of unary calls and of streams, as coroutines, asynchronous generators and plain
functions.

Like the synchronous server (``handler``), with one difference: ``context.abort`` sends the status immediately, so the
handler gets a context whose ``abort`` adds the trailer first. Each call has a task of its own, in which its handler is
looked up, its request is deserialized and its reply is serialized.
"""

from __future__ import annotations

import inspect
from typing import Any, AsyncIterator, Callable, Dict, Optional

from ...scope.current import CURRENT_SCOPE, IN_UNTRACED_REQUEST
from ...scope.scope import Scope
from ...wire.history import TAKES_FIELD
from ..faults import UNKNOWN
from ..patching import Patch
from ..process import this_process
from . import status
from .handler import (
    EnvelopeCutter, RequestWithEnvelope, ServerReply, behavior_of, cache_on, call_in_scope, finishing_serializer, method_handler,
    reply_stream_handler, server_reply_for, wrapped_handler,
)  # fmt: skip
from .server import metadata_check, takes_fields


def patch(patch: Patch, module: Any) -> None:
    """``module``: grpc.aio._server."""
    server = module.Server
    init = server.__init__
    interceptor_class = type("Interceptor", (_Interceptor, module.ServerInterceptor), {})

    def traced_init(self: Any, thread_pool: Any, handlers: Any, interceptors: Any, options: Any, *args: Any, **kwargs: Any) -> None:
        options = tuple(options or ())
        ours = interceptor_class(takes_fields(options))
        init(self, thread_pool, handlers, (ours, *(interceptors or ())), options, *args, **kwargs)

    patch.replace(server, "__init__", traced_init)


class _Interceptor:
    def __init__(self, takes: bool) -> None:
        self.may_be_traced = metadata_check()
        #: the server announces that it accepts envelopes in messages
        self.takes = takes

    async def intercept_service(self, continuation: Callable[[Any], Any], details: Any) -> Any:
        metadata = details.invocation_metadata
        scope = this_process().open_grpc_scope(metadata) if self.may_be_traced(metadata) else None
        if scope is not None and not scope.returns_history:
            scope.call_name = details.method
        # in the call's own task, which may have inherited the scope in which the server was started
        CURRENT_SCOPE.set(scope)
        IN_UNTRACED_REQUEST.set(scope is None)
        handler = await continuation(details)
        if scope is not None and scope.calls:
            self.takes = False
        # most handlers are created once and serve many calls
        return getattr(handler, _CACHE_ATTRIBUTES[self.takes], None) or handler_for(handler, scope, self.takes)


#: not those of ``handler``: the same handler may serve both kinds of servers
_CACHE_ATTRIBUTES = ("_faultloom_aio", "_faultloom_aio_takes")


def handler_for(handler: Any, scope: Optional[Scope], takes: bool) -> Any:
    """Our handler for one that the application's interceptors and functions returned.

    ``takes``: the server announces fields.
    """
    behavior = behavior_of(handler)
    if behavior is None:
        return handler
    if not handler.request_streaming and not handler.response_streaming:
        ours = unary_handler(handler, behavior, TAKES_FIELD if takes else 0)
        cache_on(handler, _CACHE_ATTRIBUTES[takes], ours)
        return ours
    CURRENT_SCOPE.set(None)
    if scope is None:
        return handler
    if not handler.response_streaming or inspect.iscoroutinefunction(behavior):
        return coroutine_handler(handler, behavior, scope)
    if inspect.isasyncgenfunction(behavior):
        return generator_handler(handler, behavior, scope)
    return reply_stream_handler(handler, behavior, scope, _SyncContext)


def _is_coroutine_function(behavior: Any) -> bool:
    return inspect.iscoroutinefunction(behavior) or inspect.iscoroutinefunction(getattr(behavior, "__call__", None))


class _Context:
    """The library's context, except that ``abort`` sends the history."""

    def __init__(self, inner: Any, reply: ServerReply) -> None:
        self._faultloom_inner = inner
        self._faultloom_reply = reply

    # the application may check the type of its context
    __class__ = property(lambda self: type(self._faultloom_inner))  # type: ignore[assignment]

    def __getattr__(self, name: str) -> Any:
        return getattr(self._faultloom_inner, name)

    def _with_trailer(self, code: Any, trailing_metadata: Any) -> Any:
        trailer = self._faultloom_reply.finish_with_trailer(status.number_of(code))
        metadata = tuple(trailing_metadata) or tuple(self.trailing_metadata() or ())
        return metadata if trailer is None else status.with_own(metadata, trailer)


class _AsyncContext(_Context):
    async def abort(self, code: Any, details: str = "", trailing_metadata: Any = ()) -> None:
        await self._faultloom_inner.abort(code, details, self._with_trailer(code, trailing_metadata))

    async def abort_with_status(self, rpc_status: Any) -> None:
        await self.abort(rpc_status.code, rpc_status.details, tuple(rpc_status.trailing_metadata or ()))


class _SyncContext(_Context):
    """For plain functions. The library's context for these cannot return code and trailers, so this one stores them."""

    def __init__(self, inner: Any, reply: ServerReply) -> None:
        super().__init__(inner, reply)
        self._faultloom_code: Any = None
        self._faultloom_trailers: Any = ()

    def code(self) -> Any:
        return self._faultloom_code

    def trailing_metadata(self) -> Any:
        return self._faultloom_trailers

    def set_code(self, code: Any) -> None:
        self._faultloom_inner.set_code(code)
        self._faultloom_code = code

    def set_trailing_metadata(self, trailing_metadata: Any) -> None:
        self._faultloom_inner.set_trailing_metadata(trailing_metadata)
        self._faultloom_trailers = tuple(trailing_metadata)

    def abort(self, code: Any, details: str = "", trailing_metadata: Any = ()) -> None:
        self._faultloom_inner.abort(code, details, self._with_trailer(code, trailing_metadata))

    def abort_with_status(self, rpc_status: Any) -> None:
        self.abort(rpc_status.code, rpc_status.details, tuple(rpc_status.trailing_metadata or ()))


class _ScopedMessage(tuple):  # type: ignore[type-arg]
    """What a plain function returned inside a scope: (message, scope, context)."""

    __slots__ = ()


def unary_handler(handler: Any, behavior: Any, takes_field: int) -> Any:
    """For a unary call. Serves every call, traced or not; the scope is that of the call's task."""
    open_field_scope = this_process().open_field_scope
    deserialize = EnvelopeCutter(handler.request_deserializer)
    serializer = handler.response_serializer

    async def run_async(request: Any, context: Any) -> Any:
        scope = CURRENT_SCOPE.get()
        if type(request) is RequestWithEnvelope:
            request, envelope, start_us, start_ns = request
            scope = open_field_scope(envelope, context.invocation_metadata, scope, start_us, start_ns)
            CURRENT_SCOPE.set(scope)
        if scope is None:
            return await behavior(request, context)
        reply = ServerReply(scope)
        context = scope.server_context = _AsyncContext(context, reply)
        if scope.destination is None:
            scope.takes_field = takes_field
        try:
            message = await behavior(request, context)
        except BaseException:
            scope.server_context = None
            reply.finish_with_error(status.number_of(context.code()) or UNKNOWN, context)
            raise
        reply.finish_if_failed(context)
        return message

    # a plain function runs on a thread: the scope goes there with the request, and comes back with the message

    def deserialize_for_thread(data: bytes) -> Any:
        request, scope = deserialize(data), CURRENT_SCOPE.get()
        if scope is None:
            return request
        CURRENT_SCOPE.set(None)
        return RequestWithEnvelope((*(request if type(request) is RequestWithEnvelope else (request, None, 0, 0)), scope))

    def run_sync(request: Any, context: Any) -> Any:
        if type(request) is not RequestWithEnvelope:
            return behavior(request, context)
        request, envelope, start_us, start_ns, *scopes = request
        scope = scopes[0] if scopes else None
        if envelope is not None:
            scope = open_field_scope(envelope, context.invocation_metadata, scope, start_us, start_ns)
        if scope is None:
            return behavior(request, context)
        reply = ServerReply(scope)
        context = _SyncContext(context, reply)
        if scope.destination is None:
            scope.takes_field = takes_field
        message = call_in_scope(behavior, request, context, reply)
        reply.finish_if_failed(context)
        return _ScopedMessage((message, scope, context))

    def serialize_from_thread(message: Any) -> Any:
        if type(message) is not _ScopedMessage:
            return message if serializer is None else serializer(message)
        message, scope, context = message
        return ServerReply(scope).serialize(serializer, message, context)

    if _is_coroutine_function(behavior):
        return method_handler(handler, run_async, finishing_serializer(serializer), deserialize)
    return method_handler(handler, run_sync, serialize_from_thread, deserialize_for_thread)


def coroutine_handler(handler: Any, behavior: Any, scope: Scope) -> Any:
    """For one reply message to a stream of requests, and for a coroutine that writes a stream of replies."""
    reply = server_reply_for(handler, scope)
    contexts: Dict[str, Any] = {}

    async def run_async(request: Any, context: Any) -> Any:
        context = contexts["context"] = _AsyncContext(context, reply)
        token = CURRENT_SCOPE.set(scope)
        try:
            message = await behavior(request, context)
        except BaseException:
            reply.finish_with_error(status.number_of(context.code()) or UNKNOWN, context)
            raise
        finally:
            CURRENT_SCOPE.reset(token)
        reply.finish_if_failed(context)
        return message

    def run_sync(request: Any, context: Any) -> Any:
        context = contexts["context"] = _SyncContext(context, reply)
        message = call_in_scope(behavior, request, context, reply)
        reply.finish_if_failed(context)
        return message

    serializer = reply.serializer(handler.response_serializer, contexts)
    if _is_coroutine_function(behavior):
        # not ``wrapped_handler``: ``update_wrapper`` could hide that this is a coroutine function
        return method_handler(handler, run_async, serializer, handler.request_deserializer)
    return wrapped_handler(run_sync, handler, serializer)


def generator_handler(handler: Any, behavior: Any, scope: Scope) -> Any:
    """For an asynchronous generator of reply messages."""
    reply = server_reply_for(handler, scope)
    contexts: Dict[str, Any] = {}

    async def run(request: Any, context: Any) -> AsyncIterator[Any]:
        context = contexts["context"] = _AsyncContext(context, reply)
        replies = behavior(request, context)
        try:
            while True:
                token = CURRENT_SCOPE.set(scope)
                try:
                    message = await replies.__anext__()
                except StopAsyncIteration:
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
                try:
                    await close(replies)
                finally:
                    scope.abandon()

    async def close(replies: Any) -> None:
        # no token: the event loop may close a generator in another context, where it could not be reset
        CURRENT_SCOPE.set(scope)
        try:
            await replies.aclose()
        finally:
            CURRENT_SCOPE.set(None)

    return method_handler(handler, run, reply.serializer(handler.response_serializer, contexts), handler.request_deserializer)
