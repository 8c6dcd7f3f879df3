"""The time that a call spends on a connection of its own is recorded: name resolution, connecting, TLS."""

from __future__ import annotations

import asyncio
import contextlib
import http.client
import socket
import time

import aiohttp
import httpx
import pytest
import requests
import urllib3
from conftest import SIGNER

import faultloom
from faultloom.wire.history import CALL_FAILED, RECV_RESPONSE

#: how long a name takes at least to be resolved
LOOKUP_SECONDS = 0.05


def with_http_client(host, port, path, times):
    connection = http.client.HTTPConnection(host, port, timeout=20)
    with contextlib.closing(connection):
        for _ in range(times):
            connection.request("GET", path)
            connection.getresponse().read()


def with_urllib3(host, port, path, times):
    with urllib3.PoolManager(retries=False) as pool:
        for _ in range(times):
            pool.request("GET", f"http://{host}:{port}{path}")


def with_requests(host, port, path, times):
    with requests.Session() as session:
        for _ in range(times):
            session.get(f"http://{host}:{port}{path}", timeout=20)


def with_httpx(host, port, path, times, **options):
    with httpx.Client(timeout=20) as client:
        for _ in range(times):
            client.get(f"http://{host}:{port}{path}", **options)


def with_httpx_async(host, port, path, times, **options):
    async def run():
        async with httpx.AsyncClient(timeout=20) as client:
            for _ in range(times):
                await client.get(f"http://{host}:{port}{path}", **options)

    asyncio.run(run())


def with_aiohttp(host, port, path, times):
    async def run():
        async with aiohttp.ClientSession() as session:
            for _ in range(times):
                async with session.get(f"http://{host}:{port}{path}") as reply:
                    await reply.read()

    asyncio.run(run())


CLIENTS = pytest.mark.parametrize("client", [with_http_client, with_urllib3, with_requests, with_httpx, with_httpx_async, with_aiohttp])


@pytest.fixture(autouse=True)
def slow_lookups(monkeypatch):
    lookup = socket.getaddrinfo

    def slow(*args, **kwargs):
        time.sleep(LOOKUP_SECONDS)
        return lookup(*args, **kwargs)

    monkeypatch.setattr(socket, "getaddrinfo", slow)


def connect_times(started):
    """In seconds, of each call that has ended."""
    return [e.connect_us / 1e6 for e in started.history.segment.events if e.kind in (RECV_RESPONSE, CALL_FAILED)]


def serve(peers):
    """The port of a service that keeps its connections open."""
    return peers("fastapi_app", service="front").url.rpartition(":")[2]


@CLIENTS
def test_the_first_call_on_a_connection_has_the_time_for_it(peers, client):
    with faultloom.starting(SIGNER) as started:
        client("localhost", int(serve(peers)), "/product/17", 3)
    first, *further = connect_times(started)
    sent, ended = started.history.segment.events[:2]
    assert LOOKUP_SECONDS <= first <= (ended.at_us - sent.at_us) / 1e6
    assert further == [0, 0]


@CLIENTS
def test_a_call_that_cannot_connect_has_the_time_for_it(client):
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
    with faultloom.starting(SIGNER) as started, contextlib.suppress(Exception):
        client("localhost", port, "/", 1)
    assert [e.kind for e in started.history.segment.events[1:2]] == [CALL_FAILED]
    assert connect_times(started)[0] >= LOOKUP_SECONDS


def test_the_applications_own_trace_of_httpx_is_called(peers):
    port = int(serve(peers))
    names = []

    async def own_async(name, info):
        names.append(name)

    def own(name, info):
        names.append(name)

    for client, trace in ((with_httpx, own), (with_httpx_async, own_async)):
        names.clear()
        with faultloom.starting(SIGNER) as started:
            client("localhost", port, "/product/17", 1, extensions={"trace": trace})
        assert "connection.connect_tcp.complete" in names and any("response_closed" in name for name in names)
        assert connect_times(started)[0] >= LOOKUP_SECONDS


def test_a_request_of_httpx_keeps_its_extensions(peers):
    port = int(serve(peers))
    with faultloom.starting(SIGNER), httpx.Client(timeout=20) as client:
        request = client.build_request("GET", f"http://localhost:{port}/product/17", extensions={"own": 1})
        before = request.extensions
        client.send(request)
    assert request.extensions is before and set(before) == {"own", "timeout"}
