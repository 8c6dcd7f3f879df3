"""WSGI: the reply to a request with an envelope carries the history in a header or after the body.

Up to 32 kB of the body are buffered until the history is complete: a small history goes into a header. With a longer
body the headers are sent before the history is complete, and announce a tail; a reply that must not have a tail is
marked as a gap. Event streams are never buffered: they are a gap from the first byte.

``Middleware`` serves any WSGI application. Flask and Django do not need it (``flask``, ``django``).
"""

from __future__ import annotations

from typing import Any, Callable, Dict, Iterable, Iterator, Optional

from ...scope.current import CURRENT_SCOPE, IN_UNTRACED_REQUEST
from ...scope.process import IncomingRequest
from ...scope.scope import Scope
from ...scope.unscoped import OPEN_SCOPES
from ...wire.carriers import last_value
from ...wire.names import normalize_http_name, raw_http_name, template_name
from ..process import this_process
from .held_reply import HOLD_BYTES, Headers, HeldReply, tail_of

ENVIRON_KEY = "HTTP_X_FAULTLOOM"
TRACEPARENT_KEY = "HTTP_TRACEPARENT"
BAGGAGE_KEY = "HTTP_BAGGAGE"
SERVED_KEY = "faultloom.served"


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
    """The name of a request by the template of its route, which begins where the application is mounted."""
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
        self._reply = HeldReply(scope, environ["REQUEST_METHOD"], [name for name in ("range", "upgrade") if environ.get("HTTP_" + name.upper())])
        self._exc_info: Any = None
        self._write: Any = None  # the server's, once it has the headers
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
        self._status, self._reply.headers, self._exc_info = status, list(headers), exc_info
        self._reply.code = int(status[:3]) if status[:3].isdigit() else 0
        self._read_route()  # now, because Flask drops its request before the reply is sent
        return self.write

    def write(self, data: bytes) -> None:
        if self._write is None:
            self._reply.hold(data)
            if self._reply.held_bytes <= HOLD_BYTES and not self._reply.is_event_stream():
                return
            self._send_headers(None)
            data = b"".join(self._reply.take())
        if self._write is not None:
            self._write(data)

    # -- called by the server

    def __iter__(self) -> Iterator[bytes]:
        it = self._next_in_scope(lambda: iter(self._app_iter))
        for data in iter(lambda: self._next_in_scope(lambda: next(it, None)), None):
            if self._write is not None:
                yield data
                continue
            if data:
                self._reply.hold(data)
            if not self._status or (self._reply.held_bytes <= HOLD_BYTES and not (data and self._reply.is_event_stream())):
                continue
            self._send_headers(None)
            yield from self._reply.take()
        if self._write is None:
            if not self._status:
                self._scope.abandon()
                raise AssertionError("the application ended without start_response")
            end = self._send_headers(self._finish_scope())
            yield from self._reply.take()
            if end:
                yield end
        elif self._reply.has_tail:
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
        return self._scope.finish(self._reply.code, name)

    def _send_headers(self, history: Optional[bytes]) -> bytes:
        """Sends the headers, with the history of a complete reply or without (None).

        Returns what must follow the held body.
        """
        headers, end = self._reply.head(history)
        if self._exc_info is not None:
            self._write = self._start(self._status, headers, self._exc_info)
            self._exc_info = None
        else:
            self._write = self._start(self._status, headers)
        return end
