"""FastAPI and Starlette under uvicorn and hypercorn: traced, faulted, and named by the templates of their routes."""

from __future__ import annotations

import asyncio
import ssl
from pathlib import Path
from typing import Any, Dict, List

import httpx
import pytest
import requests
from conftest import APPS, SIGNER, child_of, ends, get_traced, trust_text

import faultloom
from faultloom import Fault, Selector, decode_history
from faultloom.asgi import Middleware
from faultloom.hooks import process as hook_process
from faultloom.hooks.http.starlette import plain
from faultloom.scope.current import current_scope
from faultloom.wire.carriers import cut_tail
from faultloom.wire.envelope import decode_header


@pytest.fixture(params=[(), ("hypercorn",)], ids=["uvicorn", "hypercorn"])
def serve(request: Any, peers: Any) -> Any:
    """Starts the application on a server, given its service name."""
    return lambda service: peers("fastapi_app", *request.param, service=service)


def test_paths_of_starlette_as_templates() -> None:
    assert plain("/a/{b}/{c:int}/{d:path}") == "/a/{b}/{c}/{*d}"


@pytest.mark.parametrize(
    ("path", "name", "status"),
    [
        ("/product/OLJCESPC7Z?x=1", "/product/{id}", 200),
        ("/api/cart/ann/items/3", "/api/cart/{user}/items/{number}", 200),
        ("/api/cart/ann/nested/x/y/z/1", "/api/cart/{user}/nested/{a}/{b}/{*rest}", 200),
        ("/files/a/b/c", "/files/{*name}", 200),
        ("/v1/acme/shop/orders/17", "/v1/{tenant}/shop/orders/{id}", 200),
        ("/v1/acme/none/17", "/v1/acme/none/{id}", 404),
        ("/static/none/17", "/static/none/{id}", 404),
        ("/none/17", "/none/{id}", 404),
        ("/boom/17", "/boom/{id}", 500),
    ],
)
def test_routes_name_calls(serve: Any, path: str, name: str, status: int) -> None:
    segment, reply = get_traced(serve("shop").url + path)
    assert (reply.status_code, segment.service, segment.name) == (status, "shop", f"GET {name}")


@pytest.mark.parametrize("path", ["chain", "threaded"])
def test_calls_of_both_kinds_of_endpoints_are_traced_and_faulted(serve: Any, peers: Any, path: str) -> None:
    front, back = serve("front"), peers("flask_app", service="back")
    plan = [Fault("empty-reply", Selector("front", "", "GET /echo"))]
    for faults, body in ((None, "via:hello"), (plan, "via:"), (None, "via:hello")):
        segment, reply = get_traced(f"{front.url}/{path}?url={back.url}/echo", faults)
        assert reply.text == body and ends(segment) == [("replied", 200, False, "back")]


def test_a_callee_is_faulted_by_its_template(serve: Any) -> None:
    plan = [Fault("status", Selector(call="GET /product/{id}"), arg=503)]
    with faultloom.starting(SIGNER, plan):
        assert requests.get(serve("shop").url + "/product/a", timeout=10).status_code == 503


@pytest.mark.parametrize(("path", "gap"), [("/stream?n=3", False), ("/stream?n=9000", False), ("/file", False), ("/later", False), ("/events", True)])
def test_replies_keep_their_bytes(serve: Any, path: str, gap: bool) -> None:
    url = serve("shop").url + path
    plain_reply = requests.get(url, timeout=10)
    with faultloom.starting(SIGNER) as started:
        reply = requests.get(url, timeout=10)
    assert reply.content == plain_reply.content and reply.headers["content-type"] == plain_reply.headers["content-type"]
    assert not [name for name in (*reply.headers, *plain_reply.headers) if "faultloom" in name.lower()]
    assert started.history is not None
    assert ends(started.history.segment) == [("replied", 200, gap, None if gap else "shop")]
    if path == "/file":
        assert reply.content == (Path(APPS) / "fastapi_app.py").read_bytes()


def test_a_long_history_has_a_tail(peers: Any) -> None:
    back = peers("flask_app", service="back")
    segment, reply = get_traced(f"{peers('fastapi_app', service='shop').url}/fan?n=40&url={back.url}/echo")
    assert reply.text == "fan" and len(ends(segment)) == 40 and not segment.truncated


def test_a_stream_that_breaks_is_a_gap(serve: Any) -> None:
    with faultloom.starting(SIGNER) as started:
        with pytest.raises(requests.RequestException):
            requests.get(serve("shop").url + "/broken", timeout=10)
    assert started.history is not None and ends(started.history.segment)[0][2]


@pytest.mark.parametrize("http2", [False, True])
def test_hypercorn_serves_https_and_http_2(peers: Any, certificate: Any, http2: bool) -> None:
    shop = peers("fastapi_app", "hypercorn", *certificate, service="shop")
    url = shop.url.replace("http://", "https://")
    context = ssl.create_default_context(cafile=certificate[1])
    with faultloom.starting(SIGNER) as started, httpx.Client(http2=http2, verify=context) as client:
        replies = [client.get(url + path) for path in ("/product/a", "/stream?n=9000", "/none/17")]
    assert [reply.http_version for reply in replies] == ["HTTP/2" if http2 else "HTTP/1.1"] * 3
    assert replies[1].text == "".join(f"line {i}\n" for i in range(9000))
    assert started.history is not None
    assert ends(started.history.segment) == [("replied", 200, False, "shop")] * 2 + [("replied", 404, False, "shop")]
    assert child_of(started.history.segment).name == "GET /product/{id}"


def test_untraced_requests_are_unchanged(serve: Any) -> None:
    reply = requests.get(serve("shop").url + "/product/a", timeout=10)
    assert reply.text == "product" and reply.headers["cache-control"] == "max-age=60"


START = {"type": "http.response.start", "status": 200, "headers": [(b"content-type", b"text/plain")]}


def body(data: bytes, more: bool = False) -> Dict[str, Any]:
    return {"type": "http.response.body", "body": data, "more_body": more}


class Served:
    """What a server gets from an application that sends these messages, and fails after them if there is an error."""

    def __init__(self, *messages: Any, method: str = "GET", accept: int = 2, error: Any = None, envelope: str = "", headers: Any = ()) -> None:
        self.sent: List[Any] = []
        self.scopes: List[Any] = []
        self.extensions: Any = None

        async def app(scope: Any, receive: Any, send: Any) -> None:
            self.extensions = scope.get("extensions")
            self.scopes.append(current_scope())
            for message in messages:
                await send(message)
            self.scopes.append(current_scope())
            if error is not None:
                raise error

        async def send(message: Any) -> None:
            self.sent.append(message)

        own = (b"x-faultloom", (envelope or SIGNER.header(accept=accept)).encode())
        scope = {"type": "http", "method": method, "path": "/thing/12", "headers": [own, *headers], "extensions": {"http.response.pathsend": {}}}
        asyncio.run(Middleware(app)(scope, None, send))
        self.headers = {name.decode(): value.decode() for name, value in self.sent[0]["headers"]}
        self.body = b"".join(message.get("body", b"") for message in self.sent[1:])


@pytest.fixture
def trusted(monkeypatch: Any) -> None:
    monkeypatch.setenv("FAULTLOOM_TRUST", trust_text().replace("\n", ";"))
    monkeypatch.setattr(hook_process, "_process", None)


def test_a_reply_in_parts_has_the_history_in_a_header(trusted: None) -> None:
    served = Served(START, body(b"one", True), body(b"two"))
    history = decode_history(decode_header(served.headers["x-faultloom-history"]))
    assert served.body == b"onetwo" and history.segment.name == "GET /thing/{id}" and served.extensions == {}
    assert served.scopes[0] is not None and served.scopes[1] is None and not served.sent[-1]["more_body"]


def test_a_long_reply_has_a_tail(trusted: None) -> None:
    served = Served({**START, "headers": [(b"content-length", b"50000")]}, body(b"x" * 40_000, True), body(b"y" * 10_000))
    data, history = cut_tail(served.body)
    assert served.headers["x-faultloom-reply"] == "tail" and "content-length" not in served.headers
    assert data == b"x" * 40_000 + b"y" * 10_000 and history is not None and [m["more_body"] for m in served.sent[1:]] == [True, False]


@pytest.mark.parametrize("options", [{"accept": 0}, {"method": "HEAD"}, {"headers": [(b"range", b"bytes=0-1")]}])
def test_a_long_reply_that_may_not_have_a_tail_is_a_gap(trusted: None, options: Any) -> None:
    served = Served(START, body(b"x" * 40_000, True), body(b""), **options)
    assert served.headers["x-faultloom-reply"] == "gap" and served.body == b"x" * 40_000


def test_an_event_stream_passes_part_by_part(trusted: None) -> None:
    start = {**START, "headers": [(b"content-type", b"text/event-stream")]}
    served = Served(start, body(b"data: 1\n\n", True), body(b"data: 2\n\n", True), body(b""))
    assert served.headers["x-faultloom-reply"] == "gap"
    assert [m["body"] for m in served.sent[1:]] == [b"data: 1\n\n", b"data: 2\n\n", b""]


def test_other_messages_pass_after_the_headers(trusted: None) -> None:
    served = Served(START, {"type": "http.response.trailers", "headers": []})
    assert served.headers["x-faultloom-reply"] == "gap" and [m["type"].rpartition(".")[2] for m in served.sent] == ["start", "body", "trailers"]


def test_a_failing_application_fails_and_its_scope_ends(trusted: None) -> None:
    with pytest.raises(RuntimeError, match="broken"):
        Served(START, body(b"x", True), error=RuntimeError("broken"))
    assert current_scope() is None


def test_a_refused_envelope_changes_nothing(trusted: None) -> None:
    served = Served(START, body(b"x"), envelope="AQ")
    assert served.sent == [START, body(b"x")] and served.scopes == [None, None] and served.extensions
