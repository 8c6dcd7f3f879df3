"""``http.client`` responses whose body is not what came over the wire.

The response that the application gets is of a subclass of the original's class, with the same attributes, and reads
from the original; the original stays the connection's, so that keep-alive goes on as always. Content-Length,
Transfer-Encoding and (undone) Content-Encoding are taken from the headers, which is where urllib3 looks.
"""

from __future__ import annotations

import io
import sys
from typing import Any, Callable, Dict, List, Optional

from .http_body import Decoder, Window

CHUNK_BYTES = 65_536
_classes: Dict[type, type] = {}


def tailed_response(inner: Any, decoder: Optional[Decoder], ended: Callable[[Optional[bytes]], None]) -> Any:
    """``inner`` presented without the tail behind its body."""
    for name in ("content-length", "transfer-encoding", "content-encoding"):
        del inner.headers[name]
    return _present(inner, Window(decoder, ended))


def replaced_body(inner: Any, body: bytes, empty: bool) -> Any:
    """``inner``, which has been read to its end, presented with another body; an empty one has no encoding."""
    for name in ("content-length", "transfer-encoding", "content-encoding") if empty else ("content-length", "transfer-encoding"):
        del inner.headers[name]
    inner.headers["Content-Length"] = str(len(body))
    window = Window(None, lambda _: None)
    window.feed(body)
    window.abandon()
    return _present(inner, window)


def _present(inner: Any, window: Window) -> Any:
    base: type = inner._faultloom_base if isinstance(inner, WindowedReads) else type(inner)
    cls = _classes.get(base)
    if cls is None:
        cls = _classes[base] = type(base.__name__, (WindowedReads, base), {"__module__": base.__module__, "_faultloom_base": base})
    make: Any = cls.__new__
    outer: Any = make(cls)
    outer.__dict__.update(inner.__dict__)
    outer._faultloom_inner = inner
    outer._faultloom_window = window
    outer._faultloom_error = None
    # lengths and chunks are the original's business
    outer.length, outer.chunked, outer.chunk_left = None, False, None
    return outer


class WindowedReads:
    """The reading methods of HTTPResponse, on top of a Window that is fed from the original response."""

    _faultloom_base: type
    _faultloom_inner: Any
    _faultloom_window: Window
    _faultloom_error: Optional[BaseException]

    def _fill(self, wanted: int) -> bool:
        """Feeds the window until ``wanted`` bytes are ready; False: the body ends before."""
        window = self._faultloom_window
        while window.ready < wanted and not window.complete:
            try:
                data = self._faultloom_inner.read1(CHUNK_BYTES)
                if data:
                    window.feed(data)
                else:
                    window.finish()
            except BaseException as error:
                # what was held back is body after all; the error comes behind it
                self._faultloom_error = error
                partial = getattr(error, "partial", None)
                if isinstance(partial, bytes) and partial:
                    window.feed(partial)
                window.abandon()
        return window.ready >= wanted

    def _raise(self) -> None:
        error, self._faultloom_error = self._faultloom_error, None
        if error is not None:
            raise error

    def read(self, amt: Optional[int] = None) -> bytes:
        window = self._faultloom_window
        if amt is None or amt < 0:
            self._fill(sys.maxsize)
            error = self._faultloom_error
            if error is not None and hasattr(error, "partial"):
                error.partial = window.take(sys.maxsize)
            self._raise()
            return window.take(sys.maxsize)
        self._fill(amt)
        data = window.take(amt)
        if not data and amt:
            self._raise()
        return data

    def read1(self, n: int = -1) -> bytes:
        if n == 0:
            return b""
        self._fill(1)
        data = self._faultloom_window.take(n if n > 0 else CHUNK_BYTES)
        if not data:
            self._raise()
        return data

    def readinto(self, b: Any) -> int:
        with memoryview(b).cast("B") as view:
            data = self.read(len(view))
            view[: len(data)] = data
        return len(data)

    def readinto1(self, b: Any) -> int:
        with memoryview(b).cast("B") as view:
            data = self.read1(len(view)) if len(view) else b""
            view[: len(data)] = data
        return len(data)

    def peek(self, n: int = -1) -> bytes:
        self._fill(1)
        return self._faultloom_window.peek(n if n > 0 else CHUNK_BYTES)

    def readline(self, limit: Optional[int] = -1) -> bytes:
        longest = sys.maxsize if limit is None or limit < 0 else limit
        window = self._faultloom_window
        while True:
            line = window.take_line(longest)
            if line is not None:
                if not line and longest:
                    self._raise()
                return line
            self._fill(window.ready + 1)

    def readlines(self, hint: Optional[int] = -1) -> List[bytes]:
        lines: List[bytes] = []
        size = 0
        while hint is None or hint <= 0 or size < hint:
            line = self.readline()
            if not line:
                break
            lines.append(line)
            size += len(line)
        return lines

    def isclosed(self) -> bool:
        window = self._faultloom_window
        return bool(self._faultloom_inner.isclosed()) and window.complete and not window.ready

    def close(self) -> None:
        window = self.__dict__.get("_faultloom_window")
        if window is not None:
            window.abandon()
            window.take(sys.maxsize)
            self._faultloom_inner.close()
        io.BufferedIOBase.close(self)  # type: ignore[arg-type]

    def flush(self) -> None:
        pass

    def __del__(self) -> None:
        try:
            self.close()
        except Exception:
            pass
