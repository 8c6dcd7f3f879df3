"""``http.server`` on the serving side: the method of a ``BaseHTTPRequestHandler`` that answers a request (``do_GET``).

After ``parse_request``, an ``Answer`` stands in for that method, and runs it in a scope if the request is traced.
Handlers write the bytes of their reply to ``wfile``, where ``ReplyFile`` finds head and body in these bytes. It holds
back up to 32 kB of the body, as in ``wsgi``, until the handler flushes it.

A handler that uses the socket itself writes past ``wfile``. From then on nothing is held back, and the reply is a gap.
Servers for WSGI that are built on ``http.server`` (Werkzeug's, wsgiref) have no such methods: their applications are
traced instead.
"""

from __future__ import annotations

import io
import socketserver
from typing import Any, Callable, List, Optional

from ...scope.current import CURRENT_SCOPE, IN_UNTRACED_REQUEST
from ...scope.scope import Scope
from ...scope.unscoped import OPEN_SCOPES
from ...wire.names import normalize_http_name, raw_http_name
from ..patching import Patch
from .chunks import Chunks, chunk
from .held_reply import HOLD_BYTES, Headers, HeldReply, tail_of
from .incoming import leaves_http, open_scope

_HEAD_BYTES_MAX = 1 << 20
_REPLACED_METHODS = ("write", "flush", "fileno")


def patch(patch: Patch, module: Any) -> None:
    """``module``: http.server."""
    handler = module.BaseHTTPRequestHandler
    parse_request = handler.parse_request

    def traced_parse_request(self: Any) -> Any:
        parsed = parse_request(self)
        name = f"do_{self.command}"
        if parsed and hasattr(type(self), name) and not leaves_http(self.headers.get("upgrade", "")):
            if isinstance(self.__dict__.get(name), Answer):
                del self.__dict__[name]  # of an earlier request that was answered in another way
            self.__dict__[name] = Answer(self, name)
        return parsed

    patch.replace(handler, "parse_request", traced_parse_request)
    for name in ("request", "connection"):
        patch.replace(handler, name, _socket_attribute(name))


def _socket_attribute(name: str) -> property:
    """The handler's attribute for its socket: who reads it may write past ``wfile``."""

    def read(self: Any) -> Any:
        values = self.__dict__
        if name not in values:
            raise AttributeError(name)
        reply = values.get("_faultloom_reply")
        if reply is not None:
            reply.pass_on()
        return values[name]

    def write(self: Any, value: Any) -> None:
        self.__dict__[name] = value

    def delete(self: Any) -> None:
        del self.__dict__[name]

    return property(read, write, delete)


class Answer:
    """Stands in for the method of a handler that answers its current request."""

    def __init__(self, handler: Any, name: str) -> None:
        self._handler, self._name = handler, name
        self._method: Callable[[], Any] = getattr(handler, name)

    def __call__(self) -> None:
        handler, method = self._handler, self._method
        del handler.__dict__[self._name]
        headers = handler.headers
        scope = open_scope(lambda wanted: headers.get_all(wanted, []))
        if scope is not None:
            return answer_in_scope(handler, method, scope)
        if not OPEN_SCOPES:
            return method()  # type: ignore[no-any-return]
        token = IN_UNTRACED_REQUEST.set(True)
        try:
            return method()  # type: ignore[no-any-return]
        finally:
            IN_UNTRACED_REQUEST.reset(token)


def answer_in_scope(handler: Any, method: Callable[[], Any], scope: Scope) -> None:
    reply = handler._faultloom_reply = ReplyFile(handler, scope)
    reply.insert()
    token = CURRENT_SCOPE.set(scope)
    is_answered = False
    try:
        method()
        is_answered = True
    finally:
        CURRENT_SCOPE.reset(token)
        handler._faultloom_reply = None
        reply.remove()
        if is_answered:
            reply.finish()
        else:
            reply.fail()
        scope.abandon()


class ReplyFile(io.BufferedIOBase):
    """``wfile`` of one request: finds the reply in the bytes that the handler writes, and adds the history."""

    def __init__(self, handler: Any, scope: Scope) -> None:
        self._handler, self._scope = handler, scope
        #: the handler's own
        self.inner = handler.wfile
        # handlers may keep other references to it, so its methods are replaced if that is possible
        self._is_in_place = type(self.inner) is socketserver._SocketWriter  # type: ignore[attr-defined]
        self._write: Callable[[bytes], Any] = self.inner.write
        self._reply = HeldReply(scope, handler.command, [name.lower() for name in handler.headers])
        #: the head, until it is complete
        self._head: Optional[bytearray] = bytearray()
        self._status_line = b""
        #: the body as the handler has written it, while it is held back
        self._held: List[bytes] = []
        #: bytes of the body that its declared length still permits; None: no length is declared
        self._left: Optional[int] = None
        self._chunks: Optional[Chunks] = None
        #: what is written goes to the connection as it is
        self._passes_on = False
        #: the body leaves in chunks, whatever the handler writes
        self._sends_chunks = False

    def insert(self) -> None:
        if self._is_in_place:
            self.inner.__dict__.update({name: getattr(self, name) for name in _REPLACED_METHODS})
        else:
            self._handler.wfile = self

    def remove(self) -> None:
        if self._is_in_place:
            for name in _REPLACED_METHODS:
                self.inner.__dict__.pop(name, None)
        elif self._handler.wfile is self:
            self._handler.wfile = self.inner

    # -- called by the handler

    def write(self, data: Any) -> int:
        with memoryview(data) as view:
            copy = view.tobytes()
        if self._passes_on:
            self._write(copy)
        elif self._head is not None:
            self._head += copy
            self._read_head()
        else:
            self._add_to_body(copy)
        return len(copy)

    def flush(self) -> None:
        if self._head:
            self.pass_on()  # the rest of the head comes from elsewhere, such as a CGI program
        elif self._status_line and self._reply.held_bytes and self._expects_more():
            # the handler may wait for what its caller does with this part
            self._send_head(None, may_have_tail=self._may_have_tail())
        if self._passes_on or (self._head is None and not self._status_line):
            type(self.inner).flush(self.inner)

    def writable(self) -> bool:
        return True

    def fileno(self) -> int:
        self.pass_on()
        return int(type(self.inner).fileno(self.inner))

    def close(self) -> None:
        if "inner" in self.__dict__ and not self.closed:
            self.pass_on()
            self.inner.close()
        super().close()

    def __del__(self) -> None:
        pass  # a file object closes itself, and the handler's own stays open

    def __getattr__(self, name: str) -> Any:
        # for example the socket of the handler's own
        if name.startswith("__") or "inner" not in self.__dict__:
            raise AttributeError(name)
        value = getattr(self.inner, name)
        self.pass_on()
        return value

    def pass_on(self) -> None:
        """Sends what is held back. The reply is a gap, and what follows is not observed."""
        if self._head is not None:
            written, self._head, self._passes_on = bytes(self._head), None, True
            if written:
                self._write(written)
        elif self._status_line:
            self._send_head(None, may_have_tail=False)

    # -- the reply

    def finish(self) -> None:
        """The handler has answered."""
        history = self._finish_scope()
        if self._head is not None:
            self.pass_on()  # nothing, or an incomplete head
        elif self._passes_on:
            pass
        elif self._status_line:
            self._send_head(history)
        elif self._is_complete():
            tail = tail_of(history)
            self._write((chunk(tail) if tail and self._sends_chunks else tail) + self._end_of_chunks())
        else:
            self._handler.close_connection = True  # the body is cut, so it must not end as if it were whole
        self._passes_on = True

    def fail(self) -> None:
        """The handler has failed: the caller gets what it has written."""
        try:
            self.pass_on()
        except OSError:
            pass  # the error of the handler is raised

    def _read_head(self) -> None:
        assert self._head is not None
        found = self._head.find(b"\r\n\r\n")
        if not self._head.startswith(b"HTTP/"[: len(self._head)]) or len(self._head) > _HEAD_BYTES_MAX:
            return self.pass_on()
        if found < 0:
            return
        head, rest = bytes(self._head[:found]), bytes(self._head[found + 4 :])
        lines = head.split(b"\r\n")
        code = lines[0].split(b" ")[1:2]
        if not code or not code[0].isdigit():
            return self.pass_on()
        if code[0].startswith(b"1"):
            if code[0] == b"101":
                return self.pass_on()
            self._write(head + b"\r\n\r\n")
            self._head = bytearray()
            if rest:
                self.write(rest)
            return
        pairs = [line.decode("latin-1").partition(":") for line in lines[1:]]
        self._reply.code = int(code[0])
        self._reply.headers = [(name, value.strip()) for name, _, value in pairs]
        self._head, self._status_line = None, lines[0]
        lower = {name.lower(): value for name, value in self._reply.headers}
        if "transfer-encoding" in lower:
            self._chunks = Chunks()
        elif lower.get("content-length", "").isdigit():
            self._left = int(lower["content-length"])
        if self._reply.is_event_stream():
            self.pass_on()
        if rest:
            self.write(rest)

    def _add_to_body(self, data: bytes) -> None:
        body = data
        if self._chunks is not None:
            try:
                body = self._chunks.feed(data)
            except ValueError:
                self._held.append(data)
                return self._break_off()
        elif self._left is not None:
            body = data[: self._left]
            self._left -= len(body)
        if not self._status_line:
            self._send_body(body)
            return
        self._held.append(data)
        self._reply.hold(body)
        if self._reply.held_bytes > HOLD_BYTES and self._expects_more():
            self._send_head(None, may_have_tail=self._may_have_tail())

    def _break_off(self) -> None:
        """The handler writes malformed chunks."""
        if self._status_line:
            self.pass_on()
        else:
            self._write(b"".join(self._held))
            self._passes_on = True

    def _is_http_1_1(self) -> bool:
        return bool(self._handler.request_version >= "HTTP/1.1") and self._status_line.startswith(b"HTTP/1.1")

    def _may_have_tail(self) -> bool:
        """Whether the caller will recognize the end of a body that is longer than the handler's."""
        if self._chunks is not None or self._left == 0:
            return True
        if self._left is not None:
            return self._is_http_1_1()  # without a length, nobody would notice that a body of HTTP/1.0 is cut
        return bool(self._handler.close_connection)

    def _expects_more(self) -> bool:
        """Whether the body is not complete as its framing declares. It never is if it ends with the connection."""
        return not self._chunks.is_complete if self._chunks is not None else self._left != 0

    def _is_complete(self) -> bool:
        if self._chunks is not None:
            return self._chunks.is_complete
        return not self._left

    def _send_head(self, history: Optional[bytes], may_have_tail: bool = True) -> None:
        """Sends the head and the held body, with the history of a complete reply or without (None)."""
        reply = self._reply
        if history is not None:
            may_have_tail = self._is_complete() and self._may_have_tail()
        headers, end = reply.head(history, may_have_tail)
        if not reply.has_tail:
            # the body keeps the framing of the handler
            self._write_head(headers, b"".join(self._held))
            self._passes_on = True
        elif history is not None:
            body = b"".join(reply.take())
            if self._chunks is not None:
                headers = [(name, value) for name, value in headers if name.lower() != "content-length"]
                body = b"".join(chunk(part) for part in (body, end) if part) + self._chunks.end
            else:
                body += end
            self._write_head(headers, body)
        else:
            self._begin_tailed_body(headers)
        self._held.clear()

    def _begin_tailed_body(self, headers: Headers) -> None:
        self._sends_chunks = self._chunks is not None or self._left is not None
        if self._left is not None:
            headers = [*headers, ("Transfer-Encoding", "chunked")]
        self._write_head(headers, b"")
        self._send_body(b"".join(self._reply.take()))

    def _write_head(self, headers: Headers, body: bytes) -> None:
        lines = [self._status_line, *(f"{name}: {value}".encode("latin-1") for name, value in headers), b"", b""]
        self._status_line = b""
        self._write(b"\r\n".join(lines) + body)

    def _send_body(self, body: bytes) -> None:
        if body:
            self._write(chunk(body) if self._sends_chunks else body)

    def _end_of_chunks(self) -> bytes:
        if self._chunks is not None:
            return self._chunks.end
        return b"0\r\n\r\n" if self._sends_chunks else b""

    def _finish_scope(self) -> Optional[bytes]:
        handler = self._handler
        return self._scope.finish(self._reply.code, normalize_http_name(raw_http_name(handler.command, handler.path)))
