"""HTTP: headers, tails and gaps between SDK and stock peers; bodies that the application does not read to their end."""

from __future__ import annotations

import asyncio
import gzip
import http.client
import http.server
import io
import threading
import urllib.request

import aiohttp
import httpx
import pytest
import requests
import urllib3
from conftest import SIGNER, child_of, ends

import faultloom
from faultloom import Fault, Selector
from faultloom.wire.carriers import encode_tail

NOWHERE = [Fault("unavailable", Selector(callee="nowhere"))]


def get_requests(url, **headers):
    reply = requests.get(url, headers=headers, timeout=20)
    return reply.status_code, reply.content, {k.lower(): v for k, v in reply.headers.items()}


def get_urllib3(url, **headers):
    reply = urllib3.PoolManager().request("GET", url, headers=headers)
    return reply.status, reply.data, {k.lower(): v for k, v in reply.headers.items()}


def get_urllib(url, **headers):
    with urllib.request.urlopen(urllib.request.Request(url, headers=headers), timeout=20) as reply:
        return reply.status, reply.read(), {k.lower(): v for k, v in reply.headers.items()}


def get_httpx(url, **headers):
    reply = httpx.get(url, headers=headers, timeout=20)
    return reply.status_code, reply.content, dict(reply.headers)


def get_httpx_async(url, **headers):
    async def run():
        async with httpx.AsyncClient(timeout=20) as client:
            reply = await client.get(url, headers=headers)
            return reply.status_code, reply.content, dict(reply.headers)

    return asyncio.run(run())


def get_aiohttp(url, **headers):
    async def run():
        async with aiohttp.ClientSession() as session, session.get(url, headers=headers) as reply:
            return reply.status, await reply.read(), {k.lower(): v for k, v in reply.headers.items()}

    return asyncio.run(run())


CLIENTS = pytest.mark.parametrize("client", [get_requests, get_urllib3, get_urllib, get_httpx, get_httpx_async, get_aiohttp])


@CLIENTS
def test_a_small_history_is_in_a_header_that_is_removed(peers, client):
    front = peers("flask_app", service="front")
    with faultloom.starting(SIGNER) as started:
        status, body, headers = client(front.url + "/cart/17/a/b?x=1")
    assert status == 200 and b'"rest":"a/b"' in body and headers["content-length"] == str(len(body))
    assert not any(name.startswith("x-faultloom") for name in headers)
    assert headers["cache-control"] == "no-store, no-transform" and "x-faultloom" in headers["vary"]
    assert ends(started.history.segment) == [("replied", 200, False, "front")]
    assert child_of(started.history.segment).name == "GET /cart/{id}/{*rest}"
    assert started.history.segment.events[0].name == "GET /cart/{id}/a/b"


@CLIENTS
@pytest.mark.parametrize("size", [0, 8, 32_768, 40_000, 4_194_304, 9_000_000])
def test_bodies_of_any_size_arrive_whole_with_a_history(peers, client, size):
    front = peers("flask_app", service="front")
    with faultloom.starting(SIGNER) as started:
        status, body, _ = client(f"{front.url}/big?n={size}")
    assert status == 200 and body == b"abcdefgh" * (size // 8)
    assert ends(started.history.segment) == [("replied", 200, False, "front")]


@CLIENTS
@pytest.mark.parametrize("lines", [1, 100_000])
def test_5000_events_come_back_in_a_tail(peers, client, lines):
    front = peers("flask_app", service="front")
    with faultloom.starting(SIGNER, NOWHERE) as started:
        _, body, headers = client(f"{front.url}/fan?n=2500&lines={lines}")
    assert body == b"line\n" * lines
    child = child_of(started.history.segment)
    assert len(child.events) == 5001 and not child.truncated and set(ends(child)) == {("failed", 14, False, None)}


@CLIENTS
def test_a_client_that_accepts_another_coding_does_not_accept_tails(peers, client):
    front = peers("flask_app", service="front")
    with faultloom.starting(SIGNER, NOWHERE) as started:
        assert client(front.url + "/fan?n=2500", **{"Accept-Encoding": "gzip, br"})[1] == b"line\n"
    assert child_of(started.history.segment).truncated
    with faultloom.starting(SIGNER) as started:
        assert len(client(front.url + "/big?n=80000", **{"Accept-Encoding": "gzip, br"})[1]) == 80000
    assert ends(started.history.segment) == [("replied", 200, True, None)]


@CLIENTS
def test_an_error_has_its_complete_history(peers, client):
    front = peers("flask_app", service="front")
    with faultloom.starting(SIGNER, NOWHERE) as started:
        try:
            status = client(front.url + "/fan?n=2500&status=503")[0]
        except urllib.error.HTTPError as error:
            status = error.code
            error.read()  # the history is behind the body
    child = child_of(started.history.segment)
    assert status == 503 and not child.truncated and len(child.events) == 5001


@CLIENTS
def test_a_success_other_than_200_truncates_its_history_into_the_header(peers, client):
    front = peers("flask_app", service="front")
    with faultloom.starting(SIGNER, NOWHERE) as started:
        assert client(front.url + "/fan?n=2500&status=201")[0] == 201
    assert child_of(started.history.segment).truncated


@pytest.mark.parametrize("path", ["/status/204", "/status/304", "/status/404", "/no/such/12345", "/boom"])
def test_every_status_has_its_history(peers, path):
    front = peers("flask_app", service="front")
    with faultloom.starting(SIGNER) as started:
        status = requests.get(front.url + path, timeout=5).status_code
    assert ends(started.history.segment) == [("replied", status, False, "front")]
    if path.startswith("/no"):
        assert child_of(started.history.segment).name == "GET /no/such/{id}"


def test_head_has_a_header_and_no_tail(peers):
    front = peers("flask_app", service="front")
    with faultloom.starting(SIGNER, NOWHERE) as started:
        reply = requests.head(front.url + "/fan?n=2500", timeout=20)
    assert reply.status_code == 200 and not reply.content and child_of(started.history.segment).truncated


def test_a_range_has_no_tail(peers):
    front = peers("flask_app", service="front")
    with faultloom.starting(SIGNER, NOWHERE) as started:
        reply = requests.get(front.url + "/file?fan=500", headers={"Range": "bytes=10-19"}, timeout=20)
    assert reply.status_code == 206 and reply.content == b"0123456789"
    assert child_of(started.history.segment).truncated


def test_a_generated_body_gets_its_tail_and_its_handler_runs_in_the_scope(peers):
    front = peers("flask_app", service="front")
    with faultloom.starting(SIGNER, NOWHERE) as started:
        body = requests.get(front.url + "/stream?n=5000&fan=2", timeout=20).text
    assert body.startswith("line 0") and body.endswith("line 4999 of a stream\n")
    assert ends(child_of(started.history.segment)) == [("failed", 14, False, None)] * 2


@pytest.mark.parametrize("client", ["requests", "httpx"])
def test_an_event_stream_is_never_held_back(peers, client):
    import time

    front = peers("flask_app", service="front")
    begun = time.monotonic()
    with faultloom.starting(SIGNER) as started:
        if client == "requests":
            with requests.get(front.url + "/events", stream=True, timeout=5) as reply:
                first = next(reply.iter_lines())
        else:
            with httpx.stream("GET", front.url + "/events", timeout=5) as reply:
                first = next(reply.iter_lines()).encode()
    assert first == b"data: first" and time.monotonic() - begun < 1.5
    assert ends(started.history.segment) == [("replied", 200, True, None)]


@pytest.mark.parametrize("how", ["close", "never read", "some"])
def test_a_caller_that_stops_reading_has_a_gap_and_a_working_connection_pool(peers, how):
    front = peers("flask_app", service="front")
    pool = urllib3.PoolManager()
    with faultloom.starting(SIGNER, NOWHERE) as started:
        reply = pool.request("GET", front.url + "/fan?n=100&lines=2000000", preload_content=False)
        if how == "some":
            assert reply.read(10) == b"line\nline\n"
        if how != "never read":
            reply.close()
        assert len(pool.request("GET", front.url + "/echo").data) == 5
    assert ends(started.history.segment) == [("replied", 200, True, None), ("replied", 200, False, "front")]


def test_a_caller_that_closes_an_httpx_stream_has_a_gap(peers):
    front = peers("flask_app", service="front")
    with faultloom.starting(SIGNER, NOWHERE) as started:
        with httpx.stream("GET", front.url + "/fan?n=100&lines=2000000") as reply:
            assert next(reply.iter_bytes(10)) == b"line\nline\n"
    assert ends(started.history.segment) == [("replied", 200, True, None)]


def test_keep_alive_works_after_a_tail():
    """One connection to an HTTP/1.1 server whose replies have tails, chunked or with a length."""
    from conftest import trust_text

    from faultloom.scope.scope import Scope
    from faultloom.trust.receiver import Receiver
    from faultloom.trust.settings import TrustSettings

    trust = TrustSettings.parse(trust_text())
    connections = set()

    class Handler(http.server.BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self):
            connections.add(self.client_address)
            scope = Scope("raw", Receiver(lambda: trust).accept_header(self.headers["x-faultloom"]))
            body = b"body " * 1000 + encode_tail(scope.finish(200))
            self.send_response(200)
            self.send_header("x-faultloom-reply", "tail")
            if "gzip" in self.path:
                body = gzip.compress(body)
                self.send_header("Content-Encoding", "gzip")
            if "chunked" in self.path:
                self.send_header("Transfer-Encoding", "chunked")
                self.end_headers()
                for at in range(0, len(body), 700):
                    part = body[at : at + 700]
                    self.wfile.write(b"%x\r\n%s\r\n" % (len(part), part))
                self.wfile.write(b"0\r\n\r\n")
            else:
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

        def log_message(self, *args):
            pass

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    threading.Thread(target=server.serve_forever, daemon=True).start()
    url = f"http://127.0.0.1:{server.server_port}"
    wanted = b"body " * 1000
    try:
        session, client = requests.Session(), httpx.Client()
        plain = http.client.HTTPConnection("127.0.0.1", server.server_port)
        with faultloom.starting(SIGNER) as started:
            for path in ("/length", "/chunked", "/gzip", "/gzip-chunked") * 2:
                for reply in (session.get(url + path), client.get(url + path)):
                    assert reply.content == wanted and ("content-encoding" in reply.headers) == ("gzip" in path)
                assert b"".join(session.get(url + path, stream=True).iter_content(7)) == wanted
                plain.request("GET", path)
                reply = plain.getresponse()
                assert isinstance(reply, http.client.HTTPResponse)
                if "gzip" in path:
                    # http.client decodes nothing, so the application does
                    assert gzip.decompress(reply.read(7) + reply.read()) == wanted
                    continue
                buffer = bytearray(13)
                read = reply.read(3) + reply.read1(4) + bytes(buffer[: reply.readinto(buffer)]) + reply.readline(20)
                lines = list(io.TextIOWrapper(reply)) if path == "/length" else [reply.read().decode()]
                assert read + "".join(lines).encode() == wanted
        assert ends(started.history.segment) == [("replied", 200, False, "raw")] * 32
        assert len(connections) <= 3 + 2  # the reader that wrapped the reply closed its connection
    finally:
        server.shutdown()


def test_a_history_of_another_call_is_a_gap():
    """A caching proxy may return a tail that belongs to another call."""
    foreign = b"\1" + bytes(8) + b"\0\1s\0\1" + b"\4\0\0"

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self):
            self.send_response(200)
            self.send_header("x-faultloom-reply", "tail")
            self.end_headers()
            self.wfile.write(b"cached" + encode_tail(foreign))

        def log_message(self, *args):
            pass

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        with faultloom.starting(SIGNER) as started:
            for get in (get_requests, get_httpx, get_httpx_async, get_aiohttp):
                assert get(f"http://127.0.0.1:{server.server_port}/")[1] == b"cached"
        assert ends(started.history.segment) == [("replied", 200, True, None)] * 4
    finally:
        server.shutdown()


def test_a_body_that_breaks_off_is_returned_before_the_error(peers):
    front = peers("flask_app", service="front")
    with faultloom.starting(SIGNER) as started:
        with urllib.request.urlopen(front.url + "/broken", timeout=5) as reply:
            with pytest.raises(http.client.IncompleteRead) as error:
                reply.read()
    assert error.value.partial == b"x" * 40_000
    assert ends(started.history.segment) == [("replied", 200, True, None)]


@pytest.mark.parametrize("get", [get_httpx, get_httpx_async])
def test_a_body_that_cannot_be_decoded_raises_the_error_of_httpx(get):
    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self):
            self.send_response(200)
            self.send_header("x-faultloom-reply", "tail")
            self.send_header("Content-Encoding", "gzip")
            self.send_header("Content-Length", "3000")
            self.end_headers()
            self.wfile.write(b"x" * 3000)

        def log_message(self, *args):
            pass

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        url = f"http://127.0.0.1:{server.server_port}/"
        with pytest.raises(httpx.DecodingError):
            get(url)
        with faultloom.starting(SIGNER) as started, pytest.raises(httpx.DecodingError) as error:
            get(url)
        assert str(error.value.request.url) == url
        assert [end[:2] for end in ends(started.history.segment)] == [("replied", 200)]
    finally:
        server.shutdown()


@pytest.fixture
def cut_url():
    """A server whose replies announce a tail and end before their declared length."""

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self):
            self.send_response(200)
            self.send_header("x-faultloom-reply", "tail")
            self.send_header("Content-Length", "20")
            self.end_headers()
            self.wfile.write(b"ab\ncdefgh")

        def log_message(self, *args):
            pass

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}/"
        server.shutdown()


READS = {
    "read": [lambda reply: reply.read()] * 3,
    "read, then the rest": [lambda reply: reply.read(4)] + [lambda reply: reply.read()] * 2,
    "read in parts": [lambda reply: reply.read(4)] * 5 + [lambda reply: reply.read()],
    "read1": [lambda reply: reply.read1(4)] * 5 + [lambda reply: reply.read()],
    "readinto": [lambda reply: reply.readinto(bytearray(4))] * 5 + [lambda reply: reply.read()],
    "readline": [lambda reply: reply.readline()] * 4 + [lambda reply: reply.read()],
}


@pytest.mark.parametrize("reads", READS.values(), ids=READS)
def test_a_body_that_ends_early_is_read_like_without_tracing(cut_url, reads):
    def results():
        out = []
        with urllib.request.urlopen(cut_url, timeout=5) as reply:
            for read in reads:
                try:
                    out.append(read(reply))
                except http.client.IncompleteRead as error:
                    out.append((error.partial, error.expected))
        return out

    untraced = results()
    with faultloom.starting(SIGNER) as started:
        assert results() == untraced
    assert ends(started.history.segment) == [("replied", 200, True, None)]


class DerivedConnection(urllib3.connection.HTTPConnection):
    """Libraries such as botocore have connections of their own."""


class DerivedPool(urllib3.HTTPConnectionPool):
    ConnectionCls = DerivedConnection


def test_a_connection_derived_from_urllib3s_raises_urllib3s_exceptions(cut_url):
    pool = DerivedPool("127.0.0.1", int(cut_url.strip("/").rpartition(":")[2]), retries=False, timeout=5)
    with faultloom.starting(SIGNER) as started:
        reply = pool.request("GET", "/", preload_content=False)
        with pytest.raises(urllib3.exceptions.ProtocolError):
            list(reply.stream(4))
    assert ends(started.history.segment) == [("replied", 200, True, None)]
    with faultloom.starting(SIGNER, [Fault("unavailable", Selector())]) as started:
        with pytest.raises(urllib3.exceptions.NewConnectionError):
            pool.request("GET", "/")
    assert ends(started.history.segment) == [("failed", 14, False, None)]


def test_a_callee_without_the_sdk_is_a_gap(peers):
    stock = peers("flask_app", sdk=False)
    with faultloom.starting(SIGNER) as started:
        for get in (get_requests, get_urllib3, get_urllib, get_httpx, get_httpx_async, get_aiohttp):
            assert get(stock.url + "/echo")[1] == b"hello"
            assert len(get(stock.url + "/big?n=5000000")[1]) == 5_000_000
    assert ends(started.history.segment) == [("replied", 200, True, None)] * 12


def test_a_real_refusal_is_a_failure_with_a_gap(own_peer):
    gone = own_peer("flask_app", sdk=False)
    gone.stop()
    with faultloom.starting(SIGNER) as started:
        for get in (get_requests, get_httpx, get_httpx_async, get_aiohttp):
            with pytest.raises((requests.ConnectionError, httpx.ConnectError, aiohttp.ClientConnectorError)):
                get(gone.url + "/echo")
    assert ends(started.history.segment) == [("failed", 14, True, None)] * 4


def test_a_redirect_is_two_calls_and_a_forwarded_envelope_is_replaced(peers):
    front = peers("flask_app", service="front")
    with faultloom.starting(SIGNER) as started:
        for get in (get_requests, get_httpx, get_aiohttp):
            assert get(front.url + "/echo", **{"X-Faultloom": "foreign"})[0] == 200
    assert ends(started.history.segment) == [("replied", 200, False, "front")] * 3


@pytest.mark.parametrize("how", ["here", "thread", "pool"])
def test_a_chain_is_one_tree_through_threads_and_pools(peers, how):
    front, back = peers("flask_app", service="front"), peers("flask_app", service="back")
    url = f"{front.url}/chain?url={back.url}/cart/1/x&how={how}"
    plan = [Fault("unavailable", Selector("front", "", "GET /cart/1/x"))]
    for faults, inner in ((None, ("replied", 200, False, "back")), (plan, ("failed", 14, False, None)), (None, ("replied", 200, False, "back"))):
        with faultloom.starting(SIGNER, faults) as started:
            text = requests.get(url, timeout=5).text
        assert text == ("via:ConnectionError" if faults else 'via:{"id":1,"rest":"x"}\n')
        assert ends(child_of(started.history.segment)) == [inner]


def test_after_nth_and_max_fires_apply_across_services(peers):
    front, back = peers("flask_app", service="front"), peers("flask_app", service="back")
    url = f"{front.url}/chain?url={back.url}/echo"
    second = [Fault("unavailable", Selector("front", back.address, "/echo"), after=(faultloom.After(Selector(call="GET /echo"), 2),))]
    nth = [Fault("unavailable", Selector("front"), nth=2)]
    once = [Fault("unavailable", Selector("front"), max_fires=1)]
    for plan, wanted in ((second, [1, 1, 0]), (nth, [1, 0, 1]), (once, [0, 1, 1])):
        if plan is second:
            plan = [Fault("unavailable", Selector("front"), after=(faultloom.After(Selector("front", "", "GET /echo"), 2),))]
        with faultloom.starting(SIGNER, plan) as started:
            texts = [requests.get(url, timeout=5).text for _ in range(3)]
        assert [int(text == "via:hello") for text in texts] == wanted
        assert started.history is not None
