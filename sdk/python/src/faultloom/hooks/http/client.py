"""``http.client`` on the calling side, which urllib, urllib3 and requests are built on.

``putrequest`` starts a call, ``endheaders`` begins it in the scope and adds the envelope, ``getresponse`` ends it. A
fault that keeps the request from being sent mutes ``send`` and puts one end of a socket pair in place of the
connection's socket, so that the libraries above work as usual and raise their own exceptions.

urllib3 connects to ``https://`` before ``putrequest``: there a call begins before its connection.
"""

from __future__ import annotations

import errno
import socket
import sys
from time import perf_counter_ns
from typing import Any, Callable, List, Optional

from ...scope.current import call_flags, current_scope, is_lost
from ...scope.fault_wait import wait_for_fault
from ...scope.scope import OutgoingCall, Scope
from ...scope.unscoped import OPEN_SCOPES, count_unscoped
from ...wire.bridge import BAGGAGE, TRACEPARENT
from ...wire.carriers import REQUEST_HEADER
from ...wire.envelope import ACCEPT_TAIL, encode_accepts, encode_header
from ...wire.names import http_authority, raw_http_name
from ..faults import (
    CANCELED, CHANGED_REPLIES, DEADLINE_EXCEEDED, EMPTY, LOST, REFUSED, RESET, STATUS, UNAVAILABLE, UNKNOWN, CallResult, FaultEffect,
    changed_body, fault_effect, record_effect, record_unsent, reply_effect, to_timeout_ms,
)  # fmt: skip
from ..patching import Patch
from ..process import this_process
from .body import accepts_only_decodable, take_reply_history
from .response import replaced_body, tailed_response


class Exchange:
    """One request on a connection, from ``putrequest`` to the end of its reply."""

    __slots__ = ("call", "effect", "has_headers", "held", "is_muted", "name", "peer", "scope", "uses_socket_pair")

    def __init__(self, scope: Scope, peer: str, name: str) -> None:
        self.scope, self.peer, self.name = scope, peer, name
        #: None before it has begun
        self.call: Optional[OutgoingCall] = None
        #: the envelope was added
        self.has_headers = False
        self.effect: FaultEffect
        self.is_muted = False
        self.uses_socket_pair = False
        #: what a delayed request would have sent, until it is certain whether its timeout ends first
        self.held: Optional[List[Any]] = None

    def effect_within(self, timeout: Optional[float]) -> FaultEffect:
        """The effect of the fault with this timeout in seconds."""
        assert self.call is not None
        return fault_effect("http", self.call.fault, to_timeout_ms(timeout))

    def connect(self, connect: Callable[[], Any]) -> None:
        """Connects, and records how long that takes: name resolution, connecting, TLS."""
        start = perf_counter_ns()
        try:
            connect()
        finally:
            if self.call is not None:
                self.scope.set_connect_time(self.call.number, max(1, (perf_counter_ns() - start) // 1000))

    def record_failure(self, code: int) -> None:
        """The request failed on this side. The callee may have run: a gap."""
        if self.call is not None:
            self.scope.record_failure(self.call.number, code, None, True)

    def record_unsent(self, effect: FaultEffect) -> None:
        assert self.call is not None
        record_unsent(self.scope, self.call.number, effect)


def code_of(error: Optional[BaseException]) -> int:
    """The gRPC code recorded for a failure: refused or reset 14, timeout 4, else 2.

    urllib3 wraps the exceptions of sockets: the causes are examined too.
    """
    for _ in range(8):
        if error is None:
            break
        if isinstance(error, (socket.timeout, TimeoutError)):
            return DEADLINE_EXCEEDED
        if isinstance(error, ConnectionError):
            return UNAVAILABLE
        error = error.__cause__ or error.__context__
    return UNKNOWN


def patch(patch: Patch, module: Any) -> None:
    """``module``: http.client."""
    connection = module.HTTPConnection
    putrequest, endheaders, send = connection.putrequest, connection.endheaders, connection.send
    getresponse, close = connection.getresponse, connection.close

    def traced_putrequest(self: Any, method: str, url: str, *args: Any, **kwargs: Any) -> Any:
        scope = current_scope()
        if scope is None and OPEN_SCOPES and is_lost() and not self._faultloom_is_counted:
            count(self, method, url)
        if scope is None and self._faultloom is None:
            return putrequest(self, method, url, *args, **kwargs)
        if self._faultloom is not None and self._faultloom.call is not None and not self._faultloom.has_headers:
            return putrequest(self, method, url, *args, **kwargs)  # it has begun before its connection
        if self._faultloom is not None:
            self._faultloom.record_failure(UNKNOWN)
            self._faultloom = None
        putrequest(self, method, url, *args, **kwargs)
        if scope is not None:
            try:
                peer = this_process().peer_name(authority_of(self, url))
                self._faultloom = Exchange(scope, peer, raw_http_name(method, url or "/"))
            except Exception:
                pass  # an unknown kind of connection is not traced

    def traced_endheaders(self: Any, *args: Any, **kwargs: Any) -> Any:
        exchange = self._faultloom
        if exchange is not None and not exchange.has_headers:
            exchange.has_headers = True
            accept = ACCEPT_TAIL if accepts_only_decodable(",".join(header_values(self, b"accept-encoding"))) else 0
            header_values(self, REQUEST_HEADER.encode(), remove=True)  # one that the application forwards
            if exchange.call is not None or begin(self, exchange, accept):
                add_envelope(self, exchange)
        endheaders(self, *args, **kwargs)

    def traced_send(self: Any, data: Any) -> Any:
        exchange = self._faultloom
        if exchange is None:
            return send(self, data)
        if exchange.is_muted:
            if exchange.held is not None:
                exchange.held.append(data if not isinstance(data, bytearray) else bytes(data))
            return None
        try:
            if self.sock is None and self.auto_open:
                exchange.connect(self.connect)  # as ``send`` would
            return send(self, data)
        except BrokenPipeError:
            raise  # urllib3 then reads an early reply
        except BaseException as error:
            self._faultloom = None
            exchange.record_failure(code_of(error))
            raise

    def add_envelope(self: Any, exchange: Exchange) -> None:
        call = exchange.call
        assert call is not None
        if call.envelope is not None and (not exchange.is_muted or exchange.held is not None):
            connection.putheader(self, REQUEST_HEADER, encode_header(call.envelope))
            if exchange.scope.envelope.bridge:
                put_bridge_headers(self, exchange.scope, call)

    def traced_getresponse(self: Any) -> Any:
        exchange = self._faultloom
        if exchange is None or exchange.call is None:
            return getresponse(self)
        is_status = exchange.effect.outcome == STATUS
        if exchange.is_muted and not is_status:
            wait_or_fail(self, exchange)
        self._faultloom = None
        try:
            response = getresponse(self)
        except BaseException as error:
            if not is_status:
                exchange.record_failure(code_of(error))
            raise
        if is_status:
            exchange.record_unsent(exchange.effect)
            self.close()
            return response
        return finish(self, exchange, response)

    def wait_or_fail(self: Any, exchange: Exchange) -> None:
        """Ends a call that was not sent. Returns only for a delay that is shorter than the timeout, after sending it.

        The socket now has the timeout for reading, which urllib3 1 sets here and nowhere else.
        """
        limit = self.sock.gettimeout() if self.sock is not None else timeout_of(self)
        effect = exchange.effect_within(limit)
        completed = wait_for_fault(exchange.scope, effect.wait_ms / 1000)
        if effect.sends_after_wait(completed):
            held, exchange.held, exchange.is_muted = exchange.held or [], None, False
            if exchange.uses_socket_pair and self.sock is not None:
                self.sock.close()
                self.sock = None
            for data in held:
                traced_send(self, data)
            if limit is not None and self.sock is not None:
                self.sock.settimeout(limit)
            return
        self._faultloom = None
        exchange.record_unsent(effect)
        self.close()
        if effect.outcome == RESET:
            raise ConnectionResetError(errno.ECONNRESET, "Connection reset by peer")
        raise socket.timeout("timed out")

    def finish(self: Any, exchange: Exchange, response: Any) -> Any:
        assert exchange.call is not None
        scope, call, outcome, status = exchange.scope, exchange.call, exchange.effect.outcome, response.status
        found = take_reply_history(status, response.headers, response.headers.get_all)

        def ended(history: Optional[bytes]) -> None:
            history = found.history if history is None else history
            effect = reply_effect("http", call.fault, CallResult(True, status, history is not None))
            record_effect(scope, call.number, effect, history)

        if found.has_tail:
            response = tailed_response(response, found.coding, outcome not in CHANGED_REPLIES, ended, belongs_to_urllib3(self))
            if outcome not in CHANGED_REPLIES:
                scope.reply_started(call.number, status)
                return response
        else:
            ended(None)
        if outcome not in CHANGED_REPLIES:
            return response
        try:
            body = response.read()
        except Exception:
            if outcome != LOST:
                raise
        if outcome == LOST:
            self.close()
            raise ConnectionResetError(errno.ECONNRESET, "Connection reset by peer")
        return replaced_body(response, changed_body(outcome, body), outcome == EMPTY)

    def traced_close(self: Any) -> None:
        exchange = self._faultloom
        if exchange is not None:
            # closed between request and reply; if that is because of an exception, it is being handled now
            self._faultloom = None
            error = sys.exc_info()[1]
            exchange.record_failure(code_of(error) if error is not None else CANCELED)
        close(self)

    patch.replace(connection, "_faultloom", None)
    patch.replace(connection, "_faultloom_is_counted", False)
    patch.replace(connection, "putrequest", traced_putrequest)
    patch.replace(connection, "endheaders", traced_endheaders)
    patch.replace(connection, "send", traced_send)
    patch.replace(connection, "getresponse", traced_getresponse)
    patch.replace(connection, "close", traced_close)


def patch_urllib3(patch: Patch, module: Any) -> None:
    """``module``: urllib3.connectionpool."""
    pool = module.HTTPConnectionPool
    make_request = pool._make_request

    def traced_make_request(self: Any, conn: Any, method: str, url: str, *args: Any, **kwargs: Any) -> Any:
        if self.scheme != "https" or getattr(conn, "sock", conn) is not None:
            return make_request(self, conn, method, url, *args, **kwargs)
        scope = current_scope()
        if scope is None:
            if not (OPEN_SCOPES and is_lost()):
                return make_request(self, conn, method, url, *args, **kwargs)
            count(conn, method, url)
            conn._faultloom_is_counted = True
            try:
                return make_request(self, conn, method, url, *args, **kwargs)
            finally:
                conn._faultloom_is_counted = False
        exchange = conn._faultloom = Exchange(scope, this_process().peer_name(authority_of(conn, url)), raw_http_name(method, url or "/"))
        names = {name.lower(): value for name, value in (kwargs.get("headers") or {}).items()}
        accept = ACCEPT_TAIL if accepts_only_decodable(str(names.get("accept-encoding", "identity"))) else 0
        if begin(conn, exchange, accept) and exchange.is_muted:
            conn.is_verified = True  # nothing is sent: no warning about the certificate
        own, connect = conn.__dict__.get("connect"), conn.connect
        conn.connect = lambda: exchange.connect(connect)
        try:
            return make_request(self, conn, method, url, *args, **kwargs)
        except BaseException as error:
            if conn._faultloom is exchange:
                conn._faultloom = None
                exchange.record_failure(code_of(error))
            raise
        finally:
            del conn.connect
            if own is not None:
                conn.connect = own

    patch.replace(pool, "_make_request", traced_make_request)


def begin(connection: Any, exchange: Exchange, accept: int) -> bool:
    """Begins the call in its scope and applies its fault, as far as that is possible before the request is sent.

    False: the scope has finished, and the call is not traced.
    """
    call = exchange.call = exchange.scope.begin_call(
        True, exchange.peer, exchange.name, encode_accepts(accept, 0), call_flags(exchange.scope)
    )
    if call is None:
        if is_lost():
            count_unscoped(True, exchange.peer, exchange.name)
        connection._faultloom = None
        return False
    effect = exchange.effect = exchange.effect_within(timeout_of(connection))
    if effect.outcome == REFUSED:
        connection._faultloom = None
        exchange.record_unsent(effect)
        connection.close()
        raise refused(connection)
    if effect.sends:
        wait_for_fault(exchange.scope, effect.wait_ms / 1000)
    else:
        exchange.is_muted = True
        exchange.held = [] if effect.sends_if_released else None
        use_socket_pair(connection, exchange, reply_bytes(effect.status) if effect.outcome == STATUS else b"")
    return True


def count(connection: Any, method: str, url: str) -> None:
    """Counts a call that belongs to no request."""
    try:
        count_unscoped(True, this_process().peer_name(authority_of(connection, url)), raw_http_name(method, url or "/"))
    except Exception:
        pass  # an unknown kind of connection


def authority_of(connection: Any, url: str) -> str:
    """``host:port`` of the callee, also behind an HTTP proxy."""
    if connection._tunnel_host:
        return http_authority(connection._tunnel_host, connection._tunnel_port or connection.default_port)
    if "://" in url[:12]:
        scheme, rest = url.split("://", 1)
        host = rest.split("/", 1)[0].split("?", 1)[0].rpartition("@")[2]
        return host if ":" in host.rpartition("]")[2] else f"{host}:{443 if scheme == 'https' else 80}"
    return http_authority(connection.host, connection.port)


def header_values(connection: Any, name: bytes, remove: bool = False) -> List[str]:
    """The values of a header in the connection's buffer, whose first line is the request line.

    ``name`` in lower case.
    """
    values: List[str] = []
    lines = connection._buffer
    for index in range(len(lines) - 1, 0, -1):
        line_name, _, value = bytes(lines[index]).partition(b":")
        if line_name.lower() == name:
            values.append(value.decode("latin-1").strip())
            if remove:
                del lines[index]
    return values[::-1]


def put_bridge_headers(connection: Any, scope: Scope, call: OutgoingCall) -> None:
    """Puts the envelope into ``baggage``, for services that support OpenTelemetry only."""
    own = next((value for value in header_values(connection, b"traceparent", remove=True) if value), "")
    traceparent, baggage = scope.inject_bridge(call, own, ",".join(header_values(connection, b"baggage", remove=True)))
    connection._buffer.append(f"{TRACEPARENT}: {traceparent}".encode("latin-1"))
    if baggage:
        connection._buffer.append(f"{BAGGAGE}: {baggage}".encode("latin-1"))


def timeout_of(connection: Any) -> Optional[float]:
    """The connection's timeout in seconds, None for none."""
    timeout = connection.timeout
    if timeout is None or isinstance(timeout, (int, float)):
        return timeout
    return socket.getdefaulttimeout()


def belongs_to_urllib3(connection: Any) -> bool:
    """Whether urllib3 reads from this connection. Libraries derive classes from urllib3's, as botocore does."""
    return any(cls.__module__.startswith("urllib3.") for cls in type(connection).__mro__)


def refused(connection: Any) -> BaseException:
    """The exception that the library of this connection raises for a refused connection."""
    if belongs_to_urllib3(connection):
        from urllib3.exceptions import NewConnectionError

        text = "Failed to establish a new connection: [Errno 111] Connection refused"
        error: BaseException = NewConnectionError(connection, text)
        return error
    return ConnectionRefusedError(errno.ECONNREFUSED, "Connection refused")


def use_socket_pair(connection: Any, exchange: Exchange, reply: bytes) -> None:
    """Puts one end of a socket pair in place of the connection's socket. ``reply`` can be read from it.

    Without a reply an existing socket stays: nothing is sent through it.
    """
    if connection.sock is not None:
        if not reply:
            return
        connection.sock.close()
    near, far = socket.socketpair()
    with far:
        if reply:
            far.sendall(reply)
    near.settimeout(timeout_of(connection))
    connection.sock = near
    exchange.uses_socket_pair = True


def reply_bytes(status: int) -> bytes:
    """A reply that has only a status."""
    from http import HTTPStatus

    try:
        phrase = HTTPStatus(status).phrase
    except ValueError:
        phrase = ""
    return f"HTTP/1.1 {status} {phrase}\r\nContent-Length: 0\r\nConnection: close\r\n\r\n".encode("ascii")
