"""ASGI: the reply to a request with an envelope carries the history, as in ``wsgi``.

``Middleware`` serves any ASGI application. Starlette, FastAPI and Django do not need it (``starlette``, ``django``).
"""

from __future__ import annotations

from typing import Any, Awaitable, Callable, List, Mapping, MutableMapping, Optional, Tuple
from urllib.parse import quote

from ...scope.current import CURRENT_SCOPE, IN_UNTRACED_REQUEST
from ...scope.scope import Scope
from ...scope.unscoped import OPEN_SCOPES
from ...wire.names import normalize_http_name, raw_http_name
from .held_reply import HOLD_BYTES, HeldReply, tail_of
from .incoming import open_scope

ASGIScope = MutableMapping[str, Any]
Application = Callable[[ASGIScope, Any, Any], Awaitable[None]]
#: finds the name of a request ("GET /cart/{user}", or ""), given its ASGI scope as it arrived
Route = Callable[[Mapping[str, Any]], str]

#: in the scope of a traced request, for what frameworks add about it
SERVED_KEY = "faultloom.served"
#: with these, an application lets the server send a file whose bytes it does not see
_FILE_EXTENSIONS = ("http.response.pathsend", "http.response.zerocopysend")


class Middleware:
    """Wraps an ASGI application. ``route`` returns the name of a request (``GET /cart/{user}``) or ""."""

    def __init__(self, app: Application, route: Optional[Route] = None) -> None:
        self.app = app
        self.route = route

    async def __call__(self, scope: ASGIScope, receive: Any, send: Any) -> None:
        await serve(self.app, scope, receive, send, self.route)


async def serve(app: Application, asgi: ASGIScope, receive: Any, send: Any, route: Optional[Route] = None) -> None:
    """Runs ``app`` for one request, inside a scope if the request has a valid envelope or is sampled."""
    if asgi["type"] != "http" or SERVED_KEY in asgi:
        return await app(asgi, receive, send)
    headers = asgi["headers"]
    scope = open_scope(lambda name: _values(headers, name.encode()))
    if scope is None:
        if not OPEN_SCOPES:
            return await app(asgi, receive, send)
        untraced = IN_UNTRACED_REQUEST.set(True)
        try:
            return await app(asgi, receive, send)
        finally:
            IN_UNTRACED_REQUEST.reset(untraced)
    kept = {name: value for name, value in (asgi.get("extensions") or {}).items() if name not in _FILE_EXTENSIONS}
    inner = {**asgi, "extensions": kept, SERVED_KEY: {}}
    reply = _Reply(scope, dict(inner), send, route)  # a copy: frameworks change the scope while they find the route
    token = CURRENT_SCOPE.set(scope)
    try:
        await app(inner, receive, reply.send)
    finally:
        CURRENT_SCOPE.reset(token)
        scope.abandon()


def raw_path(asgi: Mapping[str, Any]) -> str:
    """The path as the caller wrote it, if the server provides it; otherwise quoted again."""
    raw = asgi.get("raw_path")
    return raw.decode("latin-1") if raw else quote(asgi["path"], safe="/~!$&'()*+,;=:@")


def _values(headers: List[Tuple[bytes, bytes]], wanted: bytes) -> List[str]:
    return [value.decode("latin-1") for name, value in headers if name == wanted]


class _Reply:
    """One reply: the ``send`` that the application gets."""

    def __init__(self, scope: Scope, asgi: Mapping[str, Any], send: Any, route: Optional[Route]) -> None:
        self._scope, self._asgi, self._send, self._route = scope, asgi, send, route
        self._reply = HeldReply(scope, asgi["method"], [name.decode("latin-1") for name, _ in asgi["headers"]])
        self._start: Optional[MutableMapping[str, Any]] = None  # until it is sent
        self._ended = False

    async def send(self, message: MutableMapping[str, Any]) -> None:
        kind = message["type"]
        if kind == "http.response.start" and self._start is None and not self._reply.code:
            self._start, self._reply.code = message, message["status"]
            self._reply.headers = [(name.decode("latin-1"), value.decode("latin-1")) for name, value in message.get("headers", ())]
        elif kind == "http.response.body" and not self._ended and self._reply.code:
            await self._send_body(message.get("body", b""), message.get("more_body", False))
        else:
            if self._start is not None and kind != "http.response.debug":  # what the application sends now is not known here
                await self._send_start(None, may_have_tail=False)
                await self._send_held(True)
            await self._send(message)

    async def _send_body(self, data: bytes, more: bool) -> None:
        reply = self._reply
        if self._start is not None:
            if data:
                reply.hold(data)
            if more:
                if reply.held_bytes <= HOLD_BYTES and not (data and reply.is_event_stream()):
                    return
                await self._send_start(None)
                await self._send_held(True)
                return
            end = await self._send_start(self._finish_scope())
            await self._send_held(bool(end))
            if end:
                await self._send({"type": "http.response.body", "body": end, "more_body": False})
            return
        if more:
            await self._send({"type": "http.response.body", "body": data, "more_body": True})
            return
        history = self._finish_scope()
        tail = tail_of(history) if reply.has_tail else b""
        await self._send({"type": "http.response.body", "body": data + tail, "more_body": False})

    async def _send_start(self, history: Optional[bytes], may_have_tail: bool = True) -> bytes:
        """Sends the headers, with the history of a complete reply or without (None).

        Returns what must follow the held body.
        """
        assert self._start is not None
        headers, end = self._reply.head(history, may_have_tail)
        start, self._start = self._start, None
        encoded = [(name.lower().encode("latin-1"), value.encode("latin-1")) for name, value in headers]
        await self._send({**start, "headers": encoded})
        return end

    async def _send_held(self, more: bool) -> None:
        await self._send({"type": "http.response.body", "body": b"".join(self._reply.take()), "more_body": more})

    def _finish_scope(self) -> Optional[bytes]:
        self._ended = True
        name = ""
        try:
            name = self._route(self._asgi) if self._route is not None else ""
        except Exception:
            pass  # code of the framework or of the program
        name = name or normalize_http_name(raw_http_name(self._asgi["method"], raw_path(self._asgi)))
        return self._scope.finish(self._reply.code, name)
