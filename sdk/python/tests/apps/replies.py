"""Calls the scripted server of ``xtask replies`` with each client library, see xtask/src/replies/driver.rs."""

from __future__ import annotations

import asyncio
import http.client
import logging
import threading
import urllib.error
import urllib.request

import aiohttp
import flask
import grpc
import grpc.aio
import httpx
import requests
import urllib3
from lifetime import announce
from werkzeug.serving import make_server

#: longer than any test
TIMEOUT_S = 60.0
#: for aiohttp, which waits for more of a reply after a chunk with an invalid size
AIOHTTP_TIMEOUT_S = 4.0
CHUNK_BYTES = 100

app = flask.Flask("replies")
logging.getLogger("werkzeug").setLevel(logging.ERROR)


class UnsupportedError(Exception):
    """The library has no way to cancel a call."""


class Observed:
    def __init__(self):
        self.status = 0
        self.bytes = b""


class Limits:
    """What applies to all calls of a case, and their client, if it has one that it reuses."""

    def __init__(self, timeout_ms, cancel_ms):
        self.client = None
        #: of the next call
        self.method = "GET"
        self.timeout_s = timeout_ms / 1000 if timeout_ms else TIMEOUT_S
        self.cancel_s = cancel_ms / 1000

    def refuse_cancel(self):
        if self.cancel_s:
            raise UnsupportedError

    @property
    def body(self):
        return b"ping" if self.method == "POST" else None

    def reused(self, make):
        if self.client is None:
            self.client = make()
        return self.client

    def close(self):
        if self.client is not None:
            self.client.close()


def open_connection(observed, target, limits):
    limits.refuse_cancel()
    address, path = target.split("/", 1)
    connection = limits.reused(lambda: http.client.HTTPConnection(address, timeout=limits.timeout_s))
    connection.request(limits.method, f"/{path}", limits.body)
    reply = connection.getresponse()
    observed.status = reply.status
    return reply


def by_http_client(observed, target, limits):
    reply = open_connection(observed, target, limits)
    while data := reply.read(CHUNK_BYTES):
        observed.bytes += data


def by_http_client_whole(observed, target, limits):
    observed.bytes = open_connection(observed, target, limits).read()


def by_http_client_read1(observed, target, limits):
    reply = open_connection(observed, target, limits)
    while data := reply.read1(CHUNK_BYTES):
        observed.bytes += data


def by_urllib(observed, target, limits):
    limits.refuse_cancel()
    try:
        request = urllib.request.Request(f"http://{target}", limits.body, method=limits.method)
        reply = urllib.request.urlopen(request, timeout=limits.timeout_s)
    except urllib.error.HTTPError as error:
        reply = error
    observed.status = reply.status
    with reply:
        while data := reply.read(CHUNK_BYTES):
            observed.bytes += data


class Pool(urllib3.PoolManager):
    def close(self):
        self.clear()


def urllib3_reply(target, limits, **options):
    limits.refuse_cancel()
    pool = limits.reused(lambda: Pool(retries=False, timeout=limits.timeout_s))
    return pool.request(limits.method, f"http://{target}", body=limits.body, **options)


def by_urllib3(observed, target, limits):
    reply = urllib3_reply(target, limits, preload_content=False)
    observed.status = reply.status
    for data in reply.stream(CHUNK_BYTES, decode_content=True):
        observed.bytes += data
    reply.release_conn()


def by_urllib3_whole(observed, target, limits):
    reply = urllib3_reply(target, limits)
    observed.status, observed.bytes = reply.status, reply.data


def by_requests(observed, target, limits):
    limits.refuse_cancel()
    session = limits.reused(requests.Session)
    reply = session.request(limits.method, f"http://{target}", data=limits.body, timeout=limits.timeout_s)
    observed.status, observed.bytes = reply.status_code, reply.content


def by_requests_stream(observed, target, limits):
    limits.refuse_cancel()
    session, url = limits.reused(requests.Session), f"http://{target}"
    with session.request(limits.method, url, data=limits.body, timeout=limits.timeout_s, stream=True) as reply:
        observed.status = reply.status_code
        for data in reply.iter_content(CHUNK_BYTES):
            observed.bytes += data


def by_httpx(observed, target, limits):
    limits.refuse_cancel()
    client = limits.reused(lambda: httpx.Client(timeout=limits.timeout_s, follow_redirects=True))
    with client.stream(limits.method, f"http://{target}", content=limits.body) as reply:
        observed.status = reply.status_code
        for data in reply.iter_bytes():
            observed.bytes += data


def by_httpx_whole(observed, target, limits):
    limits.refuse_cancel()
    client = limits.reused(lambda: httpx.Client(timeout=limits.timeout_s))
    reply = client.request(limits.method, f"http://{target}", content=limits.body)
    observed.status, observed.bytes = reply.status_code, reply.content


def by_httpx_async(observed, target, limits):
    async def call():
        async with httpx.AsyncClient(timeout=limits.timeout_s) as client:
            async with client.stream(limits.method, f"http://{target}", content=limits.body) as reply:
                observed.status = reply.status_code
                async for data in reply.aiter_bytes():
                    observed.bytes += data

    asyncio.run(canceled_after(call(), limits))


async def canceled_after(call, limits):
    task = asyncio.ensure_future(call)
    if limits.cancel_s:
        asyncio.get_running_loop().call_later(limits.cancel_s, task.cancel)
    return await task


def or_none(message):
    """grpcio returns no message for a reply that has a status but no whole message."""
    return b"none" if message is None else message


def channel_and_method(target):
    address, path = target.split("/", 1)
    return address, f"/{path}"


def by_grpc(observed, target, limits):
    address, method = channel_and_method(target)
    with grpc.insecure_channel(address) as channel:
        stub = channel.unary_unary(method)
        if limits.cancel_s:
            call = stub.future(b"x", timeout=limits.timeout_s)
            threading.Timer(limits.cancel_s, call.cancel).start()
            observed.bytes = or_none(call.result())
        else:
            observed.bytes = or_none(stub(b"x", timeout=limits.timeout_s))


def by_grpc_future(observed, target, limits):
    address, method = channel_and_method(target)
    with grpc.insecure_channel(address) as channel:
        call = channel.unary_unary(method).future(b"x", timeout=limits.timeout_s)
        if limits.cancel_s:
            threading.Timer(limits.cancel_s, call.cancel).start()
        observed.bytes = or_none(call.result())


def by_grpc_stream(observed, target, limits):
    address, method = channel_and_method(target)
    with grpc.insecure_channel(address) as channel:
        call = channel.unary_stream(method)(b"x", timeout=limits.timeout_s)
        if limits.cancel_s:
            threading.Timer(limits.cancel_s, call.cancel).start()
        for message in call:
            observed.bytes += message + b"|"


def run_aio(call):
    """grpc.aio supports only one event loop at a time. The scope of the request is in the context of the call."""
    asyncio.run_coroutine_threadsafe(call, aio_loop).result()


aio_loop = asyncio.new_event_loop()
threading.Thread(target=aio_loop.run_forever, daemon=True).start()


class AiohttpClient:
    """A session in the event loop that keeps running."""

    def __init__(self, timeout_s):
        run_aio(self.open(timeout_s))

    async def open(self, timeout_s):
        self.session = aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=min(timeout_s, AIOHTTP_TIMEOUT_S)))

    def close(self):
        run_aio(self.session.close())


async def aiohttp_call(observed, target, limits, read):
    async with limits.client.session.request(limits.method, f"http://{target}", data=limits.body) as reply:
        observed.status = reply.status
        await read(reply.content)


def by_aiohttp(observed, target, limits):
    async def read(content):
        async for data in content.iter_chunked(CHUNK_BYTES):
            observed.bytes += data

    limits.reused(lambda: AiohttpClient(limits.timeout_s))
    run_aio(canceled_after(aiohttp_call(observed, target, limits, read), limits))


def by_aiohttp_whole(observed, target, limits):
    async def read(content):
        observed.bytes = await content.read()

    limits.reused(lambda: AiohttpClient(limits.timeout_s))
    run_aio(canceled_after(aiohttp_call(observed, target, limits, read), limits))


def by_grpc_aio(observed, target, limits):
    async def call():
        address, method = channel_and_method(target)
        async with grpc.aio.insecure_channel(address) as channel:
            observed.bytes = or_none(await channel.unary_unary(method)(b"x", timeout=limits.timeout_s))

    run_aio(canceled_after(call(), limits))


def by_grpc_aio_stream(observed, target, limits):
    async def call():
        address, method = channel_and_method(target)
        async with grpc.aio.insecure_channel(address) as channel:
            messages = b""
            async for message in channel.unary_stream(method)(b"x", timeout=limits.timeout_s):
                messages += message + b"|"
            # not after an error: whether the messages before it arrive depends on timing in grpc.aio
            observed.bytes = messages

    run_aio(canceled_after(call(), limits))


LIBRARIES = {
    "http.client": by_http_client,
    "http.client-whole": by_http_client_whole,
    "http.client-read1": by_http_client_read1,
    "urllib": by_urllib,
    "urllib3": by_urllib3,
    "urllib3-whole": by_urllib3_whole,
    "requests": by_requests,
    "requests-stream": by_requests_stream,
    "httpx": by_httpx,
    "httpx-whole": by_httpx_whole,
    "httpx-async": by_httpx_async,
    "aiohttp": by_aiohttp,
    "aiohttp-whole": by_aiohttp_whole,
    "grpc": by_grpc,
    "grpc-future": by_grpc_future,
    "grpc-stream": by_grpc_stream,
    "grpc-aio": by_grpc_aio,
    "grpc-aio-stream": by_grpc_aio_stream,
}


def type_of(error):
    """The types of an exception and of those that it wraps; for gRPC also the code."""
    if isinstance(error, grpc.RpcError):
        return f"RpcError {error.code().name}"
    types = [type(error).__name__]
    while error.args and isinstance(error.args[-1], BaseException):
        error = error.args[-1]
        types.append(type(error).__name__)
    return " < ".join(types)


@app.get("/<library>/<methods>/<int:timeout_ms>/<int:cancel_ms>/<path:target>")
def calls(library, methods, timeout_ms, cancel_ms, target):
    limits = Limits(timeout_ms, cancel_ms)
    try:
        return [call(library, method, limits, target) for method in methods.split(",")]
    finally:
        limits.close()


def call(library, method, limits, target):
    observed, error_type = Observed(), ""
    limits.method = method
    try:
        LIBRARIES[library](observed, target, limits)
    except UnsupportedError:
        return {"unsupported": True}
    except (Exception, asyncio.CancelledError) as error:
        error_type = type_of(error)
    return {"status": observed.status, "bytes": observed.bytes.hex(), "error": error_type}


server = make_server("127.0.0.1", 0, app, threaded=True)
announce(f"{server.server_port} {' '.join(LIBRARIES)}")
server.serve_forever()
