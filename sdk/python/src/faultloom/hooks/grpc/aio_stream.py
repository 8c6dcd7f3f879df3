"""grpc.aio's client: calls with a stream on either side, below the application's own interceptors.

The library's call objects exchange bytes with an inner call. Inside a scope ours wraps the inner call. It takes the
pieces of the history out of the reply messages, observes the end or the cancellation, and replaces the status if a
fault determines it.
"""

from __future__ import annotations

import asyncio
import time
from typing import Any, Callable, List, Optional

import grpc
from grpc._cython import cygrpc
from grpc.aio._call import StreamStreamCall, StreamUnaryCall, UnaryStreamCall

from ...scope.fault_wait import wait_for_fault_async
from ...scope.unscoped import OPEN_SCOPES
from ..faults import CANCELED, LOST, UNAVAILABLE, fault_effect, record_unsent, to_timeout_ms
from . import status
from .client_stream import Replies
from .target import Target


class InnerCall:
    """The methods of the library's inner call that its call objects use."""

    def __init__(self, inner: Any, replies: Replies, target: Target, deadline: Optional[float]) -> None:
        self._inner = inner
        self._replies = replies
        self._target = target
        self._deadline = deadline
        #: the status that a fault has determined
        self._decided: Any = None
        self._is_locally_canceled = False
        self._is_recorded = False
        self._callbacks: List[Callable[[], Any]] = []

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)

    # -- opening

    async def initiate_unary_stream(self, request: bytes, metadata: Any, *context: Any) -> None:
        if await self._opens():
            await self._inner.initiate_unary_stream(request, metadata, *context)

    async def initiate_stream_stream(self, metadata: Any, observer: Callable[[], None], *context: Any) -> None:
        if await self._opens():
            await self._inner.initiate_stream_stream(metadata, observer, *context)
        else:
            observer()

    async def stream_unary(self, metadata: Any, observer: Callable[[], None], *context: Any) -> Any:
        if not await self._opens():
            observer()
            return b""
        message = await self._inner.stream_unary(metadata, observer, *context)
        if self._inner.is_ok():
            message = self._replies.take(message)
        await self._end()
        return message

    async def _opens(self) -> bool:
        """Applies the fault before anything is sent. False: the call has ended."""
        replies = self._replies
        if self.done():
            return False
        if replies.call.fault is not None:
            effect = fault_effect("grpc", replies.call.fault, to_timeout_ms(self.time_remaining()))
            completed = not effect.wait_ms or await wait_for_fault_async(replies.scope, effect.wait_ms / 1000, asyncio.sleep)
            if self.done():
                return False
            if not effect.sends_after_wait(completed):
                record_unsent(replies.scope, replies.call.number, effect)
                self._decide(*status.not_sent_error(effect, self._target.authority))
                return False
        replies.call.is_sent = True
        return True

    # -- messages

    async def send_serialized_message(self, message: bytes) -> None:
        if self._decided is None:
            await self._inner.send_serialized_message(message)

    async def send_receive_close(self) -> None:
        if self._decided is None:
            await self._inner.send_receive_close()

    async def receive_serialized_message(self) -> Any:
        if self._decided is not None:
            return cygrpc.EOF
        message = await self._inner.receive_serialized_message()
        if message is cygrpc.EOF:
            await self._end()
            return message
        message = self._replies.take(message)
        if self._replies.outcome == LOST:
            self._lose()
            return cygrpc.EOF
        return message

    # -- the end

    async def _end(self) -> None:
        ended = await self._inner.status()
        if self._decided is not None or self._is_recorded:
            return
        self._is_recorded = True
        if not self._replies.record_end(status.number_of(ended.code()), ended.trailing_metadata()):
            self._lose()

    def _lose(self) -> None:
        self._is_recorded = True
        self._replies.record_failure(UNAVAILABLE)
        self._decide(*status.LOST_REPLY)
        if not self._inner.done():
            self._inner.cancel(status.CANCELED_LOCALLY)

    def _decide(self, code: grpc.StatusCode, details: str) -> None:
        if self._decided is None:
            self._decided = cygrpc.AioRpcStatus(status.number_of(code), details, (), status.debug_string(code, details))
            callbacks, self._callbacks = self._callbacks, []
            for callback in callbacks:
                callback()

    def cancel(self, details: str) -> None:
        if self.done():
            return
        if not self._is_recorded:
            self._is_recorded = True
            self._replies.record_failure(CANCELED)
        self._is_locally_canceled = True
        self._inner.cancel(details)
        if not self._replies.call.is_sent:
            self._decide(grpc.StatusCode.CANCELLED, details)

    def done(self) -> bool:
        return self._decided is not None or bool(self._inner.done())

    def is_ok(self) -> bool:
        return self._decided is None and bool(self._inner.is_ok())

    def cancelled(self) -> bool:
        if self._decided is None:
            return bool(self._inner.cancelled())
        return status.number_of(self._decided.code()) == CANCELED

    def is_locally_cancelled(self) -> bool:
        return self._is_locally_canceled or (self._decided is None and bool(self._inner.is_locally_cancelled()))

    def add_done_callback(self, callback: Callable[[], Any]) -> None:
        if self._decided is not None:
            callback()
            return

        def inner_ended() -> None:
            if callback in self._callbacks:
                self._callbacks.remove(callback)
                callback()

        self._callbacks.append(callback)
        self._inner.add_done_callback(inner_ended)

    def time_remaining(self) -> Optional[float]:
        return None if self._deadline is None else max(0.0, self._deadline - time.time())

    async def status(self) -> Any:
        return await self._inner.status() if self._decided is None else self._decided

    async def initial_metadata(self) -> Any:
        return () if self._decided is not None else await self._inner.initial_metadata()

    @property
    def _status(self) -> Any:
        return self._inner._status if self._decided is None else self._decided

    @property
    def _initial_metadata(self) -> Any:
        return self._inner._initial_metadata if self._decided is None else ()


def traced(base: Any, target_of_channel: Callable[[Any], Optional[Target]]) -> Any:
    """A subclass of one of the library's call classes; an untraced call behaves exactly like one of ``base``."""

    class TracedCall(base):  # type: ignore[misc]
        def __init__(self, request: Any, deadline: Any, metadata: Any, credentials: Any, wait_for_ready: Any, channel: Any, method: Any,
                     *args: Any, **kwargs: Any) -> None:  # fmt: skip
            target = target_of_channel(channel) if OPEN_SCOPES else None
            scope, call = None, None
            if target is not None:
                scope, call = target.begin_call(method.decode() if isinstance(method, bytes) else method)
            if scope is None or target is None or call is None:
                super().__init__(request, deadline, metadata, credentials, wait_for_ready, channel, method, *args, **kwargs)
                return
            replies = Replies(scope, call, None, fault_effect("grpc", call.fault, None).outcome)
            metadata = status.outgoing_metadata(metadata, scope, call)
            wrapper = _Channel(channel, lambda inner: InnerCall(inner, replies, target, deadline))
            super().__init__(request, deadline, metadata, credentials, wait_for_ready, wrapper, method, *args, **kwargs)

    TracedCall.__name__, TracedCall.__qualname__, TracedCall.__module__ = base.__name__, base.__qualname__, base.__module__
    return TracedCall


class _Channel:
    """The library's inner channel, as a call's constructor uses it: wraps the inner call."""

    def __init__(self, inner: Any, wrap: Callable[[Any], Any]) -> None:
        self._inner = inner
        self._wrap = wrap

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)

    def call(self, *args: Any, **kwargs: Any) -> Any:
        return self._wrap(self._inner.call(*args, **kwargs))


STREAM_CALLS = {"UnaryStreamCall": UnaryStreamCall, "StreamUnaryCall": StreamUnaryCall, "StreamStreamCall": StreamStreamCall}
