"""aiohttp as a server: traced, faulted, named by the paths of its resources; replies keep their bytes."""

from __future__ import annotations

import asyncio
import http.client
import re
import socket
import ssl
import time
from typing import Any

import aiohttp
import pytest
import requests
from conftest import SIGNER, child_of, ends, get_traced

import faultloom
from faultloom import Fault, Selector
from faultloom.hooks.http.aiohttp_server import template_of

NOWHERE = [Fault("unavailable", Selector(callee="127.0.0.1:1"))]


@pytest.fixture
def shop(peers: Any) -> Any:
    return peers("aiohttp_app", service="shop")


@pytest.mark.parametrize(
    ("path", "name", "status"),
    [
        ("/product/OLJCESPC7Z?x=1", "/product/{id}", 200),
        ("/cart/17/a/b", "/cart/{id}/{*rest}", 200),
        ("/cart/17/a", "/cart/{id}/{*rest}", 200),
        ("/files/a.txt", "/files/{*name}", 200),
        ("/v1/shop/orders/17", "/v1/shop/orders/{id}", 200),
        ("/status/204", "/status/{code}", 204),
        ("/status/304", "/status/{code}", 304),
        ("/missing/17", "/missing/{id}", 404),
        ("/none/17", "/none/{id}", 404),
        ("/static/none/17", "/static/none/{id}", 404),
        ("/boom/17", "/boom/{id}", 500),
    ],
)
def test_resources_name_calls(shop: Any, path: str, name: str, status: int) -> None:
    segment, reply = get_traced(shop.url + path)
    assert (reply.status_code, segment.service, segment.name) == (status, "shop", f"GET {name}")
    assert not [header for header in reply.headers if "faultloom" in header.lower()]


def test_a_name_is_a_wildcard_if_its_expression_matches_slashes() -> None:
    for expression, path, name in ((r"\d+", "/a/1/b", "id"), (r".*", "/a/1/b", "*id"), (r"[a-z/]+", "/a/x/b", "*id"), (r"[^/]+", "/a/x/b", "id")):
        assert template_of("/a/{id}/b", re.compile(f"/a/(?P<id>{expression})/b"), path) == f"/a/{{{name}}}/b"


def test_calls_are_traced_and_faulted(peers: Any) -> None:
    front, back = peers("aiohttp_app", service="front"), peers("aiohttp_app", service="back")
    plan = [Fault("unavailable", Selector("front", "", "GET /product/{id}"))]
    for faults, body, end in (
        (None, "via:ok", ("replied", 200, False, "back")),
        (plan, "via:ClientConnectorError", ("failed", 14, False, None)),
        (None, "via:ok", ("replied", 200, False, "back")),
    ):
        segment, reply = get_traced(f"{front.url}/chain?url={back.url}/product/a", faults)
        assert reply.text == body and ends(segment) == [end]


def test_a_callee_is_faulted_by_its_resource(shop: Any) -> None:
    plan = [Fault("status", Selector(call="GET /product/{id}"), arg=503)]
    for faults, status in ((None, 200), (plan, 503), (None, 200)):
        with faultloom.starting(SIGNER, faults):
            assert requests.get(shop.url + "/product/a", timeout=10).status_code == status


@pytest.mark.parametrize(
    ("path", "gap"),
    [
        ("/echo", False), ("/big?n=0", False), ("/big?n=32768", False), ("/big?n=4000000", False), ("/file", False),
        ("/stream?n=3&fan=2", False), ("/stream?n=9000", False), ("/stream?n=9000&length=187890", False), ("/stream?n=9000&length=180000", False),
        ("/stream?n=3&type=application/x-ndjson", True), ("/events", True), ("/compressed", False),
    ],
)  # fmt: skip
def test_replies_keep_their_bytes(shop: Any, path: str, gap: bool) -> None:
    url = shop.url + path
    plain = requests.get(url, timeout=10)
    with faultloom.starting(SIGNER, NOWHERE) as started:
        reply = requests.get(url, timeout=10)
    kept = ("content-type", "content-encoding", "server")
    assert reply.content == plain.content and [reply.headers.get(name) for name in kept] == [plain.headers.get(name) for name in kept]
    assert started.history is not None
    assert ends(started.history.segment) == [("replied", 200, gap, None if gap else "shop")]


@pytest.mark.parametrize("lines", [1, 100_000])
def test_a_long_history_has_a_tail(shop: Any, lines: int) -> None:
    segment, reply = get_traced(f"{shop.url}/fan?n=500&lines={lines}", NOWHERE)
    assert reply.text == "line\n" * lines and len(segment.events) == 1001 and not segment.truncated


@pytest.mark.parametrize("options", [{"status": 201}, {"method": "HEAD"}])
def test_a_reply_that_may_not_have_a_tail_has_a_header(shop: Any, options: Any) -> None:
    with faultloom.starting(SIGNER, NOWHERE) as started:
        url = f"{shop.url}/fan?n=500&status={options.get('status', 200)}"
        assert requests.request(options.get("method", "GET"), url, timeout=10).status_code == options.get("status", 200)
    assert started.history is not None and child_of(started.history.segment).truncated


def test_a_range_of_a_file_has_no_tail(shop: Any) -> None:
    segment, reply = get_traced(shop.url + "/file", headers={"Range": "bytes=10-19"})
    assert (reply.status_code, reply.content, segment.service) == (206, b"0123456789", "shop")


@pytest.mark.parametrize("size", [10, 40_000])
def test_a_reply_that_breaks_off_is_broken_for_its_caller(shop: Any, size: int) -> None:
    """A handler that fails after a part of its reply does not become an error 500 because that part was held back."""

    def read() -> Any:
        connection = http.client.HTTPConnection(shop.address, timeout=10)
        connection.request("GET", f"/broken?n={size}")
        reply = connection.getresponse()
        with pytest.raises(http.client.IncompleteRead) as error:
            reply.read()
        return reply.status, error.value.partial

    assert read() == (200, b"x" * size)
    with faultloom.starting(SIGNER) as started:
        assert read() == (200, b"x" * size)
    assert started.history is not None and ends(started.history.segment) == [("replied", 200, True, None)]


def test_a_body_that_is_shorter_than_declared_does_not_look_whole(shop: Any) -> None:
    with faultloom.starting(SIGNER) as started, pytest.raises(requests.RequestException):
        requests.get(shop.url + "/stream?n=9000&length=200000", timeout=2)
    assert started.history is not None and ends(started.history.segment) == [("replied", 200, True, None)]


def test_an_event_stream_is_never_held_back(shop: Any) -> None:
    begun = time.monotonic()
    with faultloom.starting(SIGNER) as started, requests.get(shop.url + "/events?wait", stream=True, timeout=5) as reply:
        assert next(reply.iter_lines()) == b"data: first" and time.monotonic() - begun < 1.5
    assert started.history is not None and ends(started.history.segment) == [("replied", 200, True, None)]


@pytest.mark.parametrize("options", ["", "length=", "head=", "head=&length="])
def test_a_handler_may_wait_for_what_its_caller_does_with_the_first_part(shop: Any, options: str) -> None:
    def talk() -> Any:
        with requests.get(f"{shop.url}/turns?_=1&{options}", stream=True, timeout=8) as reply:
            first = b"" if "head" in options else reply.raw.read(6)
            requests.get(shop.url + "/turn", timeout=8)
            return first + reply.raw.read()

    assert talk() == b"first\nturned"
    with faultloom.starting(SIGNER) as started:
        assert talk() == b"first\nturned"
    assert started.history is not None and ends(started.history.segment) == [("replied", 200, False, "shop")] * 2


def test_a_connection_is_kept_after_replies_of_all_kinds(shop: Any) -> None:
    connection = http.client.HTTPConnection(shop.address, timeout=10)
    with faultloom.starting(SIGNER, NOWHERE) as started:
        used = set()
        for path in ("/product/a", "/stream?n=9000", "/big?n=80000", "/file", "/fan?n=100", "/status/204", "/none/1", "/product/a"):
            connection.request("GET", path)
            used.add(connection.sock)
            connection.getresponse().read()
    assert len(used) == 1 and started.history is not None
    assert {end[2:] for end in ends(started.history.segment)} == {(False, "shop")}


@pytest.mark.parametrize("path", ["/stream?n=9000", "/stream?n=9000&length=187890", "/fan?n=100&lines=3"])
def test_a_caller_of_http_1_0_gets_the_whole_body(shop: Any, path: str) -> None:
    """It understands no chunks. A body whose length is declared cannot have a tail while it is sent."""

    def get(*headers: str) -> Any:
        with socket.create_connection(tuple(shop.address.split(":")), timeout=10) as connection:
            lines = [f"GET {path} HTTP/1.0", "Host: shop", *headers, "", ""]
            connection.sendall("\r\n".join(lines).encode())
            head, _, body = b"".join(iter(lambda: connection.recv(65536), b"")).partition(b"\r\n\r\n")
        return {name.lower(): value for name, _, value in (line.partition(": ") for line in head.decode().split("\r\n")[1:])}, body

    plain_headers, plain = get()
    headers, body = get("X-Faultloom: " + SIGNER.header(NOWHERE, accept=2))
    is_tail = headers.get("x-faultloom-reply") == "tail"
    assert body.startswith(plain) and (len(body) > len(plain)) == is_tail and "chunked" not in headers.get("transfer-encoding", "")
    assert is_tail == ("length" not in path) and headers.get("content-length", str(len(body))) == str(len(body))


def test_websocket_is_unchanged(shop: Any) -> None:
    async def talk(**headers: str) -> Any:
        async with aiohttp.ClientSession() as session, session.ws_connect(shop.url + "/socket", headers=headers) as ws:
            await ws.send_str("hello")
            return await ws.receive_str(), [name for name in ws._response.headers if "faultloom" in name.lower()]

    with faultloom.starting(SIGNER) as started:
        assert asyncio.run(talk()) == ("HELLO", [])
    assert started.history is not None and len(started.history.segment.events) == 1  # the end
    assert asyncio.run(talk(**{"X-Faultloom": SIGNER.header()})) == ("HELLO", [])


def test_a_request_that_offers_http_2_is_traced(shop: Any) -> None:
    """As those of Java's client do."""
    segment, reply = get_traced(shop.url + "/product/a", headers={"Connection": "Upgrade, HTTP2-Settings", "Upgrade": "h2c", "HTTP2-Settings": "AA"})
    assert reply.text == "ok" and segment.name == "GET /product/{id}"


def test_a_server_without_an_application_is_traced(peers: Any) -> None:
    segment, reply = get_traced(peers("aiohttp_app", "bare", service="bare").url + "/order/17")
    assert (reply.text, segment.service, segment.name) == ("hello", "bare", "GET /order/{id}")


def test_it_serves_https(peers: Any, certificate: Any) -> None:
    shop = peers("aiohttp_app", *certificate, service="shop")
    url = shop.url.replace("http://", "https://")

    async def get() -> Any:
        context = ssl.create_default_context(cafile=certificate[1])
        async with aiohttp.ClientSession() as session:
            for path in ("/product/a", "/file", "/stream?n=9000"):
                async with session.get(url + path, ssl=context) as reply:
                    yield len(await reply.read())

    async def all_of() -> Any:
        return [size async for size in get()]

    with faultloom.starting(SIGNER) as started:
        assert asyncio.run(all_of()) == [2, 100_000, 196_890]
    assert started.history is not None and ends(started.history.segment) == [("replied", 200, False, "shop")] * 3


def test_untraced_requests_are_unchanged(shop: Any, peers: Any) -> None:
    stock = peers("aiohttp_app", sdk=False)
    for path in ("/echo", "/stream?n=9000", "/none/1"):
        replies = [requests.get(peer.url + path, timeout=10) for peer in (shop, stock)]
        headers = [{name: value for name, value in reply.headers.items() if name != "Date"} for reply in replies]
        assert replies[0].content == replies[1].content and headers[0] == headers[1]
