"""WSGI: the reply to a request with an envelope carries the history in a header or after the body.

Up to 32 kB of the body are buffered until the history is complete: a small history goes into a header. With a longer
body the headers are sent before the history is complete, and announce a tail; a reply that must not have a tail is
marked as a gap. Event streams are never buffered: they are a gap from the first byte.

``Middleware`` serves any WSGI application. Flask and Django do not need it (``flask``, ``django``).
"""

from __future__ import annotations

from typing import Any, Callable, Dict, Iterable, Iterator, List, Optional, Tuple

from ...scope.current import CURRENT_SCOPE, IN_UNTRACED_REQUEST
from ...scope.process import IncomingRequest
from ...scope.scope import Scope
from ...scope.unscoped import OPEN_SCOPES
from ...wire.carriers import HEADER_BYTES, HISTORY_HEADER, REPLY_HEADER, allows_tail, encode_tail, last_value
from ...wire.envelope import ACCEPT_TAIL, encode_header
from ...wire.history import HISTORY_BYTES, truncate_history
from ...wire.names import normalize_http_name, raw_http_name, template_name
from ..process import this_process

HOLD_BYTES = 32_768
ENVIRON_KEY = "HTTP_X_FAULTLOOM"
TRACEPARENT_KEY = "HTTP_TRACEPARENT"
BAGGAGE_KEY = "HTTP_BAGGAGE"
SERVED_KEY = "faultloom.served"

_EVENT_STREAM_TYPES = (
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


def traced_application(call: Callable[..., Iterable[bytes]], route: Callable[[Dict[str, Any]], str]) -> Callable[..., Iterable[bytes]]:
    """The method ``call`` of a framework's application, with a scope for requests that are traced."""
    samples = this_process().entry.sample_one_in > 0

    def traced_call(self: Any, environ: Dict[str, Any], start_response: Any) -> Iterable[bytes]:
        if samples or ENVIRON_KEY in environ or BAGGAGE_KEY in environ:
            return serve(lambda e, s: call(self, e, s), environ, start_response, route)
        if OPEN_SCOPES and SERVED_KEY not in environ:
            return serve_untraced(lambda e, s: call(self, e, s), environ, start_response)
        return call(self, environ, start_response)

    return traced_call


def serve(
    app: Callable[..., Iterable[bytes]],
    environ: Dict[str, Any],
    start_response: Callable[..., Any],
    route: Optional[Callable[[Dict[str, Any]], str]] = None,
) -> Iterable[bytes]:
    """Runs ``app`` for one request, inside a scope if the request has a valid envelope or is sampled."""
    if SERVED_KEY in environ:
        return app(environ, start_response)
    process = this_process()
    scope: Optional[Scope] = None
    if ENVIRON_KEY in environ or BAGGAGE_KEY in environ or process.entry.sample_one_in:
        own = environ.get(ENVIRON_KEY)  # servers join the lines of a header
        envelope = None if own is None else last_value((own,))
        request = IncomingRequest(envelope, environ.get(TRACEPARENT_KEY, ""), environ.get(BAGGAGE_KEY, ""))
        scope = process.open_scope(request)
    environ[SERVED_KEY] = scope is not None
    if scope is None:
        return serve_untraced(app, environ, start_response)
    return Reply(app, environ, start_response, scope, route)


def serve_untraced(app: Callable[..., Iterable[bytes]], environ: Dict[str, Any], start_response: Callable[..., Any]) -> Iterable[bytes]:
    """Runs ``app`` for a request without a scope. While other scopes are open, its calls are not counted for them."""
    if not OPEN_SCOPES:
        return app(environ, start_response)
    token = IN_UNTRACED_REQUEST.set(True)
    try:
        return app(environ, start_response)
    finally:
        IN_UNTRACED_REQUEST.reset(token)


def route_name(environ: Dict[str, Any], template: str) -> str:
    """The name of a request by the template of its route, which begins after the path that the application is mounted at."""
    return template_name(environ["REQUEST_METHOD"], raw_path(environ), environ.get("SCRIPT_NAME", "").rstrip("/") + template)


def raw_path(environ: Dict[str, Any]) -> str:
    """The path as the caller wrote it, if the server provides it; otherwise quoted again."""
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
        self._held: List[bytes] = []
        self._held_bytes = 0
        self._write: Any = None  # the server's, once it has the headers
        self._tail = False
        self._app_iter: Iterable[bytes] = ()
        token = CURRENT_SCOPE.set(scope)
        try:
            self._app_iter = app(environ, self.start_response)
        except BaseException:
            scope.abandon()
            raise
        finally:
            CURRENT_SCOPE.reset(token)

    # -- called by the application

    def start_response(self, status: str, headers: Headers, exc_info: Any = None) -> Callable[[bytes], Any]:
        if self._write is not None:
            return self._start(status, headers, exc_info)  # type: ignore[no-any-return]  # the server raises, as WSGI requires
        if self._status and exc_info is None:
            raise AssertionError("start_response called a second time without exc_info")
        self._status, self._headers, self._exc_info = status, list(headers), exc_info
        self._read_route()  # now, because Flask drops its request before the reply is sent
        return self.write

    def write(self, data: bytes) -> None:
        if self._write is None:
            self._hold(data)
            if self._held_bytes <= HOLD_BYTES and not self._is_event_stream():
                return
            self._send_headers(None)
            data = b"".join(self._take())
        if self._write is not None:
            self._write(data)

    def _hold(self, data: bytes) -> None:
        self._held.append(data)
        self._held_bytes += len(data)

    def _take(self) -> List[bytes]:
        held, self._held, self._held_bytes = self._held, [], 0
        return held

    # -- called by the server

    def __iter__(self) -> Iterator[bytes]:
        it = self._next_in_scope(lambda: iter(self._app_iter))
        for data in iter(lambda: self._next_in_scope(lambda: next(it, None)), None):
            if self._write is not None:
                yield data
                continue
            if data:
                self._hold(data)
            if not self._status or (self._held_bytes <= HOLD_BYTES and not (data and self._is_event_stream())):
                continue
            self._send_headers(None)
            yield from self._take()
        if self._write is None:
            if not self._status:
                self._scope.abandon()
                raise AssertionError("the application ended without start_response")
            end = self._send_headers(self._finish_scope())
            yield from self._take()
            if end:
                yield end
        elif self._tail:
            end = tail_of(self._finish_scope())
            if end:
                yield end
        else:
            self._finish_scope()  # too late for the reply, but the exporter may take it

    def close(self) -> None:
        try:
            close = getattr(self._app_iter, "close", None)
            if close is not None:
                self._next_in_scope(close)
        finally:
            self._scope.abandon()

    def _next_in_scope(self, step: Callable[[], Any]) -> Any:
        token = CURRENT_SCOPE.set(self._scope)
        try:
            return step()
        except BaseException:
            self._scope.abandon()
            raise
        finally:
            CURRENT_SCOPE.reset(token)

    # -- headers

    def _code(self) -> int:
        digits = self._status[:3]
        return int(digits) if digits.isdigit() else 0

    def _is_event_stream(self) -> bool:
        if not self._scope.returns_history:
            return True
        headers = {name.lower(): value for name, value in self._headers}
        kind = headers.get("content-type", "").split(";", 1)[0].strip().lower()
        return kind in _EVENT_STREAM_TYPES or headers.get("x-accel-buffering", "").strip().lower() == "no"

    def _allows_tail(self) -> bool:
        environ = self._environ
        present = [name for name in ("range", "upgrade") if environ.get("HTTP_" + name.upper())]
        headers = {name.lower(): value.strip().lower() for name, value in self._headers}
        accepts = self._scope.envelope.accept & ACCEPT_TAIL
        return bool(accepts) and allows_tail(environ["REQUEST_METHOD"], present, self._code(), headers)

    def _read_route(self) -> None:
        if self._route is not None and not self._name:
            try:
                self._name = self._route(self._environ)
            except Exception:
                pass

    def _finish_scope(self) -> Optional[bytes]:
        self._read_route()
        name = self._name
        try:
            if not name:
                name = normalize_http_name(raw_http_name(self._environ["REQUEST_METHOD"], raw_path(self._environ)))
        except Exception:
            pass
        return self._scope.finish(self._code(), name)

    def _send_headers(self, history: Optional[bytes]) -> bytes:
        """Sends the headers, with the history of a complete reply or without (None).

        Returns what must follow the held body.
        """
        headers = [(name, value) for name, value in self._headers if name.lower() not in (HISTORY_HEADER, REPLY_HEADER)]
        end = b""
        if self._scope.returns_history:
            if history is None:
                self._tail = not self._is_event_stream() and self._allows_tail()
                headers.append((REPLY_HEADER, "tail" if self._tail else "gap"))
            elif len(history) <= HEADER_BYTES:
                headers.append((HISTORY_HEADER, encode_header(history)))
            elif self._allows_tail():
                self._tail = True
                headers.append((REPLY_HEADER, "tail"))
                end = tail_of(history)
            else:
                truncated = truncate_history(history, HEADER_BYTES)
                headers.append((REPLY_HEADER, "gap") if truncated is None else (HISTORY_HEADER, encode_header(truncated)))
            headers = _uncacheable(headers)
        if self._tail:
            headers = [(name, value) for name, value in headers if name.lower() != "content-length"]
            if end:
                headers.append(("Content-Length", str(self._held_bytes + len(end))))
        if self._exc_info is not None:
            self._write = self._start(self._status, headers, self._exc_info)
            self._exc_info = None
        else:
            self._write = self._start(self._status, headers)
        return end


def tail_of(history: Optional[bytes]) -> bytes:
    """The tail with this history; nothing without one: an empty tail would be part of the body."""
    fitting = truncate_history(history, HISTORY_BYTES) if history else None
    return encode_tail(fitting) if fitting else b""


def _uncacheable(headers: Headers) -> Headers:
    """Headers that forbid caches to store one caller's history and proxies to change the bytes.

    Replies vary by our header.
    """
    vary = ", ".join([value for name, value in headers if name.lower() == "vary"] + ["x-faultloom"])
    kept = [(name, value) for name, value in headers if name.lower() not in ("cache-control", "vary")]
    return [*kept, ("Cache-Control", "no-store, no-transform"), ("Vary", vary)]
