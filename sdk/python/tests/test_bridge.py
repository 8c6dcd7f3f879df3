"""Services that support OpenTelemetry only: they forward the envelope, are a gap, and faults of their callees fire."""

from __future__ import annotations

import asyncio
from urllib.parse import quote

import grpc
import httpx
import pytest
import requests
from collector import Collector
from conftest import SIGNER, ends, until

import faultloom
from faultloom import Fault, Selector
from faultloom.wire.bridge import BAGGAGE_BYTES, add_to_baggage, extract_bridge, parse_traceparent

PARENT = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"


@pytest.fixture
def collector():
    collector = Collector()
    yield collector
    collector.stop()


def otel_hop(peer, app, *arguments):
    pytest.importorskip("opentelemetry.instrumentation.grpc", reason="opentelemetry is not installed: the bridge over it is not tested")
    return peer("otel_app", app, *arguments, sdk=False)


def attributes(span):
    return {attribute["key"]: next(iter(attribute["value"].values())) for attribute in span["attributes"]}


def http_get(client, url):
    return client.get(url, timeout=10).text


@pytest.mark.parametrize("client", [requests, httpx], ids=["requests", "httpx"])
def test_a_fault_fires_after_an_http_service_that_supports_opentelemetry_only(own_peer, peers, collector, client):
    leaf = peers("flask_app", service="leaf")
    front = own_peer("flask_app", service="front", FAULTLOOM_PEERS=f"{leaf.address}=leaf", FAULTLOOM_EXPORT=collector.url)
    hop = otel_hop(peers, "flask_app")
    inner = f"{front.url}/chain?url=" + quote(f"{leaf.url}/echo")
    url = f"{hop.url}/chain?url=" + quote(inner)
    plan = [Fault("reset", Selector("front", "leaf"))]
    for number, (faults, text) in enumerate(((None, "hello"), (plan, "ConnectionError"), (None, "hello")), 1):
        with faultloom.starting(SIGNER, faults, bridge=True) as started:
            assert http_get(client, url) == f"via:via:{text}"
        # the callee behind the service has exported its history
        assert ends(started.history.segment) == [("replied", 200, True, None)]
        trace = started.scope.envelope.trace.hex()
        spans = until(lambda: [span for span in collector.of("front") if span["traceId"] == trace])
        assert len(spans) == 2, (number, spans)
        server, client_span = spans
        assert server["kind"] == 2 and client_span["parentSpanId"] == server["spanId"] and "parentSpanId" in server
        assert attributes(client_span)["peer.service"] == "leaf"
        assert attributes(client_span).get("faultloom.fault") == ("0" if faults else None)


@pytest.mark.parametrize("mode", [(), ("aio",)], ids=["sync", "aio"])
def test_a_fault_fires_after_a_grpc_service_that_supports_opentelemetry_only(own_peer, peers, mode):
    leaf = peers("grpc_app", service="leaf")
    front = own_peer("grpc_app", *mode, service="front", FAULTLOOM_PEERS=f"{leaf.address}=leaf")
    hop = otel_hop(peers, "grpc_app", *mode)
    request = f"{front.address} {leaf.address}".encode()
    for faults in (None, [Fault("unavailable", Selector("front", "leaf"))], None):
        with faultloom.starting(SIGNER, faults, bridge=True) as started:
            with grpc.insecure_channel(hop.address) as channel:
                relay = channel.unary_unary("/t.T/Relay")
                if faults is None:
                    assert relay(request, timeout=10) == b"via:via:relayed"
                else:
                    with pytest.raises(grpc.RpcError):
                        relay(request, timeout=10)
        assert ends(started.history.segment) == [("replied", 2 if faults else 0, True, None)]


def test_the_envelope_passes_a_grpc_service_in_baggage(own_peer, peers, collector):
    front = own_peer("grpc_app", service="front", FAULTLOOM_EXPORT=collector.url)
    for mode in ((), ("aio",)):
        hop = otel_hop(peers, "grpc_app", *mode)
        with faultloom.starting(SIGNER, bridge=True) as started:
            with grpc.insecure_channel(hop.address) as channel:
                assert channel.unary_unary("/t.T/Chain")(front.address.encode(), timeout=10) == b"via:chained"
        trace = started.scope.envelope.trace.hex()
        (server, *_) = until(lambda: [span for span in collector.of("front") if span["traceId"] == trace])
        assert server["name"] == "/t.T/Echo" and attributes(server)["rpc.grpc.status_code"] == "0"


def test_without_the_permission_only_the_envelope_is_sent(peers, own_peer):
    hop = otel_hop(own_peer, "flask_app")
    front = peers("flask_app", service="front")
    for bridge, texts in ((False, "via:via:hello"), (True, "via:via:ConnectionError")):
        with faultloom.starting(SIGNER, [Fault("reset", Selector("front"))], bridge=bridge):
            assert http_get(requests, f"{hop.url}/chain?url=" + quote(f"{front.url}/chain?url={front.url}/echo")) == texts


class HeaderRecorder:
    """A plain HTTP server that records the headers of its requests."""

    def __init__(self):
        import threading
        from http.server import BaseHTTPRequestHandler, HTTPServer

        outer = self
        self.requests = []

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self):
                outer.requests.append(self.headers)
                self.send_response(204)
                self.end_headers()

            def log_message(self, *_):
                pass

        self.server = HTTPServer(("127.0.0.1", 0), Handler)
        threading.Thread(target=self.server.serve_forever, daemon=True).start()
        self.url = f"http://127.0.0.1:{self.server.server_address[1]}/"


@pytest.mark.parametrize("client", [requests, httpx], ids=["requests", "httpx"])
def test_headers_of_the_application_are_kept(client):
    recorder = HeaderRecorder()
    headers = {"traceparent": PARENT, "baggage": "a=1,faultloom=old,b=2;p"}
    with faultloom.starting(SIGNER, bridge=True) as started:
        client.get(recorder.url, headers=headers)
        client.get(recorder.url)
    recorder.server.shutdown()
    recorder.server.server_close()
    first, second = recorder.requests
    assert first.get_all("traceparent") == [PARENT]
    (baggage,) = first.get_all("baggage")
    assert baggage.startswith("a=1,b=2;p,faultloom=") and baggage.count("faultloom") == 1
    parent = parse_traceparent(second["traceparent"])
    assert parent.trace == started.scope.envelope.trace and second["baggage"] == f"faultloom={second['x-faultloom']}"


def test_metadata_of_the_application_is_kept():
    from faultloom.hooks.grpc import status as grpc_status
    from faultloom.scope.scope import Scope
    from faultloom.wire.envelope import Envelope, encode_accepts

    envelope = Envelope(SIGNER.sign(bridge=True), b"t" * 16, None, 0, "f1", "e", True, True, None, 7, 0, 0, [])
    scope = Scope("s", envelope)
    send = scope.begin_call(False, "p", "/s/M", encode_accepts(0, 0))
    own = (("own", "1"), ("traceparent", ""), ("baggage", "a=1"), ("baggage", "b=2"))
    out = grpc_status.outgoing_metadata(own, scope, send)
    assert out[0] == ("own", "1") and dict(out)["baggage"].startswith("a=1,b=2,faultloom=")
    assert dict(out)["traceparent"] == f"00-{(b't' * 16).hex()}-{send.id:016x}-01"


def test_full_baggage_is_unchanged():
    full = "a=" + "x" * (BAGGAGE_BYTES - 100)
    assert add_to_baggage(full, "e" * 200) == full and add_to_baggage("", "e") == "faultloom=e"


def test_a_bridged_request_is_answered_without_a_history(peers):
    front = peers("flask_app", service="front")
    headers = {"traceparent": PARENT, "baggage": f"faultloom={SIGNER.header(accept=2)};p=1"}
    reply = requests.get(front.url + "/echo", headers=headers, timeout=5)
    assert not any(name.lower().startswith("x-faultloom") for name in reply.headers) and reply.headers["cache-control"] == "max-age=60"
    back = peers("grpc_app", service="back")
    metadata = tuple(headers.items())
    with grpc.insecure_channel(back.address) as channel:
        message, call = channel.unary_unary("/t.T/Echo").with_call(b"x", metadata=metadata)
        assert message == b"x" and not call.trailing_metadata()
        stream = channel.unary_stream("/t.T/Stream")(b"2", metadata=metadata)
        assert list(stream) == [b"0", b"1"] and not stream.trailing_metadata()


def test_a_bridged_plan_is_not_used_twice_for_one_call(peers):
    front = peers("flask_app", service="front")
    baggage = f"faultloom={SIGNER.header([Fault('reset', Selector('front'))])}"
    texts = []
    for parent in ("00f067aa0ba902b7", "00f067aa0ba902b7", "00f067aa0ba902b8"):
        headers = {"traceparent": f"00-{'1' * 32}-{parent}-01", "baggage": baggage}
        texts.append(requests.get(f"{front.url}/chain?url={front.url}/echo", headers=headers, timeout=5).text)
    assert texts == ["via:ConnectionError", "via:hello", "via:ConnectionError"]


def test_baggage_without_a_valid_traceparent_is_not_used():
    assert extract_bridge(PARENT, " faultloom = abc ; x") == ("abc", 0xB7AD6B7169203331)
    for parent in ("", PARENT.upper(), PARENT[:-1], PARENT + "-x", PARENT.replace("b7ad6b7169203331", "0" * 16), "ff" + PARENT[2:]):
        assert extract_bridge(parent, "faultloom=abc") is None, parent
    assert extract_bridge("01" + PARENT[2:] + "-more", "faultloom=abc") is not None


def test_asyncio_calls_use_the_bridge(own_peer, peers, collector):
    front = own_peer("grpc_app", service="front", FAULTLOOM_EXPORT=collector.url)
    hop = otel_hop(peers, "grpc_app")

    async def run():
        async with grpc.aio.insecure_channel(hop.address) as channel:
            return await channel.unary_unary("/t.T/Chain")(front.address.encode(), timeout=10)

    with faultloom.starting(SIGNER, bridge=True) as started:
        assert asyncio.run(run()) == b"via:chained"
    trace = started.scope.envelope.trace.hex()
    assert until(lambda: [span for span in collector.of("front") if span["traceId"] == trace])
