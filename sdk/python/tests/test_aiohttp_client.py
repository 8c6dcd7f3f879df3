"""aiohttp as a client: bodies with tails are read like without tracing; redirects, timeouts, cancellation, bodies that
are not read.
"""

from __future__ import annotations

import asyncio
import gzip
import http.server
import threading
from typing import Any, Iterator

import aiohttp
import pytest
from conftest import SIGNER, ends, trust_text

import faultloom
from faultloom import Fault, Selector
from faultloom.scope.scope import Scope
from faultloom.trust.receiver import Receiver
from faultloom.trust.settings import TrustSettings
from faultloom.wire.carriers import encode_tail

BODY = b"".join(b"line %d\n" % number for number in range(600))
#: aiohttp rounds the end of a long timeout up to a whole second, so the wait of a fault ends before it
ROUNDED = {"total": 0.1, "ceil_threshold": 0.05}
NOWHERE = [Fault("unavailable", Selector(callee="127.0.0.1:1"))]


@pytest.fixture(scope="module")
def tailed() -> Iterator[str]:
    """The URL of a server whose replies to traced requests have a tail. The path chooses chunks and compression."""
    trust = TrustSettings.parse(trust_text())

    class Handler(http.server.BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            body, own = BODY, self.headers.get("x-faultloom")
            self.send_response(200)
            if own:
                scope = Scope("raw", Receiver(lambda: trust).accept_header(own))
                body += encode_tail(scope.finish(200))
                self.send_header("x-faultloom-reply", "tail")
            if "gzip" in self.path:
                body = gzip.compress(body)
                self.send_header("Content-Encoding", "gzip")
            if "chunked" not in self.path:
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)
                return
            self.send_header("Transfer-Encoding", "chunked")
            self.end_headers()
            for at in range(0, len(body), 700):
                part = body[at : at + 700]
                self.wfile.write(b"%x\r\n%s\r\n" % (len(part), part))
            self.wfile.write(b"0\r\n\r\n")

        def log_message(self, *args: Any) -> None:
            pass

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        server.daemon_threads = True
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()


async def read_lines(content: Any) -> Any:
    return [await content.readline() for _ in range(3)] + [line async for line in content]


async def read_chunks(content: Any) -> Any:
    chunks, parts = [b""], []
    async for data, ends_chunk in content.iter_chunks():
        chunks[-1] += data
        if ends_chunk:
            chunks.append(b"")
        parts.append(data)
    return b"".join(parts), chunks[0]


async def read_in_parts(content: Any) -> Any:
    parts = []
    while not content.at_eof():
        parts.append(await content.read(1000))
    return b"".join(parts), content.is_eof()


async def read_exactly(content: Any) -> Any:
    first = await content.readexactly(100)
    with pytest.raises(asyncio.IncompleteReadError) as error:
        await content.readexactly(100_000)
    return first, error.value.partial, error.value.expected


async def read_at_once(content: Any) -> Any:
    await content.wait_eof()
    return content.read_nowait(10) + content.read_nowait(), content.total_bytes, await content.read()


async def read_until(content: Any) -> Any:
    return await content.readuntil(b"100"), await content.read(7), await content.readany() + await content.read()


READS = [read_lines, read_chunks, read_in_parts, read_exactly, read_at_once, read_until]


@pytest.mark.parametrize("path", ["/length", "/chunked", "/gzip", "/gzip-chunked"])
@pytest.mark.parametrize("read", READS)
def test_a_body_with_a_tail_is_read_like_without_tracing(tailed: str, read: Any, path: str) -> None:
    async def run() -> Any:
        async with aiohttp.ClientSession() as session, session.get(tailed + path) as reply:
            assert reply.headers.get("Content-Encoding") == ("gzip" if "gzip" in path else None)
            return await read(reply.content)

    untraced = asyncio.run(run())
    with faultloom.starting(SIGNER) as started:
        traced = asyncio.run(run())
    if "gzip" in path and read is read_chunks:
        traced, untraced = traced[0], untraced[0]  # with other bytes at its end, it is compressed to other chunks
    assert traced == untraced
    assert started.history is not None and ends(started.history.segment) == [("replied", 200, False, "raw")]


def test_an_application_that_decodes_itself_gets_a_body_that_it_can_decode(tailed: str) -> None:
    async def run() -> Any:
        async with aiohttp.ClientSession(auto_decompress=False) as session, session.get(tailed + "/gzip") as reply:
            return gzip.decompress(await reply.read())

    with faultloom.starting(SIGNER) as started:
        assert asyncio.run(run()) == BODY
    assert started.history is not None and ends(started.history.segment) == [("replied", 200, False, "raw")]


def test_one_connection_serves_many_calls_and_keeps_the_applications_headers(tailed: str) -> None:
    async def run() -> Any:
        made = []
        trace = aiohttp.TraceConfig()
        trace.on_connection_create_end.append(made_one(made))
        own = {"X-Own": "1", "traceparent": "00-" + "a" * 32 + "-" + "b" * 16 + "-01"}
        async with aiohttp.ClientSession(trace_configs=[trace], headers=own) as session:
            for path in ("/length", "/chunked", "/gzip") * 2:
                async with session.get(tailed + path, headers={"X-Faultloom": "foreign"}) as reply:
                    assert await reply.read() == BODY
                    sent, received = reply.request_info.headers, reply.headers
                    assert sent.getall("traceparent") == [own["traceparent"]] and sent["X-Own"] == "1"
                    names = [*sent, *received, *(name.decode() for name, _ in reply.raw_headers)]
                    assert not [name for name in names if name.lower().startswith("x-faultloom")]
        return len(made)

    def made_one(made: Any) -> Any:
        async def callback(*args: Any) -> None:
            made.append(args)

        return callback

    for bridge in (False, True):
        with faultloom.starting(SIGNER, bridge=bridge) as started:
            assert asyncio.run(run()) == 1
        assert started.history is not None and ends(started.history.segment) == [("replied", 200, False, "raw")] * 6


def test_a_body_that_is_not_read(peers: Any, tailed: str) -> None:
    """It has its history if it was received, and is a gap if the application closes it before its end."""
    shop = peers("aiohttp_app", service="shop")

    async def run() -> None:
        async with aiohttp.ClientSession() as session:
            async with session.get(tailed + "/length") as reply:
                await reply.content.wait_eof()
            async with session.get(shop.url + "/fan?n=100&lines=2000000") as reply:
                assert await reply.content.read(10) == b"line\nline\n"
            reply = await session.get(shop.url + "/product/a")
            reply.close()
            with pytest.raises(aiohttp.ClientError):
                await reply.read()

    with faultloom.starting(SIGNER, NOWHERE) as started:
        asyncio.run(run())
    assert started.history is not None
    assert ends(started.history.segment) == [("replied", 200, False, "raw"), ("replied", 200, True, None), ("replied", 200, False, "shop")]


def test_each_redirect_is_a_call(peers: Any) -> None:
    shop = peers("aiohttp_app", service="shop")

    async def run() -> Any:
        async with aiohttp.ClientSession() as session, session.get(shop.url + "/redirect?to=/product/a") as reply:
            return await reply.text(), len(reply.history)

    with faultloom.starting(SIGNER) as started:
        assert asyncio.run(run()) == ("ok", 1)
    assert started.history is not None
    assert ends(started.history.segment) == [("replied", 302, False, "shop"), ("replied", 200, False, "shop")]


def test_calls_of_tasks_are_traced_at_the_same_time(peers: Any) -> None:
    shop = peers("aiohttp_app", service="shop")

    async def get(session: Any, number: int) -> Any:
        async with session.get(f"{shop.url}/product/{number}", raise_for_status=True) as reply:
            return await reply.text()

    async def run() -> Any:
        async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=3)) as session:
            return await asyncio.gather(*(get(session, number) for number in range(20)))

    with faultloom.starting(SIGNER) as started:
        assert asyncio.run(run()) == ["ok"] * 20
    assert started.history is not None and ends(started.history.segment) == [("replied", 200, False, "shop")] * 20


def test_aiohttp_repeats_a_request_that_was_reset(peers: Any) -> None:
    """Aiohttp does so for GET on any connection, and never for POST."""
    shop = peers("aiohttp_app", service="shop")

    async def run(method: str) -> Any:
        async with aiohttp.ClientSession() as session, session.request(method, shop.url + "/echo") as reply:
            return reply.status

    plan = [Fault("reset", Selector(callee=shop.address), max_fires=1)]
    with faultloom.starting(SIGNER, plan) as started:
        assert asyncio.run(run("GET")) == 200
    assert started.history is not None and ends(started.history.segment) == [("failed", 14, False, None), ("replied", 200, False, "shop")]
    with faultloom.starting(SIGNER, plan) as started, pytest.raises(aiohttp.ClientOSError):
        asyncio.run(run("POST"))
    assert started.history is not None and ends(started.history.segment) == [("failed", 14, False, None)]


@pytest.mark.parametrize(
    ("limits", "kind", "code", "gap"),
    [
        (ROUNDED, None, 4, True),
        (ROUNDED, "hang", 4, False),
        (ROUNDED, "delay", 4, False),
        (ROUNDED, "deadline", 4, False),
        ({"total": 0.1}, None, 4, True),
        ({"total": None, "sock_read": 0.1}, None, 4, True),
        ({"total": 0.1}, "hang", 4, False),
        ({"total": 0.1}, "delay", 4, False),
        ({"total": None, "sock_read": 0.1}, "hang", 4, False),
        ({"total": None, "sock_read": 0.1}, "deadline", 4, False),
        ({"total": 60}, "canceled", 1, True),
        ({"total": 60}, "canceled hang", 1, False),
    ],
)
def test_timeouts_and_cancellation(limits: Any, kind: Any, code: int, gap: bool) -> None:
    """Of a callee that never replies, and of faults."""

    async def run(url: str) -> None:
        timeout = aiohttp.ClientTimeout(**limits)
        async with aiohttp.ClientSession(timeout=timeout) as session:
            task = asyncio.ensure_future(session.post(url))
            if "canceled" in (kind or ""):
                asyncio.get_running_loop().call_later(0.1, task.cancel)
            await task

    async def never_reply(reader: Any, writer: Any) -> None:
        await reader.read()

    async def serve() -> None:
        async with await asyncio.start_server(never_reply, "127.0.0.1", 0) as silent:
            await run(f"http://127.0.0.1:{silent.sockets[0].getsockname()[1]}/")

    fault = (kind or "").split(" ")[-1]
    plan = [Fault(fault, Selector(), arg=20_000 if fault == "delay" else 0)] if fault in ("hang", "delay", "deadline") else None
    wanted: Any = asyncio.CancelledError if "canceled" in (kind or "") else asyncio.TimeoutError
    if "sock_read" in limits:
        wanted = getattr(aiohttp, "SocketTimeoutError", aiohttp.ServerTimeoutError)  # before aiohttp 3.10
    with faultloom.starting(SIGNER, plan) as started, pytest.raises(wanted) as error:
        asyncio.run(serve())
    assert type(error.value) is wanted
    assert started.history is not None and ends(started.history.segment) == [("failed", code, gap, None)]


def test_a_status_fault_takes_a_request_with_a_large_body(peers: Any) -> None:
    shop = peers("aiohttp_app", service="shop")

    async def run() -> Any:
        async with aiohttp.ClientSession() as session:
            statuses = []
            for data in (b"x", b"x" * 2_000_000, None):
                async with session.post(shop.url + "/echo", data=data) as reply:
                    statuses.append((reply.status, len(await reply.read()), reply.reason))
            return statuses

    ok, unavailable = (200, 1, "OK"), (503, 0, "Service Unavailable")
    with faultloom.starting(SIGNER, [Fault("status", Selector(), arg=503, nth=2)]) as started:
        assert asyncio.run(run()) == [ok, unavailable, (200, 5, "OK")]
    reply = ("replied", 200, False, "shop")
    assert started.history is not None and ends(started.history.segment) == [reply, ("replied", 503, False, None), reply]


@pytest.mark.parametrize("kind", ["lost-reply", "empty-reply", "corrupt-reply"])
@pytest.mark.parametrize("path", ["/length", "/chunked", "/gzip"])
def test_faults_change_a_body_with_a_tail(tailed: str, kind: str, path: str) -> None:
    async def run() -> Any:
        async with aiohttp.ClientSession() as session:
            async with session.get(tailed + path) as reply:
                body = await reply.read()
                assert "Content-Length" not in reply.headers or int(reply.headers["Content-Length"]) == len(body) or "gzip" in path
                return body

    half = len(BODY) // 2
    wanted = {"empty-reply": b"", "corrupt-reply": BODY[:half] + b"\xff" * (len(BODY) - half)}
    for plan in (None, [Fault(kind, Selector())], None):
        with faultloom.starting(SIGNER, plan) as started:
            if plan and kind == "lost-reply":
                with pytest.raises(aiohttp.ClientOSError):
                    asyncio.run(run())
            else:
                assert asyncio.run(run()) == (wanted[kind] if plan else BODY)
        assert started.history is not None
        # aiohttp has repeated the request whose reply was lost
        end = [("failed", 14, False, "raw")] * 2 if plan and kind == "lost-reply" else [("replied", 200, False, "raw")]
        assert ends(started.history.segment) == end
