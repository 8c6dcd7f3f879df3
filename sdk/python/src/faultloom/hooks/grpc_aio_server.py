"""grpc.aio's server: handlers of unary calls and of streams; coroutines, asynchronous generators and plain functions.

As the synchronous server, with one difference: ``context.abort`` sends the status at once, so the handler gets a
context whose ``abort`` adds the trailer first. Each call has a task of its own, in which its handler is looked up, its request is
deserialized and its answer serialized.
"""

from __future__ import annotations

import inspect
from typing import Any, AsyncIterator, Callable, Dict, Optional

from ..context import CURRENT
from ..history import TAKES_FIELD
from ..runtime import runtime
from ..scope import Scope
from . import grpc_status as status
from .grpc_handler import (
    Answer, Carried, TakingOut, answer_of, behaviour_of, in_scope, keep, method_handler, serializing, wrapped_handler,
)  # fmt: skip
from .grpc_server import interest, takes_fields
from .patching import Patch


def patch(patch: Patch, module: Any) -> None:
    """``module``: grpc.aio._server."""
    server = module.Server
    init = server.__init__
    interceptor_class = type("Interceptor", (_Intercepts, module.ServerInterceptor), {})

    def traced_init(self: Any, thread_pool: Any, handlers: Any, interceptors: Any, options: Any, *args: Any, **kwargs: Any) -> None:
        options = tuple(options or ())
        ours = interceptor_class(takes_fields(options))
        init(self, thread_pool, handlers, (ours, *(interceptors or ())), options, *args, **kwargs)

    patch.replace(server, "__init__", traced_init)


class _Intercepts:
    def __init__(self, takes: bool) -> None:
        self.concerns_us = interest()
        #: says that it takes envelopes behind messages
        self.takes = takes

    async def intercept_service(self, continuation: Callable[[Any], Any], details: Any) -> Any:
        metadata = details.invocation_metadata
        scope = runtime().grpc_scope(metadata) if self.concerns_us(metadata) else None
        if scope is not None and not scope.returns:
            scope.called = details.method
        CURRENT.set(scope)  # of the call's own task, which may have inherited the one that its server was started in
        handler = await continuation(details)
        if scope is not None and scope.sent:
            self.takes = False
        # most handlers are made once and serve many calls
        return getattr(handler, _KEPT[self.takes], None) or in_scope_handler(handler, scope, self.takes)


#: as in ``grpc_handler``; the same handler may serve both kinds of servers
_KEPT = ("_faultloom_aio", "_faultloom_aio_takes")


def in_scope_handler(handler: Any, scope: Optional[Scope], takes: bool) -> Any:
    behaviour = behaviour_of(handler)
    if behaviour is None:
        return handler
    if not handler.request_streaming and not handler.response_streaming:
        known = unary_handler(handler, behaviour, TAKES_FIELD if takes else 0)
        keep(handler, _KEPT[takes], known)
        return known
    CURRENT.set(None)
    if scope is None:
        return handler
    if handler.response_streaming and not inspect.iscoroutinefunction(behaviour):
        return traced_stream_handler(handler, behaviour, scope)
    return traced_handler(handler, behaviour, scope)


class _Context:
    """The library's context, whose ``abort`` carries the history; everything else is the library's."""

    def __init__(self, inner: Any, answer: Answer) -> None:
        self._faultloom_inner = inner
        self._faultloom_answer = answer

    # an application may ask what it was given
    __class__ = property(lambda self: type(self._faultloom_inner))  # type: ignore[assignment]

    def __getattr__(self, name: str) -> Any:
        return getattr(self._faultloom_inner, name)

    def _with_trailer(self, code: Any, trailing_metadata: Any) -> Any:
        trailer = self._faultloom_answer.trailer(status.number_of(code))
        metadata = tuple(trailing_metadata) or tuple(self.trailing_metadata() or ())
        return metadata if trailer is None else status.with_own(metadata, trailer)


class _AsyncContext(_Context):
    async def abort(self, code: Any, details: str = "", trailing_metadata: Any = ()) -> None:
        await self._faultloom_inner.abort(code, details, self._with_trailer(code, trailing_metadata))

    async def abort_with_status(self, given: Any) -> None:
        await self.abort(given.code, given.details, tuple(given.trailing_metadata or ()))


class _SyncContext(_Context):
    """For a handler that is a plain function: the library's context for these tells neither code nor trailers, so they are noted."""

    def __init__(self, inner: Any, answer: Answer) -> None:
        super().__init__(inner, answer)
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

    def abort_with_status(self, given: Any) -> None:
        self.abort(given.code, given.details, tuple(given.trailing_metadata or ()))


class _Answered(tuple):  # type: ignore[type-arg]
    """What a plain function returned inside a scope: (message, scope, context)."""

    __slots__ = ()


def unary_handler(handler: Any, behaviour: Any, takes_field: int) -> Any:
    """For a unary call. Serves every call, traced or not; the scope is that of the call's task."""
    field_scope = runtime().field_scope
    deserialize = TakingOut(handler.request_deserializer)
    serializer = handler.response_serializer

    async def run_async(request: Any, context: Any) -> Any:
        scope = CURRENT.get()
        if type(request) is Carried:
            request, envelope, start_us, start_ns = request
            scope = field_scope(envelope, context.invocation_metadata, scope, start_us, start_ns)
            CURRENT.set(scope)
        if scope is None:
            return await behaviour(request, context)
        answer = Answer(scope)
        context = scope.answer = _AsyncContext(context, answer)
        if scope.destination is None:
            scope.takes_field = takes_field
        try:
            message = await behaviour(request, context)
        except BaseException:
            scope.answer = None
            answer.with_error(status.number_of(context.code()) or 2, context)
            raise
        answer.with_returned(context)
        return message

    # a plain function runs on a thread, to which the scope goes with the request, and from which it comes back with the message

    def deserialize_for_thread(data: bytes) -> Any:
        request, scope = deserialize(data), CURRENT.get()
        if scope is None:
            return request
        CURRENT.set(None)
        return Carried((*(request if type(request) is Carried else (request, None, 0, 0)), scope))

    def run_sync(request: Any, context: Any) -> Any:
        if type(request) is not Carried:
            return behaviour(request, context)
        request, envelope, start_us, start_ns, *found = request
        scope = found[0] if found else None
        if envelope is not None:
            scope = field_scope(envelope, context.invocation_metadata, scope, start_us, start_ns)
        if scope is None:
            return behaviour(request, context)
        answer = Answer(scope)
        context = _SyncContext(context, answer)
        if scope.destination is None:
            scope.takes_field = takes_field
        token = CURRENT.set(scope)
        try:
            message = behaviour(request, context)
        except BaseException:
            answer.with_error(status.number_of(context.code()) or 2, context)
            raise
        finally:
            CURRENT.reset(token)
        answer.with_returned(context)
        return _Answered((message, scope, context))

    def serialize_from_thread(message: Any) -> Any:
        if type(message) is not _Answered:
            return message if serializer is None else serializer(message)
        message, scope, context = message
        return Answer(scope).serialize(serializer, message, context)

    if inspect.iscoroutinefunction(behaviour) or inspect.iscoroutinefunction(getattr(behaviour, "__call__", None)):
        return method_handler(handler, run_async, serializing(serializer), deserialize)
    return method_handler(handler, run_sync, serialize_from_thread, deserialize_for_thread)


def traced_handler(handler: Any, behaviour: Any, scope: Scope) -> Any:
    """For one reply message to a stream of requests, and for a coroutine that writes a stream of them."""
    answer = answer_of(handler, scope)
    seen: Dict[str, Any] = {}

    async def run_async(request: Any, context: Any) -> Any:
        context = seen["context"] = _AsyncContext(context, answer)
        token = CURRENT.set(scope)
        try:
            message = await behaviour(request, context)
        except BaseException:
            answer.with_error(status.number_of(context.code()) or 2, context)
            raise
        finally:
            CURRENT.reset(token)
        answer.with_returned(context)
        return message

    def run_sync(request: Any, context: Any) -> Any:
        context = seen["context"] = _SyncContext(context, answer)
        token = CURRENT.set(scope)
        try:
            message = behaviour(request, context)
        except BaseException:
            answer.with_error(status.number_of(context.code()) or 2, context)
            raise
        finally:
            CURRENT.reset(token)
        answer.with_returned(context)
        return message

    serializer = answer.serializer(handler.response_serializer, seen)
    if inspect.iscoroutinefunction(behaviour) or inspect.iscoroutinefunction(getattr(behaviour, "__call__", None)):
        # update_wrapper would do, but must not hide that this is a coroutine function
        return method_handler(handler, run_async, serializer, handler.request_deserializer)
    return wrapped_handler(run_sync, handler, serializer)


def traced_stream_handler(handler: Any, behaviour: Any, scope: Scope) -> Any:
    """For a generator of reply messages, asynchronous or plain (which the library runs on a thread)."""
    answer = answer_of(handler, scope)
    seen: Dict[str, Any] = {}

    async def run_async(request: Any, context: Any) -> AsyncIterator[Any]:
        context = seen["context"] = _AsyncContext(context, answer)
        replies = behaviour(request, context)
        try:
            while True:
                token = CURRENT.set(scope)
                try:
                    message = await replies.__anext__()
                except StopAsyncIteration:
                    break
                except BaseException:
                    answer.with_error(status.number_of(context.code()) or 2, context)
                    raise
                finally:
                    CURRENT.reset(token)
                yield message
            answer.with_returned(context)
        finally:
            if not scope.over:  # nobody wants the rest: the handler's clean-up still belongs to the call
                try:
                    await closing(replies)
                finally:
                    scope.abandon()

    async def closing(replies: Any) -> None:
        # the event loop may close a generator from a context of its own, in which nothing is to be reset
        CURRENT.set(scope)
        try:
            await replies.aclose()
        finally:
            CURRENT.set(None)

    def run_sync(request: Any, context: Any) -> Any:
        context = seen["context"] = _SyncContext(context, answer)
        token = CURRENT.set(scope)
        try:
            replies = behaviour(request, context)
        except BaseException:
            answer.with_error(status.number_of(context.code()) or 2, context)
            raise
        finally:
            CURRENT.reset(token)
        return in_scope(replies, answer, context)

    serializer = answer.serializer(handler.response_serializer, seen)
    if inspect.isasyncgenfunction(behaviour):
        return method_handler(handler, run_async, serializer, handler.request_deserializer)
    return wrapped_handler(run_sync, handler, serializer)
