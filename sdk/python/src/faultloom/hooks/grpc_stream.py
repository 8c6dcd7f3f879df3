"""grpcio's synchronous client: calls with a stream of reply messages.

The history comes in pieces behind the messages, so it is taken out in the deserializer, which sees them in their order;
each call has one of its own. The call is recorded when its end is seen: by the application that iterates, by the
library if nobody does, or by whoever cancels. Nothing here keeps a call alive that the application has dropped: the
library cancels it then.
"""

from __future__ import annotations

import contextvars
import functools
import threading
import time
import weakref
from typing import Any, Callable, List, Optional, Tuple

import grpc

from ..carriers import corrupt, cut_field
from ..context import current
from ..pieces import Joiner
from ..runtime import hold, wait_seconds
from ..scope import Scope, Send
from . import grpc_status as status
from .grpc_client import Target, refuse
from .grpc_future import Delegated


class Replies:
    """The reply messages of one stream on their way to the application, and the record of its end."""

    def __init__(self, scope: Scope, send: Send, deserializer: Optional[Callable[[bytes], Any]]) -> None:
        self.scope, self.send = scope, send
        self.kind = send.fault.kind if send.fault is not None else ""
        self.deserializer = deserializer
        self.joiner = Joiner(send.id)
        #: whether the callee may have run
        self.sent = False
        #: whether a message came
        self.came = False
        scope.streams(send.number, self.so_far)

    def so_far(self) -> Tuple[Optional[bytes], bool]:
        history = self.joiner.history()
        return history, self.sent and history is None

    def __call__(self, data: bytes) -> Any:
        data = self.take(data)
        return data if self.deserializer is None else self.deserializer(data)

    def take(self, data: bytes) -> bytes:
        """The message as the application gets it."""
        data, piece = cut_field(data)
        self.came = True
        if piece is not None:
            self.joiner.add(piece)
        if self.kind == "empty-reply":
            return b""
        return corrupt(data) if self.kind == "corrupt-reply" else data

    def ended(self, code: int, trailers: Any) -> bool:
        """The end was seen; False: it is to become a lost reply (not recorded yet)."""
        self.joiner.add_trailer(trailers)
        if self.kind == "corrupt-reply" and code == 13 and self.came and not self.joiner.ended:
            code = 0  # what the library makes of corrupted bytes is not the callee's status
        replied = code == 0 or status.is_reply(code, self.joiner.ended)
        if self.kind == "lost-reply" and replied:
            return False
        history, gap = self.so_far()
        (self.scope.replied if replied else self.scope.failed)(self.send.number, code, history, gap)
        return True

    def failed(self, code: int) -> None:
        """It was ended on this side: cancelled, or its reply lost."""
        history, gap = self.so_far()
        self.scope.failed(self.send.number, code, history, gap)


class TracedStreams(grpc.UnaryStreamMultiCallable, grpc.StreamStreamMultiCallable):
    """What stubs call. ``untraced`` makes an untraced multi-callable for the same method, with another deserializer."""

    def __init__(self, inner: Any, untraced: Callable[[Any], Any], serializer: Any, deserializer: Any, name: str, target: Target) -> None:
        self._inner = inner
        self._untraced = untraced
        self._deserializer = deserializer
        self._name = name
        self._target = target

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)

    def __call__(self, request: Any, timeout: Any = None, metadata: Any = None, *args: Any, **kwargs: Any) -> Any:
        scope = current()
        send = None if scope is None else self._target.send(scope, self._name)
        if scope is None or send is None:
            return self._inner(request, timeout, metadata, *args, **kwargs)
        if send.fault is not None and send.fault.kind in ("unavailable", "status", "deadline", "reset"):
            return FailedStream(refuse(scope, send, self._target))
        replies = Replies(scope, send, self._deserializer)
        metadata = status.outgoing(metadata, scope, send)

        def start(timeout: Any) -> TracedStream:
            replies.sent = True
            try:
                inner = self._untraced(replies)(request, timeout, metadata, *args, **kwargs)
            except BaseException:
                replies.failed(2)
                raise
            return TracedStream(inner, replies, self._target.authority)

        if replies.kind in ("delay", "hang"):
            return HeldStream(replies, timeout, start)
        return start(timeout)


class TracedStream(Delegated):
    """A running stream."""

    def __init__(self, inner: Any, replies: Replies, authority: str) -> None:
        self._inner = inner
        self._replies = replies
        self._authority = authority
        self._lost: Any = None
        if replies.kind != "lost-reply":
            inner.add_callback(functools.partial(_seen, replies, weakref.ref(inner)))

    def __iter__(self) -> Any:
        return self

    def __next__(self) -> Any:
        if self._lost is not None:
            raise self._lost
        try:
            message = next(self._inner)
        except StopIteration:
            if _settled(self._replies, self._inner):
                raise
        except grpc.RpcError:
            if _settled(self._replies, self._inner):
                raise
        else:
            if self._replies.kind != "lost-reply":
                return message
        assert self._replies.send.fault is not None
        self._lost = status.error(*status.outcome(self._replies.send.fault, self._authority))
        self._inner.cancel()
        self._replies.failed(14)
        self._inner = self._lost
        raise self._lost

    next = __next__

    def cancel(self) -> bool:
        cancelled = super().cancel()
        if cancelled:
            self._replies.failed(1)
        return cancelled


def _seen(replies: Replies, inner: Callable[[], Any]) -> None:
    call = inner()
    if call is None:
        replies.failed(1)  # dropped by the application, and so cancelled by the library
    else:
        _settled(replies, call)


def _settled(replies: Replies, call: Any) -> bool:
    code = status.number_of(call.code())
    return replies.ended(code, call.trailing_metadata())


class FailedStream(Delegated):
    """A stream that has failed before anything was sent."""

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


class HeldStream(Delegated):
    """A stream that a delay or a hang keeps back: opened (or failed) later, by a thread, so that opening it does not block."""

    def __init__(self, replies: Replies, timeout: Optional[float], start: Callable[[Any], Any]) -> None:
        assert replies.send.fault is not None
        self._replies = replies
        self._opened: Any = None
        self._ready = threading.Event()
        self._cancelled = threading.Event()
        self._lock = threading.Lock()
        self._callbacks: List[Callable[[], Any]] = []
        self._deadline = None if timeout is None else time.monotonic() + timeout
        seconds = wait_seconds(replies.send.fault)
        too_long = timeout is not None and timeout <= seconds
        if replies.kind == "hang":
            start = self._timed_out
        arguments = (seconds if timeout is None else min(seconds, timeout), start, self._timed_out if too_long else start)
        run = contextvars.copy_context().run
        threading.Thread(target=run, args=(self._run, *arguments), daemon=True, name="faultloom-stream").start()

    def _timed_out(self, _: Any) -> Any:
        self._replies.failed(4)
        return FailedStream(status.error(grpc.StatusCode.DEADLINE_EXCEEDED, "Deadline Exceeded"))

    def _run(self, seconds: float, released: Callable[[Any], Any], lasted: Callable[[Any], Any]) -> None:
        try:
            start = lasted if hold(self._replies.scope, seconds, self._wait) else released
        except InterruptedError:
            return
        with self._lock:
            if self._opened is not None:
                return
            try:
                self._opened = start(self.time_remaining())
            except grpc.RpcError as error:
                self._opened = FailedStream(error)
            except Exception as error:
                self._opened = FailedStream(status.error(grpc.StatusCode.UNKNOWN, f"{type(error).__name__}: {error}"))
        self._tell()

    def _wait(self, seconds: float) -> None:
        if self._cancelled.wait(seconds):
            raise InterruptedError

    def _tell(self) -> None:
        self._ready.set()
        callbacks, self._callbacks = self._callbacks, []
        for callback in callbacks:
            if not self._opened.add_callback(callback):
                callback()

    @property
    def _inner(self) -> Any:  # type: ignore[override]
        self._ready.wait()
        return self._opened

    def __iter__(self) -> Any:
        return self

    def __next__(self) -> Any:
        return next(self._inner)

    next = __next__

    def cancel(self) -> bool:
        with self._lock:
            if self._opened is None:
                self._replies.failed(1)
                error = status.error(grpc.StatusCode.CANCELLED, "Locally cancelled by application!")
                self._opened = FailedStream(error)
                self._cancelled.set()
                cancelled = True
            else:
                cancelled = False
        if not cancelled:
            return bool(self._opened.cancel())
        self._tell()
        return True

    def cancelled(self) -> bool:
        return self._cancelled.is_set() or (self._opened is not None and bool(self._opened.cancelled()))

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
