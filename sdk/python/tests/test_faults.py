"""Every fault kind, on every client, healthy → disturbed → healthy, with a callee that counts how often it ran."""

from __future__ import annotations

import asyncio
import http.client
import socket
import threading
import time
import urllib.error
import urllib.request

import aiohttp
import grpc
import httpx
import pytest
import requests
import urllib3
from conftest import SIGNER, ends, faults_fired

import faultloom
from faultloom import Fault, Selector

KINDS = ["unavailable", "status", "deadline", "reset", "delay", "hang", "lost-reply", "empty-reply", "corrupt-reply"]
ARG = {"delay": 200, "hang": 300}
RUNS = {"delay", "lost-reply", "empty-reply", "corrupt-reply"}


class Outcome:
    """The result for a caller: an exception, or status and body, and the duration."""

    def __init__(self, error=None, status=None, body=None, seconds=0.0):
        self.error, self.status, self.body, self.seconds = error, status, body, seconds


def observe(call):
    begun = time.monotonic()
    try:
        status, body = call()
        return Outcome(None, status, body, time.monotonic() - begun)
    except Exception as error:
        return Outcome(error, seconds=time.monotonic() - begun)


# -- gRPC


def grpc_with_call(address):
    with grpc.insecure_channel(address) as channel:
        message, call = channel.unary_unary("/t.T/Echo")(b"abcdef", timeout=5), None
        return 0, message


def grpc_future(address):
    with grpc.insecure_channel(address) as channel:
        future = channel.unary_unary("/t.T/Echo").future(b"abcdef", timeout=5)
        callbacks = []
        future.add_done_callback(callbacks.append)
        try:
            return 0, future.result()
        finally:
            assert future.done() and not future.running() and not future.cancelled()
            assert future.code() is (grpc.StatusCode.OK if future.exception() is None else future.exception().code())
            end = time.monotonic() + 2
            while not callbacks and time.monotonic() < end:
                time.sleep(0.01)
            assert callbacks == [future]


class AppInterceptor(grpc.UnaryUnaryClientInterceptor):
    def intercept_unary_unary(self, continuation, details, request):
        return continuation(details, request)


def grpc_intercepted(address):
    with grpc.insecure_channel(address) as channel:
        call = grpc.intercept_channel(channel, AppInterceptor()).unary_unary("/t.T/Echo")
        return 0, call.with_call(b"abcdef", timeout=5)[0]


def grpc_intercepted_future(address):
    with grpc.insecure_channel(address) as channel:
        call = grpc.intercept_channel(channel, AppInterceptor()).unary_unary("/t.T/Echo")
        return 0, call.future(b"abcdef", timeout=5).result()


def grpc_aio(address):
    async def run():
        async with grpc.aio.insecure_channel(address) as channel:
            call = channel.unary_unary("/t.T/Echo")(b"abcdef", timeout=5)
            callbacks = []
            call.add_done_callback(callbacks.append)
            try:
                return 0, await call
            finally:
                assert (await call.code()) is not None
                assert call.done() and callbacks == [call]

    return asyncio.run(run())


class AioInterceptor(grpc.aio.UnaryUnaryClientInterceptor):
    async def intercept_unary_unary(self, continuation, details, request):
        return await continuation(details, request)


def grpc_aio_intercepted(address):
    async def run():
        async with grpc.aio.insecure_channel(address, interceptors=[AioInterceptor()]) as channel:
            return 0, await channel.unary_unary("/t.T/Echo")(b"abcdef", timeout=5)

    return asyncio.run(run())


GRPC_CODES = {
    "unavailable": grpc.StatusCode.UNAVAILABLE,
    "status": grpc.StatusCode.RESOURCE_EXHAUSTED,
    "deadline": grpc.StatusCode.DEADLINE_EXCEEDED,
    "reset": grpc.StatusCode.UNAVAILABLE,
    "hang": grpc.StatusCode.DEADLINE_EXCEEDED,
    "lost-reply": grpc.StatusCode.UNAVAILABLE,
}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("client", [grpc_with_call, grpc_future, grpc_intercepted, grpc_intercepted_future, grpc_aio, grpc_aio_intercepted])
@pytest.mark.parametrize("sdk", [True, False], ids=["sdk-callee", "stock-callee"])
def test_grpc_fault(peers, client, kind, sdk):
    callee = peers("grpc_app", sdk=sdk, service="callee") if sdk else peers("grpc_app", sdk=False)

    def count():
        with grpc.insecure_channel(callee.address) as channel:
            return int(channel.unary_unary("/t.T/Count")(b""))

    plan = [Fault(kind, Selector(call="Echo"), arg=8 if kind == "status" else ARG.get(kind, 0), nth=2)]
    before = count()
    with faultloom.starting(SIGNER, plan) as started:
        first, second, third = (observe(lambda: client(callee.address)) for _ in range(3))
    assert count() - before == (3 if kind in RUNS else 2)
    assert (first.body, third.body) == (b"abcdef", b"abcdef")
    if kind in GRPC_CODES:
        error = second.error
        assert isinstance(error, grpc.RpcError)
        assert error.code() is GRPC_CODES[kind] and isinstance(error.details(), str)
        assert tuple(error.trailing_metadata() or ()) == () and error.debug_error_string()
        if client is grpc_aio or client is grpc_aio_intercepted:
            assert isinstance(error, grpc.aio.AioRpcError)
        else:
            assert isinstance(error, grpc.Call)
    else:
        wanted = {"delay": b"abcdef", "empty-reply": b"", "corrupt-reply": b"abc\xff\xff\xff"}[kind]
        assert second.body == wanted
    if kind in ARG:
        assert second.seconds >= ARG[kind] / 1000
    service = "callee" if sdk else None
    reply = ("replied", 0, not sdk, service)
    disturbed = {
        "unavailable": ("failed", 14, False, None), "reset": ("failed", 14, False, None),
        "deadline": ("failed", 4, False, None), "hang": ("failed", 4, False, None),
        "status": ("replied", 8, False, None), "lost-reply": ("failed", 14, not sdk, service),
    }.get(kind, reply)  # fmt: skip
    assert ends(started.history.segment) == [reply, disturbed, reply]
    assert faults_fired(started.history.segment) == [None, 0, None]


# -- HTTP


def via_requests(url):
    response = requests.post(url, data=b"abcdef", timeout=5)
    return response.status_code, response.content


SESSION = requests.Session()


def via_session(url):
    response = SESSION.post(url, data=b"abcdef", timeout=5)
    return response.status_code, response.content


POOL = urllib3.PoolManager(retries=False, timeout=5)


def via_urllib3(url):
    response = POOL.request("POST", url, body=b"abcdef")
    return response.status, response.data


def via_urllib(url):
    try:
        with urllib.request.urlopen(urllib.request.Request(url, data=b"abcdef", method="POST"), timeout=5) as response:
            return response.status, response.read()
    except urllib.error.HTTPError as error:
        return error.code, error.read()


def via_http_client(url):
    connection = http.client.HTTPConnection(url.split("/")[2], timeout=5)
    try:
        connection.request("POST", "/echo", b"abcdef")
        response = connection.getresponse()
        return response.status, response.read()
    finally:
        connection.close()


def via_httpx(url):
    response = httpx.post(url, content=b"abcdef", timeout=5)
    return response.status_code, response.content


def via_httpx_async(url):
    async def run():
        async with httpx.AsyncClient(timeout=5) as client:
            response = await client.post(url, content=b"abcdef")
            return response.status_code, response.content

    return asyncio.run(run())


def via_aiohttp(url):
    async def run():
        async with aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=5)) as session, session.post(url, data=b"abcdef") as reply:
            return reply.status, await reply.read()

    return asyncio.run(run())


HTTP_ERRORS = {
    via_requests: (requests.ConnectionError, requests.ReadTimeout, requests.ConnectionError),
    via_session: (requests.ConnectionError, requests.ReadTimeout, requests.ConnectionError),
    via_urllib3: (urllib3.exceptions.NewConnectionError, urllib3.exceptions.ReadTimeoutError, urllib3.exceptions.ProtocolError),
    via_urllib: (urllib.error.URLError, (socket.timeout, urllib.error.URLError), ConnectionResetError),
    via_http_client: (ConnectionRefusedError, socket.timeout, ConnectionResetError),
    via_httpx: (httpx.ConnectError, httpx.ReadTimeout, httpx.ReadError),
    via_httpx_async: (httpx.ConnectError, httpx.ReadTimeout, httpx.ReadError),
    via_aiohttp: (aiohttp.ClientConnectorError, asyncio.TimeoutError, aiohttp.ClientOSError),
}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("client", list(HTTP_ERRORS))
@pytest.mark.parametrize("sdk", [True, False], ids=["sdk-callee", "stock-callee"])
def test_http_fault(peers, client, kind, sdk):
    callee = peers("flask_app", sdk=sdk, service="callee") if sdk else peers("flask_app", sdk=False)

    def count():
        return int(requests.get(callee.url + "/count", timeout=5).text)

    plan = [Fault(kind, Selector(call="POST /echo"), arg=503 if kind == "status" else ARG.get(kind, 0), nth=2)]
    before = count()
    with faultloom.starting(SIGNER, plan) as started:
        first, second, third = (observe(lambda: client(callee.url + "/echo")) for _ in range(3))
    assert count() - before == (3 if kind in RUNS else 2)
    assert (first.status, first.body, third.status, third.body) == (200, b"abcdef", 200, b"abcdef"), (first.error, third.error)
    refused, timeout, reset = HTTP_ERRORS[client]
    if kind in ("unavailable", "deadline", "reset", "hang", "lost-reply"):
        wanted = {"unavailable": refused, "deadline": timeout, "hang": timeout}.get(kind, reset)
        assert isinstance(second.error, wanted), repr(second.error)
    else:
        wanted = {"status": (503, b""), "delay": (200, b"abcdef"), "empty-reply": (200, b""), "corrupt-reply": (200, b"abc\xff\xff\xff")}
        assert (second.status, second.body) == wanted[kind], repr(second.error)
    if kind in ARG:
        assert second.seconds >= ARG[kind] / 1000
    service = "callee" if sdk else None
    reply = ("replied", 200, not sdk, service)
    disturbed = {
        "unavailable": ("failed", 14, False, None), "reset": ("failed", 14, False, None),
        "deadline": ("failed", 4, False, None), "hang": ("failed", 4, False, None),
        "status": ("replied", 503, False, None), "lost-reply": ("failed", 14, not sdk, service),
    }.get(kind, reply)  # fmt: skip
    assert ends(started.history.segment) == [reply, disturbed, reply]
    assert faults_fired(started.history.segment) == [None, 0, None]


@pytest.mark.parametrize("kind", ["delay", "hang"])
@pytest.mark.parametrize("client", ["requests", "split", "httpx", "grpc", "aio"])
def test_the_callers_own_deadline_ends_a_longer_wait(peers, client, kind):
    plan = [Fault(kind, Selector(), arg=20_000)]
    flask, backend = peers("flask_app", service="callee"), peers("grpc_app", service="callee")

    def call():
        if client == "requests":
            requests.get(flask.url + "/echo", timeout=0.3)
        elif client == "split":
            requests.get(flask.url + "/echo", timeout=(0.1, 0.3))
        elif client == "httpx":
            httpx.get(flask.url + "/echo", timeout=0.3)
        elif client == "grpc":
            with grpc.insecure_channel(backend.address) as channel:
                channel.unary_unary("/t.T/Echo")(b"x", timeout=0.3)
        else:

            async def run():
                async with grpc.aio.insecure_channel(backend.address) as channel:
                    await channel.unary_unary("/t.T/Echo")(b"x", timeout=0.3)

            asyncio.run(run())
        return 0, b""

    with faultloom.starting(SIGNER, plan) as started:
        outcome = observe(call)
    assert 0.25 <= outcome.seconds < 2
    if client in ("grpc", "aio"):
        assert outcome.error.code() is grpc.StatusCode.DEADLINE_EXCEEDED
    else:
        assert isinstance(outcome.error, (requests.ReadTimeout, httpx.ReadTimeout))
    assert [end[:2] for end in ends(started.history.segment)] == [("failed", 4)]


@pytest.mark.parametrize("client", ["requests", "httpx", "grpc", "future", "stream", "aio"])
def test_a_delay_beyond_the_deadline_sends_once_faults_are_switched_off(peers, client):
    flask, backend = peers("flask_app", service="callee"), peers("grpc_app", service="callee")
    enabled = threading.Event()
    enabled.set()

    async def aio():
        async with grpc.aio.insecure_channel(backend.address) as channel:
            call = channel.unary_unary("/t.T/Echo")(b"abcdef", timeout=5)
            done = []
            call.add_done_callback(done.append)
            body = await call
            assert await call.code() is grpc.StatusCode.OK and done == [call]
            return body

    def call():
        if client == "requests":
            return requests.post(flask.url + "/echo", data=b"abcdef", timeout=5).content
        if client == "httpx":
            return httpx.post(flask.url + "/echo", content=b"abcdef", timeout=5).content
        if client == "aio":
            return asyncio.run(aio())
        with grpc.insecure_channel(backend.address) as channel:
            if client == "stream":
                assert list(channel.unary_stream("/t.T/Stream")(b"3", timeout=5)) == [b"0", b"1", b"2"]
                return b"abcdef"
            echo = channel.unary_unary("/t.T/Echo")
            return echo.future(b"abcdef", timeout=5).result() if client == "future" else echo(b"abcdef", timeout=5)

    with faultloom.starting(SIGNER, [Fault("delay", arg=20_000)]) as started:
        started.scope.faults_enabled = enabled.is_set
        threading.Timer(0.3, enabled.clear).start()
        assert call() == b"abcdef"
    assert ends(started.history.segment) == [("replied", 200 if client in ("requests", "httpx") else 0, False, "callee")]


def test_a_delay_between_connect_and_read_timeout_still_reaches_the_callee(peers):
    flask = peers("flask_app", service="callee")
    with faultloom.starting(SIGNER, [Fault("delay", arg=300)]) as started:
        assert requests.post(flask.url + "/echo", data=b"kept", timeout=(0.1, 5)).content == b"kept"
    assert ends(started.history.segment) == [("replied", 200, False, "callee")]


def test_urllib3_retries_a_reset_and_each_attempt_is_a_call(peers):
    flask = peers("flask_app", service="callee")
    pool = urllib3.PoolManager(retries=urllib3.Retry(3, backoff_factor=0))
    with faultloom.starting(SIGNER, [Fault("reset", max_fires=2)]) as started:
        assert pool.request("GET", flask.url + "/echo").data == b"hello"
    assert faults_fired(started.history.segment) == [0, 0, None]


def test_canceling_a_hanging_future_ends_it(peers):
    backend = peers("grpc_app", service="callee")
    with faultloom.starting(SIGNER, [Fault("hang")]):
        with grpc.insecure_channel(backend.address) as channel:
            future = channel.unary_unary("/t.T/Echo").future(b"x")
            assert not future.done() and future.cancel() and future.cancelled()
            with pytest.raises(grpc.FutureCancelledError):
                future.result()
            assert future.code() is grpc.StatusCode.CANCELLED


def test_canceling_a_hanging_aio_call_ends_it(peers):
    backend = peers("grpc_app", service="callee")

    async def run():
        async with grpc.aio.insecure_channel(backend.address) as channel:
            call = channel.unary_unary("/t.T/Echo")(b"x")
            await asyncio.sleep(0.1)
            assert call.cancel()
            with pytest.raises(asyncio.CancelledError):
                await call
            assert call.cancelled() and await call.code() is grpc.StatusCode.CANCELLED

    with faultloom.starting(SIGNER, [Fault("hang")]) as started:
        asyncio.run(run())
    assert [end[:2] for end in ends(started.history.segment)] == [("failed", 1)]


def test_a_callback_that_raises_is_logged_and_the_next_one_runs(peers, caplog):
    backend = peers("grpc_app", service="callee")
    called = threading.Event()

    def fails(_):
        raise ValueError("of the application")

    with faultloom.starting(SIGNER, [Fault("delay", arg=100)]):
        with grpc.insecure_channel(backend.address) as channel:
            future = channel.unary_unary("/t.T/Echo").future(b"x", timeout=5)
            future.add_done_callback(fails)
            future.add_done_callback(lambda _: called.set())
            assert future.result() == b"x" and called.wait(5)
    assert "of the application" in caplog.text
