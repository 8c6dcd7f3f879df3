"""httpx: the synchronous and asynchronous transports that send HTTP over connections.

``handle_request`` covers one message exchange (redirects and authentication are several). It has the body as received,
before httpx decodes it.
"""

from __future__ import annotations

from time import perf_counter_ns
from typing import Any, AsyncIterator, Iterator, List, Mapping, Optional, Union

import httpx

from ...scope.current import call_flags, current_scope, is_lost
from ...scope.fault_wait import wait_for_fault, wait_for_fault_async
from ...scope.scope import OutgoingCall, Scope
from ...scope.unscoped import OPEN_SCOPES, count_unscoped
from ...wire.bridge import BAGGAGE, TRACEPARENT
from ...wire.carriers import REQUEST_HEADER
from ...wire.envelope import ACCEPT_TAIL, encode_accepts, encode_header
from ...wire.names import http_authority, raw_http_name
from ..faults import (
    CANCELED, CHANGED_REPLIES, DEADLINE_EXCEEDED, EMPTY, LOST, REFUSED, RESET, STATUS, UNAVAILABLE, UNKNOWN, CallResult, changed_body,
    fault_effect, record_effect, record_unsent, reply_effect, to_timeout_ms,
)  # fmt: skip
from ..patching import Patch
from ..process import this_process
from .body import RecodingWindow, Window, accepts_only_decodable, take_reply_history, window_for

_PORTS = {"http": 80, "https": 443}


def patch(patch: Patch, module: Any) -> None:
    """``module``: httpx."""
    handle, handle_async = module.HTTPTransport.handle_request, module.AsyncHTTPTransport.handle_async_request

    def traced(self: Any, request: Any) -> Any:
        exchange = Exchange.begin(request)
        if exchange is None:
            return handle(self, request)
        completed = wait_for_fault(exchange.scope, exchange.effect.wait_ms / 1000)
        if not exchange.effect.sends_after_wait(completed):
            return exchange.end_not_sent()
        with exchange.sending(exchange.trace):
            response = handle(self, request)
        if exchange.returns_unchanged(response):
            return response
        body = b""
        try:
            body = b"".join(response.stream)
        except Exception:
            if exchange.effect.outcome != LOST:
                raise
        finally:
            response.stream.close()
        return exchange.changed(response, body)

    async def traced_async(self: Any, request: Any) -> Any:
        exchange = Exchange.begin(request)
        if exchange is None:
            return await handle_async(self, request)
        completed = True
        if exchange.effect.wait_ms:
            import anyio

            try:
                completed = await wait_for_fault_async(exchange.scope, exchange.effect.wait_ms / 1000, anyio.sleep)
            except BaseException:
                exchange.scope.record_failure(exchange.call.number, CANCELED)
                raise
        if not exchange.effect.sends_after_wait(completed):
            return exchange.end_not_sent()
        with exchange.sending(exchange.trace_async):
            response = await handle_async(self, request)
        if exchange.returns_unchanged(response):
            return response
        body = b""
        try:
            body = b"".join([part async for part in response.stream])
        except Exception:
            if exchange.effect.outcome != LOST:
                raise
        finally:
            await response.stream.aclose()
        return exchange.changed(response, body)

    patch.replace(module.HTTPTransport, "handle_request", traced)
    patch.replace(module.AsyncHTTPTransport, "handle_async_request", traced_async)


class Exchange:
    """One request and its reply.

    As a context manager it adds the envelope to the request's headers while it is sent, and measures its connection.
    """

    def __init__(self, scope: Scope, call: OutgoingCall, request: httpx.Request) -> None:
        self.scope, self.call, self.request = scope, call, request
        timeout: Optional[float] = request.extensions.get("timeout", {}).get("read")
        self.effect = fault_effect("http", call.fault, to_timeout_ms(timeout))
        #: the application's values of the headers that the bridge uses
        self._own_headers: Mapping[str, List[str]] = {}
        self._own_extensions: Any = request.extensions
        self._trace: Any = None
        #: when the request began to wait for its connection, in ns
        self._connect_start: Optional[int] = None
        self._body: Union[Window, RecodingWindow, None] = None

    @staticmethod
    def begin(request: httpx.Request) -> Optional[Exchange]:
        """Begins a call in the current scope. None: the request is not traced."""
        scope = current_scope()
        if scope is None and not (OPEN_SCOPES and is_lost()):
            return None
        url = request.url
        peer = this_process().peer_name(http_authority(url.host, url.port or _PORTS.get(url.scheme, 80)))
        name = raw_http_name(request.method, url.raw_path.decode("ascii", "replace"))
        if scope is None:
            count_unscoped(True, peer, name)
            return None
        accept = ACCEPT_TAIL if accepts_only_decodable(request.headers.get("accept-encoding", "")) else 0
        call = scope.begin_call(True, peer, name, encode_accepts(accept, 0), call_flags(scope))
        return None if call is None else Exchange(scope, call, request)

    def end_not_sent(self) -> httpx.Response:
        """Records a request that a fault keeps from being sent. Returns its reply or raises its exception."""
        effect, request = self.effect, self.request
        record_unsent(self.scope, self.call.number, effect)
        if effect.outcome == STATUS:
            empty = httpx.ByteStream(b"")
            return httpx.Response(effect.status, headers=[("content-length", "0")], stream=empty, request=request)
        if effect.outcome == REFUSED:
            raise httpx.ConnectError("[Errno 111] Connection refused", request=request)
        if effect.outcome == RESET:
            raise httpx.ReadError("[Errno 104] Connection reset by peer", request=request)
        raise httpx.ReadTimeout("timed out", request=request)

    def sending(self, trace: Any) -> Exchange:
        """``trace``: the extension of httpcore, of the transport's kind."""
        self._trace = trace
        return self

    def trace(self, event: str, info: Any) -> Any:
        """Measures the connection. The application's own extension is called too."""
        if event.startswith("connection."):
            self._measure(event)
        own = self._own_extensions.get("trace")
        return None if own is None else own(event, info)

    async def trace_async(self, event: str, info: Any) -> None:
        """``trace`` for the asynchronous transport."""
        if event.startswith("connection."):
            self._measure(event)
        own = self._own_extensions.get("trace")
        if own is not None:
            await own(event, info)

    def _measure(self, event: str) -> None:
        now = perf_counter_ns()
        if self._connect_start is None:
            self._connect_start = now
        if not event.endswith(".started"):
            self.scope.set_connect_time(self.call.number, max(1, (now - self._connect_start) // 1000))

    def __enter__(self) -> None:
        headers, call = self.request.headers, self.call
        self._own_extensions = self.request.extensions
        self.request.extensions = {**self._own_extensions, "trace": self._trace}
        if REQUEST_HEADER in headers:
            del headers[REQUEST_HEADER]  # one that the application forwards
        if call.envelope is not None:
            headers[REQUEST_HEADER] = encode_header(call.envelope)
            if self.scope.envelope.bridge:
                self._own_headers = {name: headers.get_list(name) for name in (TRACEPARENT, BAGGAGE)}
                own = next((value for value in self._own_headers[TRACEPARENT] if value), "")
                traceparent, baggage = self.scope.inject_bridge(call, own, ",".join(self._own_headers[BAGGAGE]))
                self._set_headers({TRACEPARENT: [traceparent], BAGGAGE: [baggage] if baggage else []})

    def __exit__(self, kind: Any, error: Optional[BaseException], traceback: Any) -> None:
        self.request.extensions = self._own_extensions
        if REQUEST_HEADER in self.request.headers:
            del self.request.headers[REQUEST_HEADER]
        self._set_headers(self._own_headers)
        if error is not None:
            self.scope.record_failure(self.call.number, code_of(error), None, True)

    def _set_headers(self, values_by_name: Mapping[str, List[str]]) -> None:
        headers = self.request.headers
        for name, values in values_by_name.items():
            if name in headers:
                del headers[name]
            if values:
                headers[name] = ",".join(values)

    def _record_reply(self, history: Optional[bytes], status: int) -> None:
        effect = reply_effect("http", self.call.fault, CallResult(True, status, history is not None))
        record_effect(self.scope, self.call.number, effect, history)

    def returns_unchanged(self, response: httpx.Response) -> bool:
        """Records the reply, now or at its tail. False: a fault changes the body, which must be read for that."""
        status = response.status_code
        found = take_reply_history(status, response.headers, response.headers.get_list)
        changes = self.effect.outcome in CHANGED_REPLIES
        if not found.has_tail:
            self._record_reply(found.history, status)
            return not changes
        for name in ("content-length", "transfer-encoding", *(("content-encoding",) if changes else ())):
            if name in response.headers:
                del response.headers[name]

        def ended(history: Optional[bytes]) -> None:
            self._record_reply(found.history if history is None else history, status)

        window = window_for(found.coding, not changes, ended)
        if changes:
            self._body = window
            return False
        self.scope.reply_started(self.call.number, status)
        stream: Any = response.stream
        response.stream = TailedStream(stream, window) if isinstance(stream, httpx.SyncByteStream) else AsyncTailedStream(stream, window)
        return True

    def changed(self, response: httpx.Response, body: bytes) -> httpx.Response:
        """The reply with its body changed by the fault. Raises for a lost reply."""
        outcome = self.effect.outcome
        if self._body is not None:
            self._body.feed(body)
            self._body.finish()
            body = self._body.take(self._body.ready)
        if outcome == LOST:
            raise httpx.ReadError("[Errno 104] Connection reset by peer", request=self.request)
        headers = response.headers
        # an empty body has no encoding
        for name in ("content-length", "transfer-encoding", *(("content-encoding",) if outcome == EMPTY else ())):
            if name in headers:
                del headers[name]
        body = changed_body(outcome, body)
        headers["content-length"] = str(len(body))
        response.stream = httpx.ByteStream(body)
        return response


def code_of(error: BaseException) -> int:
    """The gRPC code recorded for a failure: refused or reset 14, timeout 4, canceled 1, else 2."""
    if isinstance(error, httpx.TimeoutException):
        return DEADLINE_EXCEEDED
    if isinstance(error, (httpx.NetworkError, httpx.RemoteProtocolError)):
        return UNAVAILABLE
    return UNKNOWN if isinstance(error, Exception) else CANCELED


class TailedStream(httpx.SyncByteStream):
    """A reply's body without the tail after it."""

    def __init__(self, inner: Any, window: Union[Window, RecodingWindow]) -> None:
        self._inner, self._window = inner, window

    def __iter__(self) -> Iterator[bytes]:
        window = self._window
        try:
            for part in self._inner:
                window.feed(part)
                if window.ready:
                    yield window.take(window.ready)
            window.finish()
        except Exception:
            # no tail will come: the bytes held back belong to the body
            window.abandon()
            if window.ready:
                yield window.take(window.ready)
            raise
        if window.ready:
            yield window.take(window.ready)

    def close(self) -> None:
        self._window.abandon()
        self._inner.close()


class AsyncTailedStream(httpx.AsyncByteStream):
    """Like TailedStream, asynchronous."""

    def __init__(self, inner: Any, window: Union[Window, RecodingWindow]) -> None:
        self._inner, self._window = inner, window

    async def __aiter__(self) -> AsyncIterator[bytes]:
        window = self._window
        try:
            async for part in self._inner:
                window.feed(part)
                if window.ready:
                    yield window.take(window.ready)
            window.finish()
        except Exception:
            window.abandon()
            if window.ready:
                yield window.take(window.ready)
            raise
        if window.ready:
            yield window.take(window.ready)

    async def aclose(self) -> None:
        self._window.abandon()
        await self._inner.aclose()
