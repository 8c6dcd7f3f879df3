"""aiohttp on the serving side: ``RequestHandler._handle_request`` serves one request and writes its reply, in a task.

A traced request gets a writer that holds back the head and up to 32 kB of the body, as in ``wsgi``, but not longer than
0.1 s: a handler may wait for what its caller does with the first part of the reply. The writer is below all
kinds of responses, also those that a handler prepares and writes itself. The route template is that of the resource
that aiohttp has matched. Requests for WebSocket stay unchanged.
"""

from __future__ import annotations

import asyncio
import importlib
from typing import Any, Optional

from aiohttp.http_writer import StreamWriter
from multidict import CIMultiDict

from ...scope.current import CURRENT_SCOPE, IN_UNTRACED_REQUEST
from ...scope.scope import Scope
from ...scope.unscoped import OPEN_SCOPES
from ...wire.names import normalize_http_name, raw_http_name, template_name
from ..patching import Patch
from .held_reply import HOLD_BYTES, Headers, HeldReply, tail_of
from .incoming import leaves_http, open_scope

#: before aiohttp 3.12, the head is sent as soon as it is written
_BUFFERS_HEAD = hasattr(StreamWriter, "send_headers")

_HOLD_SECONDS = 0.1


def patch(patch: Patch, module: Any) -> None:
    """``module``: aiohttp.web_protocol."""
    file_response = importlib.import_module("aiohttp.web_fileresponse").FileResponse
    stream_response = importlib.import_module("aiohttp.web_response").StreamResponse
    handler = module.RequestHandler
    handle_request = handler._handle_request
    sendfile, send_through_writer = file_response._sendfile, file_response._sendfile_fallback

    async def traced_handle_request(self: Any, request: Any, *args: Any, **kwargs: Any) -> Any:
        headers = request.headers
        is_http = not leaves_http(headers.get("upgrade", ""))
        scope = open_scope(lambda name: headers.getall(name, ())) if is_http else None
        if scope is None:
            if not OPEN_SCOPES:
                return await handle_request(self, request, *args, **kwargs)
            untraced = IN_UNTRACED_REQUEST.set(True)
            try:
                return await handle_request(self, request, *args, **kwargs)
            finally:
                IN_UNTRACED_REQUEST.reset(untraced)
        writer = request._payload_writer = ReplyWriter(scope, request)
        token = CURRENT_SCOPE.set(scope)
        try:
            return await handle_request(self, request, *args, **kwargs)
        finally:
            CURRENT_SCOPE.reset(token)
            await writer.release()
            scope.abandon()

    async def traced_sendfile(self: Any, request: Any, fobj: Any, offset: int, count: int) -> Any:
        if not isinstance(request._payload_writer, ReplyWriter):
            return await sendfile(self, request, fobj, offset, count)
        writer = await stream_response.prepare(self, request)
        return await send_through_writer(self, writer, fobj, offset, count)

    patch.replace(handler, "_handle_request", traced_handle_request)
    patch.replace(file_response, "_sendfile", traced_sendfile)


def route_of(request: Any) -> str:
    """``METHOD /template`` of the request, or "" if no resource names it."""
    resource = request.match_info.route.resource
    info = resource.get_info() if resource is not None else {}
    template = info.get("path", "")
    if "pattern" in info:
        template = template_of(info["formatter"], info["pattern"], request.rel_url.raw_path)
    return template_name(request.method, request.rel_url.raw_path, template)


def template_of(formatter: str, pattern: Any, path: str) -> str:
    """``/files/{name}`` of a dynamic resource, as ``/files/{*name}`` if the expression of the name matches slashes."""
    found = pattern.fullmatch(path)
    for name in found.groupdict() if found else ():
        begin, end = found.span(name)
        value = found[name]
        longer = f"{value}/{value}"
        matched = pattern.fullmatch(path[:begin] + longer + path[end:])
        if "/" in value or (matched and matched[name] == longer):
            formatter = formatter.replace(f"{{{name}}}", f"{{*{name}}}")
    return formatter


class ReplyWriter(StreamWriter):
    """Writes one reply, with its history."""

    def __init__(self, scope: Scope, request: Any) -> None:
        super().__init__(request.protocol, request._loop)
        self._scope, self._request = scope, request
        self._reply = HeldReply(scope, request.method, [name.lower() for name in request.headers])
        self._status_line = ""
        self._is_held = False
        #: bytes of the body that its declared length still permits; None: no length is declared
        self._left: Optional[int] = None
        #: held bytes that count as sent, because aiohttp would have sent them by now
        self._counted = 0
        #: sends what is held after a while
        self._timer: Optional[asyncio.TimerHandle] = None
        self._sending: Optional[asyncio.Task[None]] = None

    def _count(self, size: int) -> None:
        # aiohttp does not answer with an error after a part of the reply has been sent
        self._counted += size
        self.output_size += size
        if self._timer is None:
            self._timer = self.loop.call_later(_HOLD_SECONDS, self._begin_to_send)

    def _begin_to_send(self) -> None:
        if self._is_held:
            self._sending = self.loop.create_task(self._send_held())

    async def _send_held(self, may_have_tail: bool = True) -> None:
        """Sends the head of an incomplete reply, and its body so far."""
        await self._write_head(None, may_have_tail)
        if self._reply.held_bytes:
            await super().write(b"".join(self._reply.take()), drain=False)
        elif _BUFFERS_HEAD:
            super().send_headers()

    async def _wait_until_sent(self) -> None:
        """The handler gets the error of a task that sends for it, as of its own writing."""
        if self._sending is not None:
            await asyncio.shield(self._sending)
            self._sending = None

    async def write_headers(self, status_line: str, headers: Any) -> None:
        code = status_line.split(" ", 2)[1]
        self._status_line, self._reply.code = status_line, int(code) if code.isdigit() else 0
        self._reply.headers = list(headers.items())
        self._left = self.length
        self._is_held = True
        if not _BUFFERS_HEAD:
            self._count(len(status_line))
        if self._reply.is_event_stream():
            await self._write_head(None)

    def send_headers(self) -> None:
        if self._is_held:
            self._count(len(self._status_line))
        else:
            super().send_headers()

    async def write(self, chunk: Any, *, drain: bool = True, **options: Any) -> None:
        if not self._reply.code:
            return await super().write(chunk, drain=drain, **options)  # "100 Continue"
        await self._wait_until_sent()
        data = self._within_length(bytes(chunk))
        if not self._is_held:
            return await super().write(data, drain=drain, **options)
        self._reply.hold(data)
        self._count(len(data))
        if self._reply.held_bytes > HOLD_BYTES:
            await self._write_head(None)
            await super().write(b"".join(self._reply.take()), drain=drain, **options)

    async def write_eof(self, chunk: Any = b"") -> None:
        await self._wait_until_sent()
        data = self._within_length(bytes(chunk))
        if not self._is_held:
            history = self._finish_scope() if self._reply.code else None
            if self._reply.has_tail and self._left:
                await super().write(data)  # the body is cut, so it must not end as if it were whole
                return self._request.protocol.force_close()  # type: ignore[no-any-return]
            return await super().write_eof(data + tail_of(history) if self._reply.has_tail else data)
        self._reply.hold(data)
        end = await self._write_head(self._finish_scope())
        return await super().write_eof(b"".join(self._reply.take()) + end)

    async def drain(self) -> None:
        if not self._is_held:
            await super().drain()

    async def release(self) -> None:
        """Sends what a handler that failed has written so far, unless aiohttp would not have sent it either."""
        try:
            await self._wait_until_sent()
            if self._is_held and self._counted:
                await self._send_held(may_have_tail=False)
        except ConnectionError:
            pass  # the caller is gone

    def _within_length(self, data: bytes) -> bytes:
        """``data`` without what exceeds the declared length, as aiohttp would send it."""
        if self._left is not None and self._compress is None:
            data = data[: self._left]
            self._left -= len(data)
        return data

    async def _write_head(self, history: Optional[bytes], may_have_tail: bool = True) -> bytes:
        """Writes the head, with the history of a complete reply or without (None).

        Returns what follows the held body.
        """
        reply, is_declared = self._reply, self.length is not None
        self._is_held = False
        if self._timer is not None:
            self._timer.cancel()
        self.output_size -= self._counted
        self._counted = 0
        if history is None and is_declared and not self._status_line.startswith("HTTP/1.1"):
            may_have_tail = False  # only chunks can replace the length while the connection stays open
        headers, end = reply.head(history, may_have_tail)
        if reply.has_tail:
            headers = self._frame_again(headers, len(end))
        await super().write_headers(self._status_line, CIMultiDict(headers))
        return end

    def _frame_again(self, headers: Headers, tail_bytes: int) -> Headers:
        """Adapts the framing to a reply with a tail, which is complete if the size of the tail is known."""
        if tail_bytes:
            self.length, self.chunked = self._reply.held_bytes + tail_bytes, False
            return [(name, value) for name, value in headers if name.lower() != "transfer-encoding"]
        if self.length is not None:
            self.length = None
            self.enable_chunking()
            headers = [*headers, ("Transfer-Encoding", "chunked")]
        return headers

    def _finish_scope(self) -> Optional[bytes]:
        name = ""
        try:
            name = route_of(self._request)
        except Exception:
            pass  # a server without routes, or a request that was not routed
        name = name or normalize_http_name(raw_http_name(self._request.method, self._request.raw_path))
        return self._scope.finish(self._reply.code, name)
