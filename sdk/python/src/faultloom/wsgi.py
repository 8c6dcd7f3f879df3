"""WSGI: answers a request that carries an envelope with the history in a header or behind the body.

Up to 32 kB of the body are kept back until it is known whether the history is small enough for a header. A body that is
longer has its tail announced in the headers, which leave before the history is known; one that may not have a tail is
marked as a gap. Event streams are never kept back: they are a gap from their first byte.

``Middleware`` serves any WSGI application; Flask needs none (``hooks/flask.py``).
"""

from __future__ import annotations

from typing import Any, Callable, Dict, Iterable, Iterator, List, Optional, Tuple

from .carriers import HEADER_BYTES, HISTORY_HEADER, REPLY_HEADER, may_have_tail, tail
from .context import CURRENT
from .envelope import ACCEPT_TAIL, to_header
from .history import HISTORY_BYTES, truncate
from .names import normalised_http_name, raw_http_name
from .runtime import runtime
from .scope import Scope

KEEP_BYTES = 32_768
ENVIRON_KEY = "HTTP_X_FAULTLOOM"
TRACEPARENT_KEY = "HTTP_TRACEPARENT"
BAGGAGE_KEY = "HTTP_BAGGAGE"
SERVED_KEY = "faultloom.served"

_STREAMED = (
    "text/event-stream", "application/x-ndjson", "application/ndjson", "application/jsonl", "application/json-seq",
    "application/stream+json", "multipart/x-mixed-replace",
)  # fmt: skip

Headers = List[Tuple[str, str]]


class Middleware:
    """Wraps a WSGI application. ``route`` gives the template of a served request (``GET /cart/{user}``) or ""."""

    def __init__(self, app: Callable[..., Iterable[bytes]], route: Optional[Callable[[Dict[str, Any]], str]] = None) -> None:
        self.app = app
        self.route = route

    def __call__(self, environ: Dict[str, Any], start_response: Callable[..., Any]) -> Iterable[bytes]:
        return serve(self.app, environ, start_response, self.route)


def serve(
    app: Callable[..., Iterable[bytes]],
    environ: Dict[str, Any],
    start_response: Callable[..., Any],
    route: Optional[Callable[[Dict[str, Any]], str]] = None,
) -> Iterable[bytes]:
    """Runs ``app`` for one request, inside a scope if an accepted envelope came with it or it was drawn."""
    if SERVED_KEY in environ:
        return app(environ, start_response)
    scope = runtime().http_scope(environ.get(ENVIRON_KEY), environ.get(TRACEPARENT_KEY, ""), environ.get(BAGGAGE_KEY, ""))
    environ[SERVED_KEY] = scope is not None
    return app(environ, start_response) if scope is None else Reply(app, environ, start_response, scope, route)


def raw_path(environ: Dict[str, Any]) -> str:
    """The path as the caller wrote it, if the server tells; else quoted anew."""
    for key in ("RAW_URI", "REQUEST_URI"):
        value = environ.get(key)
        if isinstance(value, str) and value:
            return value
    from urllib.parse import quote

    path = environ.get("SCRIPT_NAME", "") + environ.get("PATH_INFO", "")
    return quote(path.encode("latin-1", "replace"), safe="/~!$&'()*+,;=:@")


class Reply:
    """One reply: the iterable handed to the server, and the start_response and write handed to the application."""

    def __init__(self, app: Any, environ: Dict[str, Any], start_response: Any, scope: Scope, route: Any) -> None:
        self._environ = environ
        self._start = start_response
        self._scope = scope
        self._route = route
        self._name = ""
        self._status = ""
        self._headers: Headers = []
        self._exc_info: Any = None
        self._kept: List[bytes] = []
        self._kept_bytes = 0
        self._write: Any = None  # the server's, once the headers have gone to it
        self._tail = False
        self._app_iter: Iterable[bytes] = ()
        token = CURRENT.set(scope)
        try:
            self._app_iter = app(environ, self.start_response)
        except BaseException:
            scope.abandon()
            raise
        finally:
            CURRENT.reset(token)

    # -- the application's side

    def start_response(self, status: str, headers: Headers, exc_info: Any = None) -> Callable[[bytes], Any]:
        if self._write is not None:
            return self._start(status, headers, exc_info)  # type: ignore[no-any-return]  # the server raises, as it should
        if self._status and exc_info is None:
            raise AssertionError("start_response called a second time without exc_info")
        self._status, self._headers, self._exc_info = status, list(headers), exc_info
        self._note_route()  # now, because Flask forgets its request before the reply has left
        return self.write

    def write(self, data: bytes) -> None:
        if self._write is None:
            self._keep(data)
            if self._kept_bytes <= KEEP_BYTES and not self._streamed():
                return
            self._begin(None)
            data = b"".join(self._take())
        if self._write is not None:
            self._write(data)

    def _keep(self, data: bytes) -> None:
        self._kept.append(data)
        self._kept_bytes += len(data)

    def _take(self) -> List[bytes]:
        kept, self._kept, self._kept_bytes = self._kept, [], 0
        return kept

    # -- the server's side

    def __iter__(self) -> Iterator[bytes]:
        it = self._next_in_scope(lambda: iter(self._app_iter))
        for data in iter(lambda: self._next_in_scope(lambda: next(it, None)), None):
            if self._write is not None:
                yield data
                continue
            if data:
                self._keep(data)
            if not self._status or (self._kept_bytes <= KEEP_BYTES and not (data and self._streamed())):
                continue
            self._begin(None)
            yield from self._take()
        if self._write is None:
            if not self._status:
                self._scope.abandon()
                raise AssertionError("the application ended without start_response")
            end = self._begin(self._respond())
            yield from self._take()
            if end:
                yield end
        elif self._tail:
            yield tail(truncate(self._respond() or b"", HISTORY_BYTES) or b"")
        else:
            self._respond()  # too late for the reply; the exporter may take it

    def close(self) -> None:
        try:
            close = getattr(self._app_iter, "close", None)
            if close is not None:
                self._next_in_scope(close)
        finally:
            self._scope.abandon()

    def _next_in_scope(self, step: Callable[[], Any]) -> Any:
        token = CURRENT.set(self._scope)
        try:
            return step()
        except BaseException:
            self._scope.abandon()
            raise
        finally:
            CURRENT.reset(token)

    # -- headers

    def _code(self) -> int:
        digits = self._status[:3]
        return int(digits) if digits.isdigit() else 0

    def _streamed(self) -> bool:
        if not self._scope.returns:
            return True
        headers = {name.lower(): value for name, value in self._headers}
        kind = headers.get("content-type", "").split(";", 1)[0].strip().lower()
        return kind in _STREAMED or headers.get("x-accel-buffering", "").strip().lower() == "no"

    def _may_have_tail(self) -> bool:
        environ = self._environ
        asked = [name for name in ("range", "upgrade") if environ.get("HTTP_" + name.upper())]
        headers = {name.lower(): value.strip().lower() for name, value in self._headers}
        accepts = self._scope.envelope.accept & ACCEPT_TAIL
        return bool(accepts) and may_have_tail(environ["REQUEST_METHOD"], asked, self._code(), headers)

    def _note_route(self) -> None:
        if self._route is not None and not self._name:
            try:
                self._name = self._route(self._environ)
            except Exception:
                pass

    def _respond(self) -> Optional[bytes]:
        self._note_route()
        name = self._name
        try:
            if not name:
                name = normalised_http_name(raw_http_name(self._environ["REQUEST_METHOD"], raw_path(self._environ)))
        except Exception:
            pass
        return self._scope.respond(self._code(), name)

    def _begin(self, history: Optional[bytes]) -> bytes:
        """Sends the headers, with the history of a complete reply or (None) without; what must follow the kept body."""
        headers = [(name, value) for name, value in self._headers if name.lower() not in (HISTORY_HEADER, REPLY_HEADER)]
        end = b""
        if self._scope.returns:
            if history is None:
                self._tail = not self._streamed() and self._may_have_tail()
                headers.append((REPLY_HEADER, "tail" if self._tail else "gap"))
            elif len(history) <= HEADER_BYTES:
                headers.append((HISTORY_HEADER, to_header(history)))
            elif self._may_have_tail():
                self._tail = True
                headers.append((REPLY_HEADER, "tail"))
                end = tail(truncate(history, HISTORY_BYTES) or b"")
            else:
                fits = truncate(history, HEADER_BYTES)
                headers.append((REPLY_HEADER, "gap") if fits is None else (HISTORY_HEADER, to_header(fits)))
            headers = _uncacheable(headers)
        if self._tail:
            headers = [(name, value) for name, value in headers if name.lower() != "content-length"]
            if end:
                headers.append(("Content-Length", str(self._kept_bytes + len(end))))
        if self._exc_info is not None:
            self._write = self._start(self._status, headers, self._exc_info)
            self._exc_info = None
        else:
            self._write = self._start(self._status, headers)
        return end


def _uncacheable(headers: Headers) -> Headers:
    """No cache may keep one caller's history, no proxy may touch the bytes; our request header varies the reply."""
    vary = ", ".join([value for name, value in headers if name.lower() == "vary"] + ["x-faultloom"])
    kept = [(name, value) for name, value in headers if name.lower() not in ("cache-control", "vary")]
    return [*kept, ("Cache-Control", "no-store, no-transform"), ("Vary", vary)]
