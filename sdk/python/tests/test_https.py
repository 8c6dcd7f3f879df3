"""Calls to ``https://``: urllib3 and aiohttp connect before they write the request, and the call has begun by then."""

from __future__ import annotations

import asyncio
import socket
import ssl
import threading
import time
import urllib.request
import warnings
from typing import Any, Iterator, Tuple

import aiohttp
import pytest
import requests
from conftest import SIGNER, ends

import faultloom
from faultloom import Fault, Selector

SET_UP_S = 0.12


def fetch_requests(url: str, certificate: Any, timeout: float) -> bytes:
    return requests.get(url, verify=certificate, timeout=timeout).content


def fetch_urllib(url: str, certificate: Any, timeout: float) -> bytes:
    context = ssl.create_default_context(cafile=certificate)
    with urllib.request.urlopen(url, context=context, timeout=timeout) as reply:
        return bytes(reply.read())


def fetch_aiohttp(url: str, certificate: Any, timeout: float) -> bytes:
    async def run() -> bytes:
        limits = aiohttp.ClientTimeout(total=timeout)
        context = ssl.create_default_context(cafile=certificate)
        async with aiohttp.ClientSession(timeout=limits) as session, session.get(url, ssl=context) as reply:
            return await reply.read()

    return asyncio.run(run())


CLIENTS = pytest.mark.parametrize("fetch", [fetch_requests, fetch_urllib, fetch_aiohttp])


@pytest.fixture(scope="module")
def slow(certificate: Tuple[str, str]) -> Iterator[Tuple[str, str]]:
    """The URL of a server without the SDK that takes time for each handshake, and its certificate."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate[1], certificate[0])
    listener = socket.create_server(("127.0.0.1", 0))

    def serve(plain: socket.socket) -> None:
        time.sleep(SET_UP_S)
        try:
            with context.wrap_socket(plain, server_side=True) as secure:
                secure.recv(65536)
                secure.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: close\r\n\r\nok")
        except OSError:
            plain.close()  # the client has given up

    def accept() -> None:
        while True:
            try:
                plain, _ = listener.accept()
            except OSError:
                return
            threading.Thread(target=serve, args=(plain,), daemon=True).start()

    threading.Thread(target=accept, daemon=True).start()
    yield f"https://127.0.0.1:{listener.getsockname()[1]}/cart/17", certificate[1]
    listener.close()


def duration(segment: faultloom.Segment) -> float:
    return (segment.events[1].at_us - segment.events[0].at_us) / 1_000_000


@CLIENTS
def test_a_call_starts_before_its_connection(slow: Any, fetch: Any) -> None:
    url, certificate = slow
    with faultloom.starting(SIGNER) as started:
        assert fetch(url, certificate, 5) == b"ok"
    assert started.history is not None
    segment = started.history.segment
    assert segment.events[0].name == "GET /cart/{id}" and ends(segment) == [("replied", 200, True, None)]
    assert duration(segment) >= segment.events[1].connect_us / 1_000_000 >= SET_UP_S * 0.9


@CLIENTS
def test_a_timeout_in_the_set_up_is_recorded_with_its_time(slow: Any, fetch: Any) -> None:
    url, certificate = slow
    with faultloom.starting(SIGNER) as started:
        with pytest.raises(Exception) as error:
            fetch(url, certificate, SET_UP_S / 2)
    assert "timed out" in str(error.value) or isinstance(error.value, asyncio.TimeoutError)
    assert started.history is not None
    segment = started.history.segment
    assert ends(segment) == [("failed", 4, True, None)]
    assert duration(segment) >= segment.events[1].connect_us / 1_000_000 >= SET_UP_S * 0.4


@CLIENTS
def test_a_refused_connection_is_recorded(slow: Any, fetch: Any) -> None:
    with socket.create_server(("127.0.0.1", 0)) as closed:
        port = closed.getsockname()[1]
    with faultloom.starting(SIGNER) as started:
        with pytest.raises(Exception, match=r"refused|Connect call failed"):
            fetch(f"https://127.0.0.1:{port}/", slow[1], 5)
    assert started.history is not None
    assert ends(started.history.segment) == [("failed", 14, True, None)]


@CLIENTS
@pytest.mark.parametrize(
    ("fault", "end"),
    [
        (Fault("unavailable", Selector()), ("failed", 14, False, None)),
        (Fault("status", Selector(), arg=503), ("replied", 503, False, None)),
        (Fault("deadline", Selector()), ("failed", 4, False, None)),
        (Fault("delay", Selector(), arg=30), ("replied", 200, True, None)),
    ],
)
def test_faults_need_no_connection(slow: Any, fetch: Any, fault: Fault, end: Any) -> None:
    url, certificate = slow
    for plan in (None, [fault], None):
        with faultloom.starting(SIGNER, plan) as started, warnings.catch_warnings():
            warnings.simplefilter("error")
            try:
                fetch(url, certificate, 5)
            except OSError as error:
                assert plan, error
        assert started.history is not None
        assert ends(started.history.segment) == [end if plan else ("replied", 200, True, None)]
        if plan and fault.kind != "delay":
            assert duration(started.history.segment) < SET_UP_S
