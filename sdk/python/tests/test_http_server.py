"""``http.server``: handlers are traced, whatever way they write their replies, and replies keep their bytes."""

from __future__ import annotations

import http.client
import socket
import time
from typing import Any, List

import pytest
import requests
from conftest import SIGNER, ends, get_traced
from hypothesis import given
from hypothesis import strategies as st

import faultloom
from faultloom import Fault, Selector
from faultloom.hooks.http.chunks import Chunks, chunk

NOWHERE = [Fault("unavailable", Selector(callee="127.0.0.1:1"))]


@pytest.fixture(params=["1.0", "1.1"])
def version(request: Any) -> str:
    return str(request.param)


@pytest.fixture
def shop(peers: Any, version: str) -> Any:
    return peers("handler_app", version, service="shop")


def get(url: str, path: str) -> Any:
    """Status, body and error of a reply, as far as it arrives, and its headers."""
    connection = http.client.HTTPConnection(url.split("/")[2], timeout=10)
    connection.request("GET", path)
    try:
        reply = connection.getresponse()
    except OSError as error:
        return (0, b"", type(error).__name__), {}
    try:
        body, error_type = reply.read(), ""
    except http.client.IncompleteRead as error:
        body, error_type = error.partial, f"{type(error).__name__} {error.expected}"
    finally:
        connection.close()
    return (reply.status, body, error_type), {name.lower(): value for name, value in reply.getheaders() if name != "Date"}


#: paths, and whether their replies are gaps with HTTP/1.0 and with HTTP/1.1
REPLIES = {
    "/echo": (False, False),
    "/big?n=0": (False, False),
    "/big?n=32768": (False, False),
    "/big?n=4000000": (False, False),
    "/file": (True, False),
    "/status/204": (False, False),
    "/status/304": (False, False),
    "/status/500": (False, False),
    "/none/17": (False, False),
    "/stream?n=3&fan=2": (False, False),
    "/stream?n=9000&fan=2": (False, False),
    "/stream?n=9000&close": (False, False),
    "/stream?n=9000&type=application/x-ndjson": (True, True),
    "/events": (True, True),
    "/raw": (False, False),
    "/output": (False, False),
    "/fileno": (True, True),
    "/socket": (True, True),
    "/boom": (True, True),
    "/broken?n=10": (True, True),
    "/broken?n=40000": (True, True),
    "/short?n=10": (False, False),
    "/short?n=40000": (True, True),
}


@pytest.mark.parametrize("path", REPLIES)
def test_replies_keep_their_bytes(peers: Any, shop: Any, version: str, path: str) -> None:
    plain, plain_headers = get(peers("handler_app", version, sdk=False).url, path)
    assert get(shop.url, path) == (plain, plain_headers)  # with the SDK, without an envelope
    with faultloom.starting(SIGNER, NOWHERE) as started:
        reply, headers = get(shop.url, path)
    gap = REPLIES[path][version == "1.1"]
    is_missing_end = reply[2].startswith("IncompleteRead") and "n=40000" in path
    assert reply[:2] == plain[:2] and (bool(reply[2]) == bool(plain[2]) if is_missing_end else reply == plain)
    for name in ("content-type", "server", "connection"):
        assert headers.get(name) == plain_headers.get(name)
    assert not [name for name in headers if "faultloom" in name and name != "vary"]
    end = ("replied", reply[0]) if reply[0] else ("failed", 14)
    assert started.history is not None
    assert ends(started.history.segment) == [(*end, gap, None if gap else "shop")]


@pytest.mark.parametrize("path", ["/fan?n=300", "/fan?n=300&lines=100000", "/stream?n=2&fan=300", "/stream?n=9000&fan=300", "/stream?n=9000&fan=300&close"])
def test_a_long_history_has_a_tail(peers: Any, shop: Any, version: str, path: str) -> None:
    segment, reply = get_traced(shop.url + path, NOWHERE)
    assert len(segment.events) == 601 and not segment.truncated
    text = b"".join(b"line %d of a stream\n" % number for number in range(9000 if "9000" in path else 2))
    assert reply.content == (text if "stream" in path else b"line\n" * (100_000 if "lines" in path else 1))


@pytest.mark.parametrize("method", ["HEAD", "GET"])
def test_a_reply_that_may_not_have_a_tail_has_a_header(shop: Any, method: str) -> None:
    with faultloom.starting(SIGNER, NOWHERE) as started:
        reply = requests.request(method, shop.url + "/fan?n=300&status=" + ("200" if method == "HEAD" else "201"), timeout=10)
    assert started.history is not None
    child = started.history.segment.events[1].child
    assert child is not None and child.truncated and reply.content == (b"" if method == "HEAD" else b"line\n")


def test_calls_are_traced_named_and_faulted(peers: Any, shop: Any, version: str) -> None:
    back = peers("handler_app", version, service="back")
    plan = [Fault("unavailable", Selector("shop", "", "GET /cart/{id}"))]
    for faults, body, end in (
        (None, b"via:cart", ("replied", 200, False, "back")),
        (plan, b"via:ConnectionRefusedError", ("failed", 14, False, None)),
        (None, b"via:cart", ("replied", 200, False, "back")),
    ):
        segment, reply = get_traced(f"{shop.url}/chain?url={back.url}/cart/17", faults)
        assert reply.content == body and ends(segment) == [end] and segment.name == "GET /chain"


def test_an_event_stream_is_never_held_back(shop: Any) -> None:
    begun = time.monotonic()
    with faultloom.starting(SIGNER) as started, requests.get(shop.url + "/events?wait", stream=True, timeout=5) as reply:
        assert next(reply.iter_lines()) == b"data: first" and time.monotonic() - begun < 1.5
    assert started.history is not None and ends(started.history.segment) == [("replied", 200, True, None)]


@pytest.mark.parametrize("framing", ["length", "chunks", "close"])
@pytest.mark.parametrize("arguments", [("1.0",), ("1.1",), ("1.1", "8192")])
def test_a_handler_may_wait_for_what_its_caller_does_with_a_part_that_it_flushes(peers: Any, arguments: Any, framing: str) -> None:
    if framing == "chunks" and arguments == ("1.0",):
        framing = "length"
    shop = peers("handler_app", *arguments, service="shop")

    def talk() -> Any:
        with requests.get(f"{shop.url}/turns?{framing}=1", stream=True, timeout=8) as reply:
            first = reply.raw.read(6)
            requests.get(shop.url + "/turn", timeout=8)
            return first + reply.raw.read()

    assert talk() == b"first\nturned"
    with faultloom.starting(SIGNER) as started:
        assert talk() == b"first\nturned"
    # a body of HTTP/1.0 with a declared length cannot have a tail
    turns = (True, None) if (arguments, framing) == (("1.0",), "length") else (False, "shop")
    assert started.history is not None
    assert ends(started.history.segment) == [("replied", 200, *turns), ("replied", 200, False, "shop")]


def test_a_flush_of_a_complete_body_keeps_its_history_in_a_header(shop: Any) -> None:
    assert b"x-faultloom-history: " in exchange(shop, "/flushed")


def test_a_connection_is_kept_after_replies_of_all_kinds(peers: Any) -> None:
    shop = peers("handler_app", "1.1", service="shop")
    connection = http.client.HTTPConnection(shop.address, timeout=10)
    used, bodies = set(), []
    with faultloom.starting(SIGNER, NOWHERE) as started:
        for path in ("/echo", "/stream?n=9000", "/big?n=80000", "/file", "/fan?n=100", "/status/204", "/socket", "/echo"):
            connection.request("POST" if path == "/echo" else "GET", path, b"own" if path == "/echo" else None)
            used.add(connection.sock)
            bodies.append(connection.getresponse().read())
    assert len(used) == 1 and [len(body) for body in bodies] == [3, 196_890, 80_000, 100_000, 5, 0, 6, 3]
    assert started.history is not None
    assert [end[2:] for end in ends(started.history.segment)] == [(False, "shop")] * 6 + [(True, None), (False, "shop")]


def exchange(shop: Any, path: str, *headers: str) -> bytes:
    """The bytes of a reply to a request with an envelope."""
    with socket.create_connection(tuple(shop.address.split(":")), timeout=10) as connection:
        lines = [f"GET {path} HTTP/1.1", "Host: shop", "Connection: close", *headers, "X-Faultloom: " + SIGNER.header(accept=2), "", ""]
        connection.sendall("\r\n".join(lines).encode())
        return b"".join(iter(lambda: connection.recv(65536), b""))


def test_a_buffered_file_is_traced(peers: Any) -> None:
    shop = peers("handler_app", "1.1", "8192", service="shop")
    for path, size in (("/echo", 5), ("/big?n=80000", 80_000), ("/stream?n=9000", 196_890)):
        segment, reply = get_traced(shop.url + path)
        assert len(reply.content) == size and segment.service == "shop"


def test_an_interim_reply_comes_before_the_final_one(shop: Any, version: str) -> None:
    interim, final, body = exchange(shop, "/interim").split(b"\r\n\r\n")
    assert interim.startswith(b"HTTP/%b 103 " % version.encode()) and b"faultloom" not in interim.lower()
    assert b" 200 OK\r\n" in final and b"x-faultloom-history: " in final and body == b"final"


def test_requests_for_another_protocol_are_unchanged(shop: Any) -> None:
    assert b"faultloom" not in exchange(shop, "/echo", "Upgrade: websocket").lower()
    assert b"x-faultloom-history" in exchange(shop, "/echo", "Upgrade: h2c")


def test_bytes_that_are_no_chunks_reach_the_caller(shop: Any) -> None:
    head, _, body = exchange(shop, "/chunks").partition(b"\r\n\r\n")
    assert b"x-faultloom-reply: gap" in head and body == b"5\r\nhello\r\nnonsense\r\n"


@pytest.mark.parametrize("path", ["/stream?n=9000", "/stream?n=10&fan=100"])
def test_trailers_reach_the_caller(peers: Any, path: str) -> None:
    """After the tail of a body that is sent in parts, and of one that was held back."""
    reply = exchange(peers("handler_app", "1.1", service="shop"), path)
    head, _, rest = reply.partition(b"\r\n\r\n")
    body = Chunks()
    assert b"x-faultloom-reply: tail" in head and body.feed(rest).startswith(b"line 0 ") and body.is_complete
    assert body.end == b"0\r\nX-Lines: %d\r\n\r\n" % (int(path.partition("n=")[2].partition("&")[0]) - 1)


# -- chunks


@given(st.lists(st.binary(min_size=1, max_size=40)), st.lists(st.integers(1, 30)), st.sampled_from([b"", b"A: b\r\n", b"A: b\r\nC: d\r\n"]))
def test_chunks_are_read_in_pieces_of_any_size(parts: List[bytes], sizes: List[int], trailers: bytes) -> None:
    end = b"0\r\n" + trailers + b"\r\n"
    encoded, found, body = b"".join(map(chunk, parts)) + end, Chunks(), b""
    while encoded:
        size = sizes.pop() if sizes else 1000
        assert not found.is_complete
        body += found.feed(encoded[:size])
        encoded = encoded[size:]
    assert body == b"".join(parts) and found.is_complete and found.end == end


@pytest.mark.parametrize("data", [b"x\r\n", b"-1\r\nab", b"1\r\nabc", b"1\r\na\rb", b"0\r\n\r\nmore", b"1" * 9000, b"0\r\nA: " + b"b" * 9000])
def test_other_bytes_are_no_chunks(data: bytes) -> None:
    with pytest.raises(ValueError, match=r".+"):
        Chunks().feed(data)
