"""Futures of traced calls: around a real one, or for a faulted call that runs on a thread of its own."""

from __future__ import annotations

import contextvars
import logging
import sys
import threading
import time
from typing import Any, Callable, List, Optional, Tuple

import grpc

from . import status

_LOGGER = logging.getLogger("grpc")


class DelegatingCall(grpc.Future, grpc.Call):
    """A call and a future whose methods delegate to the library's own object."""

    _inner: Any

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)

    def result(self, timeout: Optional[float] = None) -> Any:
        return self._inner.result(timeout)

    def exception(self, timeout: Optional[float] = None) -> Any:
        return self._inner.exception(timeout)

    def traceback(self, timeout: Optional[float] = None) -> Any:
        return self._inner.traceback(timeout)

    def add_done_callback(self, fn: Callable[[Any], Any]) -> None:
        self._inner.add_done_callback(lambda _: fn(self))

    def add_callback(self, callback: Callable[[], Any]) -> bool:
        return bool(self._inner.add_callback(callback))

    def cancel(self) -> bool:
        return bool(self._inner.cancel())

    def cancelled(self) -> bool:
        return bool(self._inner.cancelled())

    def running(self) -> bool:
        return bool(self._inner.running())

    def done(self) -> bool:
        return bool(self._inner.done())

    def is_active(self) -> bool:
        return bool(self._inner.is_active())

    def time_remaining(self) -> Optional[float]:
        remaining: Optional[float] = self._inner.time_remaining()
        return remaining

    def initial_metadata(self) -> Any:
        return self._inner.initial_metadata()

    def trailing_metadata(self) -> Any:
        return self._inner.trailing_metadata()

    def code(self) -> Any:
        return self._inner.code()

    def details(self) -> Any:
        return self._inner.details()


class TracedFuture(DelegatingCall):
    """Wraps a future whose result is (message, history).

    Records the call when it ends, or earlier when the result is read.
    """

    def __init__(self, inner: Any, record: Callable[[Any, Any, Any], Any]) -> None:
        self._inner = inner
        self._record = record
        self._lock = threading.Lock()
        self._is_recorded = False
        self._message: Any = None
        inner.add_done_callback(lambda _: self._record_once())

    def _record_once(self) -> None:
        with self._lock:
            if self._is_recorded:
                return
            self._is_recorded = True
            try:
                self._message = self._record(self._inner.result(), self._inner, None)
            except grpc.RpcError as error:
                self._record(None, self._inner, error)
            except grpc.FutureCancelledError:
                self._record(None, self._inner, self._inner)

    def result(self, timeout: Optional[float] = None) -> Any:
        self._inner.result(timeout)
        self._record_once()
        return self._message

    def exception(self, timeout: Optional[float] = None) -> Any:
        error = self._inner.exception(timeout)
        self._record_once()
        return error


class BackgroundCall(grpc.Future, grpc.Call):
    """A call with a fault that delays it or changes its reply.

    Runs on a thread, so that ``future()`` returns immediately.
    """

    def __init__(self, timeout: Optional[float]) -> None:
        self._deadline = None if timeout is None else time.monotonic() + timeout
        self._condition = threading.Condition()
        self._is_canceled = threading.Event()
        self._is_done = False
        self._message: Any = None
        self._call: Any = None
        self._error: Any = None
        self._callbacks: List[Callable[[], Any]] = []

    def start(self, run: Callable[[], Tuple[Any, Any]]) -> BackgroundCall:
        context = contextvars.copy_context()

        def body() -> None:
            message = call = error = None
            try:
                message, call = run()
            except grpc.RpcError as raised:
                error = raised
            except BaseException as raised:
                error = status.error(grpc.StatusCode.UNKNOWN, f"{type(raised).__name__}: {raised}")
            with self._condition:
                self._message, self._call, self._error, self._is_done = message, call, error, True
                callbacks, self._callbacks = self._callbacks, []
                self._condition.notify_all()
            for callback in callbacks:
                try:
                    callback()
                except Exception:  # the application's: logged like grpc does, and the next one still runs
                    _LOGGER.exception("Exception in callback %s", callback)

        threading.Thread(target=context.run, args=(body,), daemon=True, name="faultloom-call").start()
        return self

    def wait(self, seconds: float) -> None:
        """Like time.sleep; ``cancel`` ends it."""
        if self._is_canceled.wait(seconds):
            raise status.error(grpc.StatusCode.CANCELLED, status.CANCELED_LOCALLY)

    def _join(self, timeout: Optional[float]) -> None:
        with self._condition:
            if not self._condition.wait_for(lambda: self._is_done or self._is_canceled.is_set(), timeout):
                raise grpc.FutureTimeoutError()

    def _ended(self) -> Any:
        self._join(None)
        return self._error if self._error is not None else self._call

    def result(self, timeout: Optional[float] = None) -> Any:
        self._join(timeout)
        if self._is_canceled.is_set():
            raise grpc.FutureCancelledError()
        if self._error is not None:
            raise self._error
        return self._message

    def exception(self, timeout: Optional[float] = None) -> Any:
        self._join(timeout)
        if self._is_canceled.is_set():
            raise grpc.FutureCancelledError()
        return self._error

    def traceback(self, timeout: Optional[float] = None) -> Any:
        try:
            error = self.exception(timeout)
            if error is not None:
                raise error
        except grpc.RpcError:
            return sys.exc_info()[2]
        return None

    def add_done_callback(self, fn: Callable[[Any], Any]) -> None:
        if not self.add_callback(lambda: fn(self)):
            fn(self)

    def add_callback(self, callback: Callable[[], Any]) -> bool:
        with self._condition:
            if not self._is_done:
                self._callbacks.append(callback)
                return True
        return False

    def cancel(self) -> bool:
        with self._condition:
            if self._is_done:
                return False
            self._is_canceled.set()
            self._condition.notify_all()
        return True

    def cancelled(self) -> bool:
        return self._is_canceled.is_set()

    def running(self) -> bool:
        return not self.done()

    def done(self) -> bool:
        return self._is_done or self._is_canceled.is_set()

    def is_active(self) -> bool:
        return not self.done()

    def time_remaining(self) -> Optional[float]:
        return None if self._deadline is None else max(0.0, self._deadline - time.monotonic())

    def initial_metadata(self) -> Any:
        ended = self._ended()
        return () if ended is None else ended.initial_metadata()

    def trailing_metadata(self) -> Any:
        ended = self._ended()
        return () if ended is None else ended.trailing_metadata()

    def code(self) -> Any:
        ended = self._ended()
        return grpc.StatusCode.CANCELLED if ended is None else ended.code()

    def details(self) -> Any:
        ended = self._ended()
        return status.CANCELED_LOCALLY if ended is None else ended.details()
