"""httpx: the transports that speak HTTP over connections, synchronous and asynchronous.

``handle_request`` sees one message exchange (redirects and authentication are several), with the body as it comes over
the wire, before httpx undoes its encoding.
"""

from __future__ import annotations

from typing import Any, AsyncIterator, Iterator, List, Mapping, Optional, Tuple

import httpx

from ..bridge import BAGGAGE, TRACEPARENT
from ..carriers import REQUEST_HEADER, corrupt
from ..context import current
from ..envelope import ACCEPT_TAIL, accepting, to_header
from ..names import http_authority, raw_http_name
from ..runtime import hold, hold_async, runtime, wait_seconds
from ..scope import Scope, Send
from .http_body import Window, accepts_only_undone, carried, decoder_for
from .patching import Patch

_PORTS = {"http": 80, "https": 443}


def patch(patch: Patch, module: Any) -> None:
    """``module``: httpx."""
    handle, handle_async = module.HTTPTransport.handle_request, module.AsyncHTTPTransport.handle_async_request

    def traced(self: Any, request: Any) -> Any:
        call = Exchange.begin(request)
        if call is None:
            return handle(self, request)
        response = call.refuse()
        seconds = call.wait()
        lasted = not seconds or hold(call.scope, seconds)
        if response is not None:
            return response
        call.after_wait(lasted)
        with call:
            response = handle(self, request)
        if call.shows(response):
            return response
        body = b""
        try:
            body = b"".join(response.stream)
        except Exception:
            if call.kind != "lost-reply":
                raise
        finally:
            response.stream.close()
        return call.changed(response, body)

    async def traced_async(self: Any, request: Any) -> Any:
        call = Exchange.begin(request)
        if call is None:
            return await handle_async(self, request)
        response = call.refuse()
        seconds = call.wait()
        lasted = True
        if seconds:
            import anyio

            try:
                lasted = await hold_async(call.scope, seconds, anyio.sleep)
            except BaseException:
                call.scope.failed(call.send.number, 1)
                raise
        if response is not None:
            return response
        call.after_wait(lasted)
        with call:
            response = await handle_async(self, request)
        if call.shows(response):
            return response
        body = b""
        try:
            body = b"".join([part async for part in response.stream])
        except Exception:
            if call.kind != "lost-reply":
                raise
        finally:
            await response.stream.aclose()
        return call.changed(response, body)

    patch.replace(module.HTTPTransport, "handle_request", traced)
    patch.replace(module.AsyncHTTPTransport, "handle_async_request", traced_async)


class Exchange:
    """One request and its reply. As a context manager: puts the envelope into the request's headers while it is sent."""

    def __init__(self, scope: Scope, send: Send, request: httpx.Request) -> None:
        self.scope, self.send, self.request = scope, send, request
        self.fault = send.fault
        self.kind = send.fault.kind if send.fault is not None else ""
        #: what the application had set of the headers that the bridge uses
        self._given: Mapping[str, List[str]] = {}
        self._body: Optional[Window] = None

    @staticmethod
    def begin(request: httpx.Request) -> Optional[Exchange]:
        scope = current()
        if scope is None:
            return None
        url = request.url
        peer = runtime().peer(http_authority(url.host, url.port or _PORTS.get(url.scheme, 80)))
        name = raw_http_name(request.method, url.raw_path.decode("ascii", "replace"))
        accept = ACCEPT_TAIL if accepts_only_undone(request.headers.get("accept-encoding", "")) else 0
        send = scope.send(True, peer, name, accepting(accept, 0))
        return None if send is None else Exchange(scope, send, request)

    def _limit(self) -> Optional[float]:
        limit: Optional[float] = self.request.extensions.get("timeout", {}).get("read")
        return limit

    def refuse(self) -> Optional[httpx.Response]:
        """Raises or returns what a fault makes of a request that it keeps from being sent."""
        if self.kind == "unavailable":
            self.scope.failed(self.send.number, 14)
            raise httpx.ConnectError("[Errno 111] Connection refused", request=self.request)
        if self.kind == "reset":
            self.scope.failed(self.send.number, 14)
            raise httpx.ReadError("[Errno 104] Connection reset by peer", request=self.request)
        if self.kind == "deadline":
            self.scope.failed(self.send.number, 4)
            raise httpx.ReadTimeout("timed out", request=self.request)
        if self.kind == "status" and self.fault is not None:
            self.scope.replied(self.send.number, self.fault.arg)
            number = self.fault.arg if 200 <= self.fault.arg <= 999 else 500
            return httpx.Response(number, headers=[("content-length", "0")], stream=httpx.ByteStream(b""), request=self.request)
        return None

    def wait(self) -> float:
        """Seconds to wait before sending (or, for a hang, before failing)."""
        if self.kind not in ("delay", "hang") or self.fault is None:
            return 0.0
        limit, seconds = self._limit(), wait_seconds(self.fault)
        return seconds if limit is None else min(seconds, limit)

    def after_wait(self, lasted: bool) -> None:
        """Raises the timeout of a hang, or of a delay that lasted until the caller's own deadline."""
        limit = self._limit()
        too_long = self.kind == "delay" and limit is not None and self.fault is not None and wait_seconds(self.fault) >= limit
        if self.kind == "hang" or (too_long and lasted):
            self.scope.failed(self.send.number, 4)
            raise httpx.ReadTimeout("timed out", request=self.request)

    def __enter__(self) -> None:
        headers = self.request.headers
        if REQUEST_HEADER in headers:
            del headers[REQUEST_HEADER]  # one that the application passed on
        if self.send.envelope is not None:
            headers[REQUEST_HEADER] = to_header(self.send.envelope)
            if self.scope.envelope.bridge:
                self._given = {name: headers.get_list(name) for name in (TRACEPARENT, BAGGAGE)}
                traceparent = next((value for value in self._given[TRACEPARENT] if value), "")
                traceparent, baggage = self.scope.bridged(self.send, traceparent, ",".join(self._given[BAGGAGE]))
                self._put({TRACEPARENT: [traceparent], BAGGAGE: [baggage] if baggage else []})

    def __exit__(self, kind: Any, error: Optional[BaseException], traceback: Any) -> None:
        if REQUEST_HEADER in self.request.headers:
            del self.request.headers[REQUEST_HEADER]
        self._put(self._given)
        if error is not None:
            self.scope.failed(self.send.number, code_of(error), None, True)

    def _put(self, given: Mapping[str, List[str]]) -> None:
        headers = self.request.headers
        for name, values in given.items():
            if name in headers:
                del headers[name]
            if values:
                headers[name] = ",".join(values)

    def _end(self, history: Optional[bytes], status: int) -> None:
        if self.kind == "lost-reply":
            self.scope.failed(self.send.number, 14, history, history is None)
        else:
            self.scope.replied(self.send.number, status, history, history is None)

    def shows(self, response: httpx.Response) -> bool:
        """Records the reply, or arranges for its tail; False: a fault changes the body, which must be read for that."""
        status = response.status_code
        found = carried(response.headers)
        changes = self.kind in ("lost-reply", "empty-reply", "corrupt-reply")
        if not found.tail:
            self._end(found.history, status)
            return not changes
        for name in ("content-length", "transfer-encoding", "content-encoding"):
            if name in response.headers:
                del response.headers[name]
        window = Window(decoder_for(found.coding), lambda history: self._end(history, status))
        if changes:
            self._body = window
            return False
        self.scope.awaits(self.send.number, status)
        stream: Any = response.stream
        response.stream = TailedStream(stream, window) if isinstance(stream, httpx.SyncByteStream) else AsyncTailedStream(stream, window)
        return True

    def changed(self, response: httpx.Response, body: bytes) -> httpx.Response:
        """The reply with the body that the fault makes of it. Raises for a lost reply."""
        if self._body is not None:
            self._body.feed(body)
            self._body.finish()
            body = self._body.take(self._body.ready)
        if self.kind == "lost-reply":
            raise httpx.ReadError("[Errno 104] Connection reset by peer", request=self.request)
        headers = response.headers
        names: Tuple[str, ...] = ("content-length", "transfer-encoding")
        if self.kind == "empty-reply":
            body, names = b"", (*names, "content-encoding")
        else:
            body = corrupt(body)
        for name in names:
            if name in headers:
                del headers[name]
        headers["content-length"] = str(len(body))
        response.stream = httpx.ByteStream(body)
        return response


def code_of(error: BaseException) -> int:
    """The gRPC code recorded for a failure: refused, reset 14, timeout 4, cancelled 1, else 2."""
    if isinstance(error, httpx.TimeoutException):
        return 4
    if isinstance(error, (httpx.NetworkError, httpx.RemoteProtocolError)):
        return 14
    return 2 if isinstance(error, Exception) else 1


class TailedStream(httpx.SyncByteStream):
    """A reply's body without the tail behind it."""

    def __init__(self, inner: Any, window: Window) -> None:
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
            # what was held back is body after all
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
    """As TailedStream, asynchronous."""

    def __init__(self, inner: Any, window: Window) -> None:
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
