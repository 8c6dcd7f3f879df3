"""aiohttp's client: ``BaseConnector.connect`` begins a call, ``ClientRequest.send`` adds the envelope, and
``ClientResponse.start``, which receives the head of the reply, ends it.

A call is one exchange of messages: each redirect and aiohttp's own repetition of a request whose connection was lost
is another one. Bodies arrive decoded, unless the session has ``auto_decompress=False``. Requests for WebSocket stay
unchanged.
"""

from __future__ import annotations

import asyncio
import errno
import socket
from time import perf_counter_ns
from typing import Any, Dict, List, Optional

from aiohttp import client_exceptions as errors
from aiohttp.client_proto import ResponseHandler
from aiohttp.connector import Connection
from aiohttp.streams import EmptyStreamReader
from multidict import CIMultiDict, CIMultiDictProxy

from ...scope.current import call_flags, current_scope, is_lost
from ...scope.fault_wait import wait_for_fault_async
from ...scope.scope import OutgoingCall, Scope
from ...scope.unscoped import OPEN_SCOPES, count_unscoped
from ...wire.bridge import BAGGAGE, TRACEPARENT
from ...wire.carriers import HISTORY_HEADER, REPLY_HEADER, REQUEST_HEADER
from ...wire.envelope import ACCEPT_TAIL, encode_accepts, encode_header
from ...wire.names import http_authority, raw_http_name
from ..faults import (
    CANCELED, CHANGED_REPLIES, DEADLINE, DEADLINE_EXCEEDED, EMPTY, LOST, REFUSED, STATUS, UNAVAILABLE, UNKNOWN, CallResult,
    changed_body, fault_effect, record_effect, record_unsent, reply_effect, to_timeout_ms,
)  # fmt: skip
from ..patching import Patch
from ..process import this_process
from .aiohttp_body import TailedStream, read_stream
from .body import accepts_only_decodable, take_reply_history, window_for
from .client import reply_bytes
from .incoming import leaves_http


def patch(patch: Patch, module: Any) -> None:
    """``module``: aiohttp.client."""
    connector, request, response = module.BaseConnector, module.ClientRequest, module.ClientResponse
    connect, send, start = connector.connect, request.send, response.start
    set_response_params = ResponseHandler.set_response_params

    async def traced_connect(self: Any, req: Any, traces: Any, timeout: Any) -> Any:
        exchange = Exchange.begin(req, timeout)
        if exchange is None:
            return await connect(self, req, traces, timeout)
        await exchange.wait_or_fail()
        req._faultloom = exchange
        try:
            if exchange.has_no_callee:
                return await exchange.open_socket_pair(self)
            return await connect(self, req, [*(traces or ()), exchange.connection], timeout)
        except BaseException as error:
            exchange.connection.end()
            exchange.record_failure(error)
            raise

    async def traced_send(self: Any, conn: Any) -> Any:
        exchange, self._faultloom = self._faultloom, None
        if exchange is None:
            return await send(self, conn)
        try:
            sent = await exchange.send(send, conn)
        except BaseException as error:
            exchange.record_failure(error)
            raise
        sent._faultloom = exchange
        return sent

    async def traced_start(self: Any, connection: Any) -> Any:
        exchange, self._faultloom = self._faultloom, None
        if exchange is None:
            return await start(self, connection)
        protocol = connection.protocol
        try:
            started = await start(self, connection)
        except BaseException as error:
            exchange.record_failure(error)
            raise
        await exchange.finish(self, protocol._faultloom_decodes)
        return started

    def traced_set_response_params(self: Any, *args: Any, **kwargs: Any) -> None:
        self._faultloom_decodes = kwargs.get("auto_decompress", True)
        set_response_params(self, *args, **kwargs)

    patch.replace(request, "_faultloom", None)
    patch.replace(response, "_faultloom", None)
    patch.replace(ResponseHandler, "_faultloom_decodes", True)
    patch.replace(ResponseHandler, "set_response_params", traced_set_response_params)
    patch.replace(connector, "connect", traced_connect)
    patch.replace(request, "send", traced_send)
    patch.replace(response, "start", traced_start)


class Exchange:
    """One request and its reply."""

    def __init__(self, scope: Scope, call: OutgoingCall, request: Any, timeout: Any) -> None:
        self.scope, self.call, self.request = scope, call, request
        # 0: no limit
        limits = [limit for limit in (timeout.total, timeout.sock_read) if limit]
        self._reads_time_out = bool(timeout.sock_read) and timeout.sock_read == min(limits)
        self.effect = fault_effect("http", call.fault, to_timeout_ms(min(limits) if limits else None))
        self.connection = ConnectionTrace(scope, call)
        #: no callee gets the request
        self.has_no_callee = self.effect.outcome == STATUS
        #: raised instead of sending the request
        self._error: Optional[BaseException] = None
        #: the other end of the connection of a request that no callee gets
        self._far: Optional[socket.socket] = None

    @staticmethod
    def begin(request: Any, timeout: Any) -> Optional[Exchange]:
        """Begins a call in the current scope. None: the request is not traced."""
        scope = current_scope()
        if scope is None and not (OPEN_SCOPES and is_lost()):
            return None
        url = request.url
        if leaves_http(request.headers.get("upgrade", "")):
            return None
        peer = this_process().peer_name(http_authority(url.raw_host or "", url.port or 80))
        name = raw_http_name(request.method, url.raw_path or "/")
        if scope is None:
            count_unscoped(True, peer, name)
            return None
        accept = ACCEPT_TAIL if accepts_only_decodable(request.headers.get("accept-encoding", "")) else 0
        call = scope.begin_call(True, peer, name, encode_accepts(accept, 0), call_flags(scope))
        return None if call is None else Exchange(scope, call, request, timeout)

    async def wait_or_fail(self) -> None:
        """Applies the fault as far as that is possible while aiohttp connects.

        A timeout waits for ``send``: aiohttp makes each one that ends ``connect`` a timeout of the connection.
        """
        effect = self.effect
        completed = True
        if effect.wait_ms:
            try:
                completed = await wait_for_fault_async(self.scope, effect.wait_ms / 1000, asyncio.sleep)
            except BaseException as error:
                self.scope.record_failure(self.call.number, self._code_of(error))
                raise
        if effect.sends_after_wait(completed) or effect.outcome == STATUS:
            return
        if effect.outcome == DEADLINE:
            self.has_no_callee, self._error = True, self._timeout_error()
            return
        record_unsent(self.scope, self.call.number, effect)
        if effect.outcome == REFUSED:
            refused = ConnectionRefusedError(errno.ECONNREFUSED, f"Connect call failed {(self.request.url.host, self.request.url.port)}")
            raise errors.ClientConnectorError(self.request.connection_key, refused)
        raise reset()

    def _timeout_error(self) -> BaseException:
        """What aiohttp raises if the callee does not reply in time."""
        if not self._reads_time_out:
            return asyncio.TimeoutError()
        timed_out = getattr(errors, "SocketTimeoutError", errors.ServerTimeoutError)  # before aiohttp 3.10
        return timed_out("Timeout on reading data from socket")  # type: ignore[no-any-return]

    async def open_socket_pair(self, connector: Any) -> Connection:
        """A connection without a server, for a reply that only has a status and for a timeout."""
        near, self._far = socket.socketpair()
        loop = asyncio.get_running_loop()
        _, protocol = await loop.create_unix_connection(lambda: ResponseHandler(loop=loop), sock=near)
        return Connection(connector, self.request.connection_key, protocol, loop)

    async def send(self, send: Any, connection: Any) -> Any:
        """Sends the request with the envelope, which is not among its headers before and after that."""
        if self._error is not None:
            raise self._error
        headers, call = self.request.headers, self.call
        headers.popall(REQUEST_HEADER, None)  # one that the application forwards
        if self._far is not None:
            sent = await send(self.request, connection)
            self._far.sendall(reply_bytes(self.effect.status))
            return sent
        own: Dict[str, List[str]] = {}
        if call.envelope is not None:
            headers[REQUEST_HEADER] = encode_header(call.envelope)
            if self.scope.envelope.bridge:
                own = {name: headers.getall(name, []) for name in (TRACEPARENT, BAGGAGE)}
                traceparent = next((value for value in own[TRACEPARENT] if value), "")
                traceparent, baggage = self.scope.inject_bridge(call, traceparent, ",".join(own[BAGGAGE]))
                self._set_headers({TRACEPARENT: [traceparent], BAGGAGE: [baggage] if baggage else []})
        try:
            return await send(self.request, connection)
        finally:
            headers.popall(REQUEST_HEADER, None)
            self._set_headers(own)

    def _set_headers(self, values_by_name: Dict[str, List[str]]) -> None:
        for name, values in values_by_name.items():
            self.request.headers.popall(name, None)
            for value in values:
                self.request.headers.add(name, value)

    def record_failure(self, error: BaseException) -> None:
        """The request failed on this side. The callee may have run: a gap."""
        if self._far is not None:
            self._end_unsent()
        else:
            self.scope.record_failure(self.call.number, self._code_of(error), None, True)

    def _end_unsent(self) -> None:
        record_unsent(self.scope, self.call.number, self.effect)
        if self._far is not None:
            self._far.close()

    def _code_of(self, error: BaseException) -> int:
        """The gRPC code recorded for a failure: timeout 4, canceled 1, refused or reset 14, else 2."""
        # a timeout for the whole request cancels the task, and becomes an error outside of our functions
        if isinstance(error, asyncio.TimeoutError) or getattr(self.request._timer, "_cancelled", False):
            return DEADLINE_EXCEEDED
        if isinstance(error, (errors.ClientConnectionError, OSError)):
            return UNAVAILABLE
        return UNKNOWN if isinstance(error, Exception) else CANCELED

    async def finish(self, response: Any, decodes: bool) -> None:
        """Records the reply, now or at its tail, and changes its body if the fault does. Raises for a lost reply.

        ``decodes``: aiohttp has decoded the body.
        """
        if self._far is not None:
            return self._end_unsent()
        call, outcome, status = self.call, self.effect.outcome, response.status
        headers = CIMultiDict(response._headers)
        found = take_reply_history(status, headers, lambda name: headers.getall(name, ()))

        def ended(history: Optional[bytes]) -> None:
            history = found.history if history is None else history
            effect = reply_effect("http", call.fault, CallResult(True, status, history is not None))
            record_effect(self.scope, call.number, effect, history)

        changes = outcome in CHANGED_REPLIES
        removed = {HISTORY_HEADER, REPLY_HEADER}
        if found.has_tail:
            removed |= {"content-length", "transfer-encoding"} | ({"content-encoding"} if changes and not decodes else set())
            window = window_for("" if decodes else found.coding, not changes, ended)
            if isinstance(response.content, EmptyStreamReader):
                window.finish()
            else:
                if not changes:
                    self.scope.reply_started(call.number, status)
                response.content = TailedStream(response.content, window)
        else:
            ended(None)
        if changes:
            body = await self._changed_body(response)
            removed |= {"content-length", "transfer-encoding"} | ({"content-encoding"} if outcome == EMPTY else set())
            response.content = read_stream(body, response._loop)
            set_headers(response, removed, {"Content-Length": str(len(body))})
        elif removed.intersection(name.decode("latin-1").lower() for name, _ in response._raw_headers):
            set_headers(response, removed, {})

    async def _changed_body(self, response: Any) -> bytes:
        outcome, body = self.effect.outcome, b""
        try:
            body = await response.content.read()
        except Exception:
            if outcome != LOST:
                raise
        if outcome == LOST:
            raise reset()
        return changed_body(outcome, body)


def reset() -> BaseException:
    """What aiohttp raises for a connection that was reset."""
    return errors.ClientOSError(errno.ECONNRESET, "Connection reset by peer")


def set_headers(response: Any, removed: Any, added: Dict[str, str]) -> None:
    """Replaces headers of a reply that has started. Names in ``removed`` are in lower case."""
    kept = [(name, value) for name, value in response._headers.items() if name.lower() not in removed]
    response._headers = CIMultiDictProxy(CIMultiDict([*kept, *added.items()]))
    raw = [(name, value) for name, value in response._raw_headers if name.decode("latin-1").lower() not in removed]
    response._raw_headers = (*raw, *((name.encode(), value.encode()) for name, value in added.items()))
    for name in ("headers", "raw_headers"):  # aiohttp caches both
        response._cache.pop(name, None)


class ConnectionTrace:
    """Measures the connection of a call. The connector calls it like the application's traces."""

    def __init__(self, scope: Scope, call: OutgoingCall) -> None:
        self._scope, self._call = scope, call
        self._start_ns: Optional[int] = None

    async def send_connection_create_start(self) -> None:
        self._start_ns = perf_counter_ns()

    async def send_connection_create_end(self) -> None:
        self.end()

    def end(self) -> None:
        """The connection was made, or has failed."""
        start_ns, self._start_ns = self._start_ns, None
        if start_ns is not None:
            self._scope.set_connect_time(self._call.number, max(1, (perf_counter_ns() - start_ns) // 1000))

    def __getattr__(self, name: str) -> Any:
        if not name.startswith("send_"):
            raise AttributeError(name)
        return _nothing


async def _nothing(*args: Any, **kwargs: Any) -> None:
    pass
