"""Services that sample requests: exported once, without an effect on replies."""

from __future__ import annotations

import os
import random
import signal
import socket
import subprocess
import sys
import textwrap
import time

import grpc
import pytest
import requests
from collector import Collector
from conftest import ENVIRONMENT, FAULT_KEY, SIGNER, SOURCE, TRACE_KEY, clean_environment, ends, trust_text, until

import faultloom
from faultloom.entry.endpoint import parse_endpoint
from faultloom.entry.exporter import BATCH_MAX, QUEUE_MAX, Exporter
from faultloom.entry.sampler import Sampler
from faultloom.trust.settings import TrustSettings
from faultloom.wire.otlp import TracedHistory, otlp_request

PARENT = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"


@pytest.fixture
def collector():
    collector = Collector()
    yield collector
    collector.stop()


def attributes(span):
    return {attribute["key"]: next(iter(attribute["value"].values())) for attribute in span["attributes"]}


def test_a_sampled_request_is_exported_once_with_its_callees(own_peer, peers, collector):
    back = peers("flask_app", service="back")
    front = own_peer("flask_app", service="front", FAULTLOOM_SAMPLE="1/1", FAULTLOOM_EXPORT=collector.url, FAULTLOOM_PEERS=f"{back.address}=back")
    reply = requests.get(f"{front.url}/chain?url={back.url}/status/503", timeout=5)
    assert reply.text == "via:status" and not any(name.lower().startswith("x-faultloom") for name in reply.headers)
    assert until(lambda: len(collector.spans) >= 3)
    time.sleep(1.2)  # a second export would come by now
    server, client, child = collector.spans
    assert [span["service"] for span in collector.spans] == ["front", "front", "back"]
    assert "parentSpanId" not in server and client["parentSpanId"] == server["spanId"] and child["parentSpanId"] == client["spanId"]
    assert (server["name"], client["name"], child["name"]) == ("GET /chain", "GET /status/{id}", "GET /status/{code}")
    assert attributes(server) == {"http.response.status_code": "200"} and server["status"] == {}
    of_client = attributes(client)
    assert int(of_client.pop("faultloom.connect_us")) > 0  # requests.get has no connection yet
    assert of_client == {"http.response.status_code": "503", "peer.service": "back"} and client["status"] == {"code": 2}
    assert child["status"] == {"code": 2}


@pytest.mark.parametrize("app", [("aiohttp_app",), ("handler_app", "1.1"), ("fastapi_app", "hypercorn")], ids=["aiohttp", "http.server", "hypercorn"])
def test_replies_of_sampled_requests_are_unchanged(own_peer, peers, collector, app):
    service = own_peer(*app, service="front", FAULTLOOM_SAMPLE="1/1", FAULTLOOM_EXPORT=collector.url)
    stock = peers(*app, sdk=False)
    for path, status in (("/stream?n=9000", 200), ("/none/17", 404)):
        sampled, plain = (requests.get(peer.url + path, timeout=5) for peer in (service, stock))
        headers = [{name: value for name, value in reply.headers.items() if name.lower() != "date"} for reply in (sampled, plain)]
        assert (sampled.status_code, sampled.content, headers[0]) == (status, plain.content, headers[1])
    streamed, missing = until(lambda: len(collector.spans) == 2 and collector.spans)
    assert [(span["name"], attributes(span)["http.response.status_code"]) for span in (streamed, missing)] == [
        ("GET /stream", "200"), ("GET /none/{id}", "404")
    ]  # fmt: skip


@pytest.mark.parametrize("mode", [(), ("aio",)], ids=["sync", "aio"])
def test_grpc_calls_and_streams_are_sampled_and_linked_to_their_parent(own_peer, collector, mode):
    back = own_peer("grpc_app", *mode, service="back", FAULTLOOM_SAMPLE="1/1", FAULTLOOM_EXPORT=collector.url)
    with grpc.insecure_channel(back.address) as channel:
        metadata = (("traceparent", PARENT),)
        message, call = channel.unary_unary("/t.T/Echo").with_call(b"x", metadata=metadata)
        assert message == b"x" and not call.trailing_metadata()
        stream = channel.unary_stream("/t.T/StreamFail")(b"2")
        with pytest.raises(grpc.RpcError):
            list(stream)
        assert [key for key, _ in stream.trailing_metadata()] == ["own"]
    echo, failed = until(lambda: len(collector.spans) == 2 and collector.spans)
    assert echo["traceId"] == PARENT[3:35] and echo["parentSpanId"] == PARENT[36:52]
    assert "parentSpanId" not in failed and failed["status"] == {"code": 2} and attributes(failed)["rpc.grpc.status_code"] == "5"


def test_a_request_with_an_envelope_is_not_sampled(own_peer, collector):
    front = own_peer("flask_app", service="front", FAULTLOOM_SAMPLE="1/1", FAULTLOOM_EXPORT=collector.url)
    with faultloom.starting(SIGNER) as started:
        assert requests.get(front.url + "/echo", timeout=5).text == "hello"
    assert ends(started.history.segment) == [("replied", 200, False, "front")]
    foreign = faultloom.Signer(faultloom.Key("f1", True, bytes(32)), ENVIRONMENT)
    requests.get(front.url + "/status/200", headers={"x-faultloom": foreign.header()}, timeout=5)
    assert until(lambda: collector.spans)
    assert [span["name"] for span in collector.spans] == ["GET /status/{code}"]


def test_one_in_n_is_sampled():
    entry = Sampler({"FAULTLOOM_SAMPLE": "1/16", "FAULTLOOM_EXPORT": "http://127.0.0.1:1/v1/traces"})
    entry._random = random.Random(20261121)
    trust = TrustSettings.parse(trust_text())
    envelopes = [entry.sample(trust, "") for _ in range(16_000)]
    assert 850 < sum(envelope is not None for envelope in envelopes) < 1150
    envelope = next(e for e in envelopes if e is not None)
    assert envelope.key == TRACE_KEY.id and envelope.history and envelope.plan is None and not envelope.bridge
    assert entry.sample(TrustSettings.parse(trust_text(FAULT_KEY)), "") is None and entry.sample(None, "") is None


@pytest.mark.parametrize(("sample", "export"), [("1/2", ""), ("1/2", "collector:4318"), ("0.5", "http://c/"), ("1/0", "http://c/"), ("1/1000001", "http://c/")])
def test_invalid_settings_disable_sampling_with_a_warning(capsys, sample, export):
    entry = Sampler({"FAULTLOOM_SAMPLE": sample, "FAULTLOOM_EXPORT": export})
    assert entry.sample_one_in == 0 and entry.sample(TrustSettings.parse(trust_text()), "") is None
    assert "FAULTLOOM_SAMPLE" in capsys.readouterr().err


def test_endpoints():
    assert parse_endpoint("http://collector:4318/v1/traces") == (False, "collector", 4318, "/v1/traces")
    assert parse_endpoint("https://collector/x?y=1") == (True, "collector", 443, "/x?y=1")
    for bad in ("", "collector:4318", "ftp://c/", "http:///v1", "http://c:x/", "http://user@c/", "http://c/ x\r\n"):
        assert parse_endpoint(bad) is None, bad


def test_sampled_requests_can_permit_a_bridge():
    entry = Sampler({"FAULTLOOM_SAMPLE": "1/1", "FAULTLOOM_EXPORT": "http://c/", "FAULTLOOM_BRIDGE": "on"})
    envelope = entry.sample(TrustSettings.parse(trust_text()), PARENT)
    assert envelope.bridge and envelope.trace.hex() == PARENT[3:35] and f"{envelope.call:016x}" == PARENT[36:52]


def history(number=1):
    with faultloom.starting(SIGNER) as started:
        pass
    return started.bytes


def test_batches_have_at_most_64_histories(collector):
    exporter = Exporter(parse_endpoint(collector.url))
    for _ in range(200):
        exporter.add(os.urandom(16), False, history())
    assert until(lambda: sum(collector.batches) == 200)
    assert max(collector.batches) <= BATCH_MAX


def test_a_full_queue_drops_histories_and_warns_once_a_minute(collector, capsys):
    collector.silent.clear()
    exporter = Exporter(parse_endpoint(collector.url))
    begun = time.monotonic()
    for _ in range(BATCH_MAX):
        exporter.add(os.urandom(16), False, history())
    assert until(lambda: not exporter._queue)
    for _ in range(QUEUE_MAX + 40):
        exporter.add(os.urandom(16), False, history())
    assert time.monotonic() - begun < 3 and len(exporter._queue) == QUEUE_MAX
    lines = [line for line in capsys.readouterr().err.splitlines() if "not exported" in line]
    assert len(lines) == 1 and lines[0].startswith("faultloom: 1 histories")
    collector.silent.set()
    assert until(lambda: sum(collector.batches) == BATCH_MAX + QUEUE_MAX)


@pytest.mark.parametrize("failure", ["refused", "503"])
def test_a_failing_collector_does_not_affect_replies(own_peer, collector, failure):
    collector.fail = True
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        closed_port = f"http://127.0.0.1:{probe.getsockname()[1]}/v1/traces"
    front = own_peer("flask_app", service="front", FAULTLOOM_SAMPLE="1/1", FAULTLOOM_EXPORT=closed_port if failure == "refused" else collector.url)
    for _ in range(3):
        assert requests.get(front.url + "/echo", timeout=5).text == "hello"
    assert until(lambda: _stderr(front).count("not exported"))
    assert requests.get(front.url + "/echo", timeout=5).text == "hello"
    assert front.stop().count("not exported") == 1


def _stderr(peer):
    return open(peer.errors.fileno(), closefd=False).read() if not peer.errors.seek(0) else ""


def test_the_export_is_not_part_of_a_request(own_peer, collector):
    front = own_peer("flask_app", service="front", FAULTLOOM_SAMPLE="1/1", FAULTLOOM_EXPORT=collector.url, FAULTLOOM_BRIDGE="on")
    for _ in range(3):
        requests.get(f"{front.url}/chain?url={front.url}/echo", timeout=5)
        time.sleep(0.4)
    assert until(lambda: len(collector.spans) >= 9)
    assert not any(name in headers for headers in collector.headers for name in ("x-faultloom", "traceparent", "baggage"))
    assert not any(attributes(span).get("peer.service", "").endswith(collector.url.split(":")[2].split("/")[0]) for span in collector.spans)


APP = """
import flask, requests, faultloom.auto, sys, time
app = flask.Flask("service")
@app.get("/")
def root(): return "ok"
client = app.test_client()
for _ in range(5): client.get("/").data
begun = time.monotonic()
sys.stdout.write("done")
"""


def test_queued_histories_are_sent_at_exit(collector):
    env = clean_environment(
        PYTHONPATH=str(SOURCE.parent), FAULTLOOM_TRUST=trust_text().replace("\n", ";"), FAULTLOOM_SERVICE="short",
        FAULTLOOM_SAMPLE="1/1", FAULTLOOM_EXPORT=collector.url,
    )  # fmt: skip
    ran = subprocess.run([sys.executable, "-c", APP], env=env, capture_output=True, text=True, timeout=30)
    assert ran.stdout == "done" and len(collector.of("short")) == 5, ran.stderr


def test_a_silent_collector_delays_the_exit_by_at_most_a_second(collector):
    collector.silent.clear()
    env = clean_environment(
        PYTHONPATH=str(SOURCE.parent), FAULTLOOM_TRUST=trust_text().replace("\n", ";"), FAULTLOOM_SAMPLE="1/1", FAULTLOOM_EXPORT=collector.url,
    )  # fmt: skip
    code = APP + "import atexit; ended = time.monotonic()\natexit._run_exitfuncs(); print(time.monotonic() - ended < 2.5)"
    ran = subprocess.run([sys.executable, "-c", code], env=env, capture_output=True, text=True, timeout=30)
    assert ran.stdout.strip() == "doneTrue", ran.stderr


def test_forked_workers_export_their_own_histories(tmp_path, collector):
    pytest.importorskip("gunicorn")
    (tmp_path / "service.py").write_text(
        textwrap.dedent(
            """
            import flask, os
            app = flask.Flask("service")
            @app.get("/pid")
            def pid(): return str(os.getpid())
            app.test_client().get("/pid").data  # starts the exporter's thread before the fork
            """
        )
    )
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    status = tmp_path / "status"
    status.mkdir()
    env = clean_environment(
        PYTHONPATH=str(SOURCE / "boot"), FAULTLOOM_TRUST=trust_text().replace("\n", ";"), FAULTLOOM_SERVICE="unicorn",
        FAULTLOOM_SAMPLE="1/1", FAULTLOOM_EXPORT=collector.url, FAULTLOOM_STATUS=str(status),
    )  # fmt: skip
    arguments = ["-m", "gunicorn", "-w", "2", "--preload", "-b", f"127.0.0.1:{port}", "service:app"]
    process = subprocess.Popen([sys.executable, *arguments], cwd=tmp_path, env=env, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    pids = set()
    count = 0

    def request_pid():
        nonlocal count
        try:
            pids.add(requests.get(f"http://127.0.0.1:{port}/pid", timeout=2).text)
            count += 1
        except requests.RequestException:
            pass
        return len(pids) == 2

    try:
        assert until(request_pid, 30)
        assert until(lambda: len(collector.of("unicorn")) == count + 1)
        # each process exports under its own name
        names = {name for name in os.listdir(status) if name.endswith(".json")}
        assert {f"unicorn.{pid}.json" for pid in [*pids, process.pid]} <= names
        count_before = count
        requests.get(f"http://127.0.0.1:{port}/pid", timeout=5)
        process.send_signal(signal.SIGTERM)  # a worker that ends sends what it still has
        process.wait(20)
        assert until(lambda: len(collector.of("unicorn")) == count_before + 2)
    finally:
        process.kill()
        process.wait(20)


def test_spans_of_several_requests_share_their_services():
    first, second = (faultloom.decode_history(history()) for _ in range(2))
    out = otlp_request([TracedHistory(b"1" * 16, False, first), TracedHistory(b"2" * 16, False, second)])
    assert len(out["resourceSpans"]) == 1 and len(out["resourceSpans"][0]["scopeSpans"][0]["spans"]) == 2
