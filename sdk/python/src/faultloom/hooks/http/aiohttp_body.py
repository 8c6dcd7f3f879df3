"""The body of a reply that aiohttp's client gets: a ``StreamReader`` that reads from the received one through a window.

It takes from the received stream only what the application reads, so timeouts and the limits of buffers stay those of
aiohttp, and the end of the received stream still decides whether the connection is reused.
"""

from __future__ import annotations

from typing import Any, Callable, Optional, Union

from aiohttp.streams import StreamReader

from .body import RecodingWindow, Window


class _NoFlowControl:
    """In place of the protocol: the received stream pauses the connection."""

    connected = True
    _reading_paused = False

    def pause_reading(self) -> None:
        pass

    def resume_reading(self, resume_parser: bool = True) -> None:
        pass


class TailedStream(StreamReader):
    """A body without the tail after it."""

    def __init__(self, inner: Any, window: Union[Window, RecodingWindow]) -> None:
        self._inner, self._window = inner, window
        self._own_exception: Optional[BaseException] = None
        protocol: Any = _NoFlowControl()
        super().__init__(protocol, inner._low_water, timer=inner._timer, loop=inner._loop)

    # the methods of StreamReader read this attribute first
    @property
    def _exception(self) -> Optional[BaseException]:  # type: ignore[override]
        if self._own_exception is not None:
            return self._own_exception
        error: Optional[BaseException] = self._inner.exception()
        if error is not None:
            self._abandon()
            if self._buffer:
                return None  # bytes that were held back come before the error
        return error

    @_exception.setter
    def _exception(self, error: Optional[BaseException]) -> None:
        self._own_exception = error

    def set_exception(self, *args: Any, **kwargs: Any) -> None:
        """The application closes the reply, or releases it."""
        if self._inner.exception() is None:
            self._take_buffered()
        self._abandon()
        super().set_exception(*args, **kwargs)

    def set_read_chunk_size(self, n: int) -> None:
        super().set_read_chunk_size(n)
        self._inner.set_read_chunk_size(n)

    def on_eof(self, callback: Callable[[], None]) -> None:
        self._inner.on_eof(callback)

    async def wait_eof(self) -> None:
        await self._inner.wait_eof()

    def is_eof(self) -> bool:
        self._take_buffered()
        return super().is_eof()

    def at_eof(self) -> bool:
        self._take_buffered()
        return super().at_eof()

    def read_nowait(self, n: int = -1) -> bytes:
        self._take_buffered()
        return super().read_nowait(n)

    async def _wait(self, func_name: str) -> None:
        if self._inner.exception() is not None:
            self._abandon()
            if not self._buffer:
                raise self._inner.exception()
            return
        if not self._has_received():
            try:
                await self._inner._wait(func_name)
            except Exception:
                if self._inner.exception() is None:
                    raise
                self._abandon()
                if not self._buffer:
                    raise
                return
        self._take_buffered()

    def _has_received(self) -> bool:
        """Whether ``readchunk`` of the received stream would return at once."""
        inner = self._inner
        return bool(inner._buffer or inner._http_chunk_splits or inner.is_eof())

    def _take_buffered(self) -> None:
        """Takes all that was received."""
        inner = self._inner
        while not self._eof and inner.exception() is None and self._has_received():
            data, ends_chunk = _result_of(inner.readchunk())
            if data:
                self._window.feed(data)
            elif not ends_chunk:
                self._window.finish()
                self._deliver()
                self.feed_eof()
                return
            if inner._http_chunk_splits is not None and self._http_chunk_splits is None and not self.total_bytes:
                self.begin_http_chunk_receiving()
            self._deliver()
            if ends_chunk and self._http_chunk_splits is not None:
                self.end_http_chunk_receiving()

    def _deliver(self) -> None:
        data = self._window.take(self._window.ready)
        if data:
            self.feed_data(data, len(data))

    def _abandon(self) -> None:
        """No more bytes will come: those held back belong to the body."""
        if not self._eof and not self._window.is_complete:
            self._window.abandon()
            self._deliver()


def _result_of(coroutine: Any) -> Any:
    """The result of a coroutine that does not wait."""
    try:
        coroutine.send(None)
    except StopIteration as done:
        return done.value
    raise RuntimeError("aiohttp waits for a body that it has received")


def read_stream(body: bytes, loop: Any) -> StreamReader:
    """A stream that has received ``body`` completely."""
    protocol: Any = _NoFlowControl()
    stream = StreamReader(protocol, max(1, len(body)), loop=loop)
    if body:
        stream.feed_data(body, len(body))
    stream.feed_eof()
    return stream
