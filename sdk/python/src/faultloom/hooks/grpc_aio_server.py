"""grpc.aio's server: handlers of unary calls and of streams; coroutines, asynchronous generators and plain functions.

As the synchronous server, with one difference: ``context.abort`` sends the status at once, so the handler gets a
context whose ``abort`` adds the trailer first.
"""

from __future__ import annotations

import inspect
from typing import Any, AsyncIterator, Callable, Dict

from ..context import CURRENT
from ..runtime import runtime
from ..scope import Scope
from . import grpc_status as status
from .grpc_server import Answer, answer_of, behaviour_of, in_scope, interest, method_handler, wrapped_handler
from .patching import Patch


def patch(patch: Patch, module: Any) -> None:
    """``module``: grpc.aio._server."""
    server = module.Server
    init = server.__init__
    interceptor_class = type("Interceptor", (_Intercepts, module.ServerInterceptor), {})

    def traced_init(self: Any, thread_pool: Any, handlers: Any, interceptors: Any, *args: Any, **kwargs: Any) -> None:
        init(self, thread_pool, handlers, (interceptor_class(), *(interceptors or ())), *args, **kwargs)

    patch.replace(server, "__init__", traced_init)


class _Intercepts:
    def __init__(self) -> None:
        self.concerns_us = interest()

    async def intercept_service(self, continuation: Callable[[Any], Any], details: Any) -> Any:
        metadata = details.invocation_metadata
        scope = runtime().grpc_scope(metadata) if self.concerns_us(metadata) else None
        if scope is None:
            return await continuation(details)
        if not scope.returns:
            scope.called = details.method
        token = CURRENT.set(scope)
        try:
            handler = await continuation(details)
        finally:
            CURRENT.reset(token)
        behaviour = behaviour_of(handler)
        if behaviour is None:
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


def traced_handler(handler: Any, behaviour: Any, scope: Scope) -> Any:
    """For one reply message, and for a coroutine that writes a stream of them."""
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
        return method_handler(handler, run_async, serializer)
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
        return method_handler(handler, run_async, serializer)
    return wrapped_handler(run_sync, handler, serializer)
