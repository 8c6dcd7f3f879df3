"""``http.client`` on the sending side: what urllib, urllib3 and requests are built on.

The decision falls in ``putrequest``; the envelope goes out with ``endheaders``; ``getresponse`` ends the call. A fault
that keeps the request from being sent mutes ``send`` and puts one end of a socket pair where the connection's socket
would be, so that the libraries above find what they expect and raise what they always raise.
"""

from __future__ import annotations

import errno
import socket
import sys
from typing import Any, List, Optional

from .. import carriers
from ..bridge import BAGGAGE, TRACEPARENT
from ..carriers import REQUEST_HEADER
from ..context import current
from ..envelope import ACCEPT_TAIL, accepting, to_header
from ..names import http_authority, raw_http_name
from ..runtime import hold, runtime, wait_seconds
from ..scope import Scope, Send
from .http_body import accepts_only_undone, carried, decoder_for
from .http_response import replaced_body, tailed_response
from .patching import Patch

REFUSED = "[Errno 111] Connection refused"


class Call:
    """One request on a connection, from ``putrequest`` to the end of its reply."""

    __slots__ = ("held", "muted", "name", "peer", "scope", "send", "stood_in")

    def __init__(self, scope: Scope, peer: str, name: str) -> None:
        self.scope, self.peer, self.name = scope, peer, name
        self.send: Optional[Send] = None
        self.muted = False
        self.stood_in = False
        #: what a delayed request would have sent, while it is not known whether its deadline ends first
        self.held: Optional[List[Any]] = None

    @property
    def kind(self) -> str:
        return self.send.fault.kind if self.send is not None and self.send.fault is not None else ""

    @property
    def seconds(self) -> float:
        """How long a delay or hang lasts."""
        assert self.send is not None and self.send.fault is not None
        return wait_seconds(self.send.fault)

    def failed(self, code: int, gap: bool = True) -> None:
        if self.send is not None:
            self.scope.failed(self.send.number, code, None, gap)


def code_of(error: Optional[BaseException]) -> int:
    """The gRPC code recorded for a failure: refused, reset 14, timeout 4, else 2.

    urllib3 wraps what the socket raised; the cause tells.
    """
    for _ in range(8):
        if error is None:
            break
        if isinstance(error, (socket.timeout, TimeoutError)):
            return 4
        if isinstance(error, ConnectionError):
            return 14
        error = error.__cause__ or error.__context__
    return 2


def patch(patch: Patch, module: Any) -> None:
    """``module``: http.client."""
    connection = module.HTTPConnection
    putrequest, endheaders, send = connection.putrequest, connection.endheaders, connection.send
    getresponse, close = connection.getresponse, connection.close

    def traced_putrequest(self: Any, method: str, url: str, *args: Any, **kwargs: Any) -> Any:
        scope = current()
        if scope is None and self._faultloom is None:
            return putrequest(self, method, url, *args, **kwargs)
        if self._faultloom is not None:
            self._faultloom.failed(2)
            self._faultloom = None
        putrequest(self, method, url, *args, **kwargs)
        if scope is not None:
            try:
                self._faultloom = Call(scope, runtime().peer(authority_of(self, url)), raw_http_name(method, url or "/"))
            except Exception:
                pass  # a connection of an unknown make is left alone

    def traced_endheaders(self: Any, *args: Any, **kwargs: Any) -> Any:
        call = self._faultloom
        if call is not None and call.send is None:
            begin(self, call)
        endheaders(self, *args, **kwargs)

    def traced_send(self: Any, data: Any) -> Any:
        call = self._faultloom
        if call is None:
            return send(self, data)
        if call.muted:
            if call.held is not None:
                call.held.append(data if not isinstance(data, bytearray) else bytes(data))
            return None
        try:
            return send(self, data)
        except BrokenPipeError:
            raise  # urllib3 goes on to read an early answer
        except BaseException as error:
            self._faultloom = None
            call.failed(code_of(error))
            raise

    def begin(self: Any, call: Call) -> None:
        accept = ACCEPT_TAIL if accepts_only_undone(",".join(header_values(self, b"accept-encoding"))) else 0
        header_values(self, REQUEST_HEADER.encode(), remove=True)  # one that the application passed on
        call.send = call.scope.send(True, call.peer, call.name, accepting(accept, 0))
        if call.send is None:
            self._faultloom = None
            return
        kind = call.kind
        if kind == "unavailable":
            self._faultloom = None
            call.failed(14, gap=False)
            self.close()
            raise refused(self)
        if kind in ("status", "deadline", "reset", "hang"):
            call.muted = True
            stand_in(self, call, answer_bytes(call) if kind == "status" else b"")
        elif kind == "delay":
            limit = timeout_of(self)
            if limit is not None and call.seconds >= limit:
                call.muted, call.held = True, []
                stand_in(self, call, b"")
            else:
                hold(call.scope, call.seconds)
        if call.send.envelope is not None and not (call.muted and call.held is None):
            connection.putheader(self, REQUEST_HEADER, to_header(call.send.envelope))
            if call.scope.envelope.bridge:
                put_bridge(self, call.scope, call.send)

    def traced_getresponse(self: Any) -> Any:
        call = self._faultloom
        if call is None or call.send is None:
            return getresponse(self)
        if call.muted and call.kind != "status":
            wait_or_fail(self, call)
        self._faultloom = None
        number = call.send.number
        try:
            response = getresponse(self)
        except BaseException as error:
            if call.kind != "status":
                call.failed(code_of(error))
            raise
        if call.kind == "status":
            call.scope.replied(number, call.send.fault.arg)  # the callee certainly did not run: no gap
            self.close()
            return response
        return finish(self, call, response)

    def wait_or_fail(self: Any, call: Call) -> None:
        """Ends a call that was not sent; returns only for a delay that was shorter than the deadline.

        By now the socket's timeout is the one for reading; urllib3 1 sets it there and nowhere else.
        """
        kind, limit = call.kind, self.sock.gettimeout() if self.sock is not None else timeout_of(self)
        in_time = limit is None or call.seconds < limit
        lasted = kind not in ("delay", "hang") or hold(call.scope, call.seconds if limit is None else min(call.seconds, limit))
        if kind == "delay" and (in_time or not lasted):
            held, call.held, call.muted = call.held or [], None, False
            if call.stood_in and self.sock is not None:
                self.sock.close()
                self.sock = None
            for data in held:
                traced_send(self, data)
            if limit is not None and self.sock is not None:
                self.sock.settimeout(limit)
            return
        self._faultloom = None
        call.failed(14 if kind == "reset" else 4, gap=False)
        self.close()
        if kind == "reset":
            raise ConnectionResetError(errno.ECONNRESET, "Connection reset by peer")
        raise socket.timeout("timed out")

    def finish(self: Any, call: Call, response: Any) -> Any:
        assert call.send is not None
        scope, number, kind, code = call.scope, call.send.number, call.kind, response.status
        found = carried(response.headers)
        lost = kind == "lost-reply"

        def ended(history: Optional[bytes]) -> None:
            if lost:
                scope.failed(number, 14, history, history is None)
            else:
                scope.replied(number, code, history, history is None)

        if found.tail:
            response = tailed_response(response, decoder_for(found.coding), ended)
            if not kind or kind == "delay":
                scope.awaits(number, code)
                return response
        else:
            ended(found.history)
        if lost or kind in ("empty-reply", "corrupt-reply"):
            try:
                body = response.read()
            except Exception:
                if not lost:
                    raise
            if lost:
                self.close()
                raise ConnectionResetError(errno.ECONNRESET, "Connection reset by peer")
            return replaced_body(response, b"" if kind == "empty-reply" else carriers.corrupt(body), kind == "empty-reply")
        return response

    def traced_close(self: Any) -> None:
        call = self._faultloom
        if call is not None:
            # given up between request and reply; the reason is being handled, if there is one
            self._faultloom = None
            call.failed(code_of(sys.exc_info()[1]) if sys.exc_info()[1] is not None else 1)
        close(self)

    patch.replace(connection, "_faultloom", None)
    patch.replace(connection, "putrequest", traced_putrequest)
    patch.replace(connection, "endheaders", traced_endheaders)
    patch.replace(connection, "send", traced_send)
    patch.replace(connection, "getresponse", traced_getresponse)
    patch.replace(connection, "close", traced_close)


def authority_of(connection: Any, url: str) -> str:
    """``host:port`` of whom the request is for, behind an HTTP proxy too."""
    if connection._tunnel_host:
        return http_authority(connection._tunnel_host, connection._tunnel_port or connection.default_port)
    if "://" in url[:12]:
        scheme, rest = url.split("://", 1)
        host = rest.split("/", 1)[0].split("?", 1)[0].rpartition("@")[2]
        return host if ":" in host.rpartition("]")[2] else f"{host}:{443 if scheme == 'https' else 80}"
    return http_authority(connection.host, connection.port)


def header_values(connection: Any, wanted: bytes, remove: bool = False) -> List[str]:
    """The values of a header in the connection's buffer, in which the request line comes first."""
    values: List[str] = []
    lines = connection._buffer
    for index in range(len(lines) - 1, 0, -1):
        name, _, value = bytes(lines[index]).partition(b":")
        if name.lower() == wanted:
            values.append(value.decode("latin-1").strip())
            if remove:
                del lines[index]
    return values[::-1]


def put_bridge(connection: Any, scope: Scope, send: Send) -> None:
    """The envelope in ``baggage``, for hops that know OpenTelemetry only."""
    given = next((value for value in header_values(connection, b"traceparent", remove=True) if value), "")
    traceparent, baggage = scope.bridged(send, given, ",".join(header_values(connection, b"baggage", remove=True)))
    connection._buffer.append(f"{TRACEPARENT}: {traceparent}".encode("latin-1"))
    if baggage:
        connection._buffer.append(f"{BAGGAGE}: {baggage}".encode("latin-1"))


def timeout_of(connection: Any) -> Optional[float]:
    """The connection's timeout in seconds, None for none."""
    timeout = connection.timeout
    if timeout is None or isinstance(timeout, (int, float)):
        return timeout
    return socket.getdefaulttimeout()


def refused(connection: Any) -> BaseException:
    """What the library that owns the connection raises when it is refused."""
    if type(connection).__module__.startswith("urllib3."):
        from urllib3.exceptions import NewConnectionError

        error: BaseException = NewConnectionError(connection, f"Failed to establish a new connection: {REFUSED}")
        return error
    return ConnectionRefusedError(errno.ECONNREFUSED, "Connection refused")


def stand_in(connection: Any, call: Call, answer: bytes) -> None:
    """Puts one end of a socket pair in place of the connection's socket; ``answer`` waits in it to be read."""
    if connection.sock is not None:
        if call.kind != "status":
            return
        connection.sock.close()
    near, far = socket.socketpair()
    with far:
        if answer:
            far.sendall(answer)
    near.settimeout(timeout_of(connection))
    connection.sock = near
    call.stood_in = True


def answer_bytes(call: Call) -> bytes:
    assert call.send is not None and call.send.fault is not None
    number = call.send.fault.arg
    number = number if 200 <= number <= 999 else 500
    from http import HTTPStatus

    try:
        phrase = HTTPStatus(number).phrase
    except ValueError:
        phrase = ""
    return f"HTTP/1.1 {number} {phrase}\r\nContent-Length: 0\r\nConnection: close\r\n\r\n".encode("ascii")
