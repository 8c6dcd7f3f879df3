"""``http.client`` responses whose body differs from the received one.

The application gets a response of a subclass of the original's class, with the same attributes, that reads from the
original. The connection keeps the original, so that keep-alive works as usual. Content-Length, Transfer-Encoding and
the Content-Encoding of a decoded body are removed from the headers, because urllib3 reads them there.
"""

from __future__ import annotations

import io
import sys
from typing import Any, Callable, Dict, List, Optional, Union

from .body import RecodingWindow, Window, window_for

CHUNK_BYTES = 65_536
_classes: Dict[type, type] = {}


def tailed_response(
    inner: Any, coding: str, recodes: bool, ended: Callable[[Optional[bytes]], None], for_urllib3: bool
) -> Any:
    """``inner`` without the tail after its body.

    ``recodes``: the body keeps its content coding, else it is decoded. ``for_urllib3``: reading a body that ends early
    raises urllib3's exception.
    """
    for name in ("content-length", "transfer-encoding", *(() if recodes else ("content-encoding",))):
        del inner.headers[name]
    outer = _wrap(inner, window_for(coding, recodes, ended))
    outer._faultloom_for_urllib3 = for_urllib3
    return outer


def replaced_body(inner: Any, body: bytes, empty: bool) -> Any:
    """``inner``, which was read to its end, with another body. An empty one has no encoding."""
    for name in ("content-length", "transfer-encoding", "content-encoding") if empty else ("content-length", "transfer-encoding"):
        del inner.headers[name]
    inner.headers["Content-Length"] = str(len(body))
    window = Window(None, lambda _: None)
    window.feed(body)
    window.abandon()
    return _wrap(inner, window)


def _wrap(inner: Any, window: Union[Window, RecodingWindow]) -> Any:
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
    outer._faultloom_for_urllib3 = False
    outer._faultloom_received = 0
    outer._faultloom_missing = 0
    # the original handles lengths and chunks
    outer.length, outer.chunked, outer.chunk_left = None, False, None
    return outer


class WindowedReads:
    """The read methods of HTTPResponse, on a Window that is fed from the original response."""

    _faultloom_base: type
    _faultloom_inner: Any
    _faultloom_window: Union[Window, RecodingWindow]
    _faultloom_error: Optional[BaseException]
    _faultloom_for_urllib3: bool
    #: bytes received, and, from the end of the body until it was delivered, those that its declared length lacks
    _faultloom_received: int
    _faultloom_missing: int

    def _fill(self, count: int, ends: bool = True) -> bool:
        """Feeds the window until ``count`` bytes are ready. False: the body ends before that.

        ``ends``: the connection may be reused after the last byte, which not every method of ``http.client`` permits.
        """
        window, inner = self._faultloom_window, self._faultloom_inner
        while window.ready < count and not window.is_complete:
            try:
                data = inner.read1(CHUNK_BYTES)
                if data:
                    self._faultloom_received += len(data)
                    window.feed(data)
                elif inner.length:
                    self._end_early(inner.length)
                else:
                    window.finish()
                    if ends and not inner.isclosed():
                        inner._close_conn()
            except Exception as error:
                # the bytes held back belong to the body; the error is raised after them
                self._faultloom_error = error
                partial = getattr(error, "partial", None)
                if isinstance(partial, bytes) and partial:
                    window.feed(partial)
                window.abandon()
        return window.ready >= count

    def _end_early(self, missing: int) -> None:
        """The connection ended before the declared length. ``http.client`` ignores that except in ``read()``."""
        self._faultloom_missing = missing
        if not self._faultloom_for_urllib3:
            self._faultloom_window.finish()
            return
        from urllib3.exceptions import IncompleteRead

        self._faultloom_window.abandon()
        self._faultloom_error = IncompleteRead(self._faultloom_received, missing)

    def _urllib3_error(self, error: Exception) -> Exception:
        """What urllib3, which decodes chunks itself, raises for an invalid size of a chunk."""
        from http.client import IncompleteRead

        from urllib3.exceptions import InvalidChunkLength, ProtocolError

        reason = error.__context__
        if not isinstance(error, IncompleteRead) or not isinstance(reason, ValueError):
            return error
        if str(reason).endswith("b''"):
            return ProtocolError("Response ended prematurely")
        invalid = InvalidChunkLength.__new__(InvalidChunkLength)  # its __init__ needs urllib3's own response
        invalid.partial, invalid.expected, invalid.response, invalid.length = self._faultloom_received, None, self, b""  # type: ignore[assignment]
        return invalid

    def _raise(self, as_urllib3: bool = True) -> None:
        """The end of the body is delivered: raises the error that it ended with, if any. Later reads return nothing.

        ``as_urllib3``: if the body is read in parts, urllib3 decodes chunks itself and raises its own exceptions. To
        read it at once, it calls ``read()`` of ``http.client``, whose exceptions it gets then.
        """
        error, self._faultloom_error, self._faultloom_missing = self._faultloom_error, None, 0
        if isinstance(error, Exception) and self._faultloom_for_urllib3 and as_urllib3:
            error = self._urllib3_error(error)
        if error is not None:
            raise error

    def read(self, amt: Optional[int] = None) -> bytes:
        window = self._faultloom_window
        if amt is None or amt < 0:
            self._fill(sys.maxsize)
            error: Any = self._faultloom_error
            if self._faultloom_missing:
                from http.client import IncompleteRead

                missing, self._faultloom_missing, self._faultloom_error = self._faultloom_missing, 0, None
                raise IncompleteRead(window.take(sys.maxsize), missing)
            if error is not None and isinstance(getattr(error, "partial", None), bytes):
                error.partial = window.take(sys.maxsize)
            self._raise(as_urllib3=False)
            return window.take(sys.maxsize)
        if not self._fill(amt) and self._faultloom_error is not None and not self._faultloom_for_urllib3:
            # as http.client, which loses what it has received of a read that fails
            error, rest = self._faultloom_error, window.take(sys.maxsize)
            if isinstance(getattr(error, "partial", None), bytes):
                error.partial = rest  # type: ignore[attr-defined]
            self._raise()
        data = window.take(amt)
        if not data and amt:
            self._raise()
        return data

    def read1(self, n: int = -1) -> bytes:
        if n == 0:
            return b""
        self._fill(1, ends=False)
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
        # urllib3 returns the connection to its pool then, which it must not do before it has got an error
        is_delivered = window.is_complete and not window.ready and self._faultloom_error is None
        return is_delivered and bool(self._faultloom_inner.isclosed())

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
        # the connection may still refer to the original, whose end decides whether it is reused
        try:
            self._faultloom_window.abandon()
        except Exception:
            pass
