"""grpcio's synchronous client: calls with a stream of reply messages.

The history comes in pieces after the messages. The deserializer takes them out, because it gets the messages in their
order; each call has a deserializer of its own. The call is recorded when its end is observed: by the application that
iterates, by the library otherwise, or by a cancellation. Nothing here keeps a call alive that the application has
dropped: the library then cancels it.
"""

from __future__ import annotations

import contextvars
import functools
import threading
import time
import weakref
from typing import Any, Callable, List, Optional

import grpc

from ...scope.fault_wait import wait_for_fault
from ...scope.scope import OutgoingCall, Scope
from ...wire.carriers import cut_field
from ..faults import (
    CANCELED, CORRUPT, INTERNAL, LOST, RESET, UNAVAILABLE, UNKNOWN, CallResult, FaultEffect, changed_body, fault_effect, record_effect,
    record_unsent, reply_effect, to_timeout_ms,
)  # fmt: skip
from . import status
from .future import DelegatingCall
from .target import Target, fail_not_sent


class Replies:
    """The reply messages of one stream on their way to the application, and the record of its end."""

    def __init__(self, scope: Scope, call: OutgoingCall, deserializer: Optional[Callable[[bytes], Any]], outcome: str) -> None:
        """``outcome``: of ``fault_effect``; it may change the messages."""
        self.scope, self.call = scope, call
        self.outcome = outcome
        self._deserializer = deserializer
        self._joiner = scope.open_stream(call.number)
        self._is_received = False

    def __call__(self, data: bytes) -> Any:
        data = self.take(data)
        return data if self._deserializer is None else self._deserializer(data)

    def take(self, data: bytes) -> bytes:
        """The message for the application, without its piece of the history."""
        data, piece = cut_field(data)
        self._is_received = True
        if piece is not None:
            self.scope.add_piece(self.call.number, piece)
        return changed_body(self.outcome, data)

    def record_end(self, code: int, trailers: Any) -> bool:
        """The stream has ended. False: its reply is lost, ``record_failure`` must follow."""
        self._joiner.add_trailer(trailers)
        has_last_piece = self._joiner.is_complete
        if self.outcome == CORRUPT and code == INTERNAL and self._is_received and not has_last_piece:
            code = 0  # not the callee's status: the library could not parse the corrupted bytes
        history = self._joiner.history()
        result = CallResult(code == 0 or status.is_reply(code, has_last_piece), code, history is not None)
        effect = reply_effect("grpc", self.call.fault, result)
        if effect.outcome == RESET:
            return False
        record_effect(self.scope, self.call.number, effect, history)
        return True

    def record_failure(self, code: int) -> None:
        """The stream was ended on this side: canceled, or its reply lost."""
        history = self._joiner.history()
        self.scope.record_failure(self.call.number, code, history, self.call.is_sent and history is None)


class TracedStreams(grpc.UnaryStreamMultiCallable, grpc.StreamStreamMultiCallable):
    """The multi-callable that stubs call.

    ``untraced`` makes an untraced one for the same method, with another deserializer.
    """

    def __init__(self, inner: Any, untraced: Callable[[Any], Any], serializer: Any, deserializer: Any, name: str, target: Target) -> None:
        self._inner = inner
        self._untraced = untraced
        self._deserializer = deserializer
        self._name = name
        self._target = target

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)

    def __call__(self, request: Any, timeout: Any = None, metadata: Any = None, *args: Any, **kwargs: Any) -> Any:
        scope, call = self._target.begin_call(self._name)
        if scope is None or call is None:
            return self._inner(request, timeout, metadata, *args, **kwargs)
        effect = fault_effect("grpc", call.fault, to_timeout_ms(timeout))
        if not effect.sends and not effect.wait_ms:
            return FailedStream(fail_not_sent(scope, call, effect, self._target))
        replies = Replies(scope, call, self._deserializer, effect.outcome)
        metadata = status.outgoing_metadata(metadata, scope, call)

        def start(timeout: Any) -> TracedStream:
            replies.call.is_sent = True
            try:
                inner = self._untraced(replies)(request, timeout, metadata, *args, **kwargs)
            except BaseException:
                replies.record_failure(UNKNOWN)
                raise
            return TracedStream(inner, replies)

        return DelayedStream(replies, effect, timeout, start) if effect.wait_ms else start(timeout)


class TracedStream(DelegatingCall):
    """A running stream."""

    def __init__(self, inner: Any, replies: Replies) -> None:
        self._inner = inner
        self._replies = replies
        self._lost: Any = None
        if replies.outcome != LOST:
            inner.add_callback(functools.partial(_record_ended, replies, weakref.ref(inner)))

    def __iter__(self) -> Any:
        return self

    def __next__(self) -> Any:
        if self._lost is not None:
            raise self._lost
        try:
            message = next(self._inner)
        except StopIteration:
            if _record_end(self._replies, self._inner):
                raise
        except grpc.RpcError:
            if _record_end(self._replies, self._inner):
                raise
        else:
            if self._replies.outcome != LOST:
                return message
        self._lost = status.error(*status.LOST_REPLY)
        self._inner.cancel()
        self._replies.record_failure(UNAVAILABLE)
        self._inner = self._lost
        raise self._lost

    next = __next__

    def cancel(self) -> bool:
        canceled = super().cancel()
        if canceled:
            self._replies.record_failure(CANCELED)
        return canceled


def _record_ended(replies: Replies, inner: Callable[[], Any]) -> None:
    call = inner()
    if call is None:
        replies.record_failure(CANCELED)  # dropped by the application, and therefore canceled by the library
    else:
        _record_end(replies, call)


def _record_end(replies: Replies, call: Any) -> bool:
    code = status.number_of(call.code())
    return replies.record_end(code, call.trailing_metadata())


class FailedStream(DelegatingCall):
    """A stream that failed before anything was sent."""

    def __init__(self, error: Any) -> None:
        self._inner = error

    def __iter__(self) -> Any:
        return self

    def __next__(self) -> Any:
        raise self._inner

    next = __next__

    def is_active(self) -> bool:
        return False

    def time_remaining(self) -> Optional[float]:
        return None

    def add_callback(self, callback: Callable[[], Any]) -> bool:
        return False


class DelayedStream(DelegatingCall):
    """A stream with a delay or a hang. A thread opens it (or fails it) later, so that opening it does not block."""

    def __init__(self, replies: Replies, effect: FaultEffect, timeout: Optional[float], start: Callable[[Any], Any]) -> None:
        self._replies = replies
        self._effect = effect
        self._start = start
        self._opened: Any = None
        self._is_ready = threading.Event()
        self._is_canceled = threading.Event()
        self._lock = threading.Lock()
        self._callbacks: List[Callable[[], Any]] = []
        self._deadline = None if timeout is None else time.monotonic() + timeout
        run = contextvars.copy_context().run
        threading.Thread(target=run, args=(self._run,), daemon=True, name="faultloom-stream").start()

    def _run(self) -> None:
        effect, replies = self._effect, self._replies
        try:
            completed = wait_for_fault(replies.scope, effect.wait_ms / 1000, self._wait)
        except InterruptedError:
            return
        with self._lock:
            if self._opened is not None:
                return
            try:
                if effect.sends_after_wait(completed):
                    self._opened = self._start(self.time_remaining())
                else:
                    record_unsent(replies.scope, replies.call.number, effect)
                    self._opened = FailedStream(status.error(*status.not_sent_error(effect, "")))
            except grpc.RpcError as error:
                self._opened = FailedStream(error)
            except Exception as error:
                self._opened = FailedStream(status.error(grpc.StatusCode.UNKNOWN, f"{type(error).__name__}: {error}"))
        self._set_ready()

    def _wait(self, seconds: float) -> None:
        if self._is_canceled.wait(seconds):
            raise InterruptedError

    def _set_ready(self) -> None:
        self._is_ready.set()
        callbacks, self._callbacks = self._callbacks, []
        for callback in callbacks:
            if not self._opened.add_callback(callback):
                callback()

    @property
    def _inner(self) -> Any:  # type: ignore[override]
        self._is_ready.wait()
        return self._opened

    def __iter__(self) -> Any:
        return self

    def __next__(self) -> Any:
        return next(self._inner)

    next = __next__

    def cancel(self) -> bool:
        with self._lock:
            is_waiting = self._opened is None
            if is_waiting:
                self._replies.record_failure(CANCELED)
                self._opened = FailedStream(status.error(grpc.StatusCode.CANCELLED, status.CANCELED_LOCALLY))
                self._is_canceled.set()
        if not is_waiting:
            return bool(self._opened.cancel())
        self._set_ready()
        return True

    def cancelled(self) -> bool:
        return self._is_canceled.is_set() or (self._opened is not None and bool(self._opened.cancelled()))

    def done(self) -> bool:
        return self._opened is not None and bool(self._opened.done())

    def running(self) -> bool:
        return not self.done()

    def is_active(self) -> bool:
        return self._opened is None or bool(self._opened.is_active())

    def time_remaining(self) -> Optional[float]:
        return None if self._deadline is None else max(0.0, self._deadline - time.monotonic())

    def add_callback(self, callback: Callable[[], Any]) -> bool:
        with self._lock:
            if self._opened is None:
                self._callbacks.append(callback)
                return True
        return bool(self._opened.add_callback(callback))

    def add_done_callback(self, fn: Callable[[Any], Any]) -> None:
        if not self.add_callback(lambda: fn(self)):
            fn(self)
