"""gRPC: histories in fields and trailers, receive limits, peers without the SDK, retries."""

from __future__ import annotations

import asyncio
import contextlib
import functools
import json
import subprocess
import sys
from concurrent import futures

import grpc
import pytest
from conftest import APPS, SIGNER, child_of, clean_environment, ends
from google.protobuf.wrappers_pb2 import StringValue
from grpc._channel import _InactiveRpcError, _UnaryUnaryMultiCallable

import faultloom
from faultloom import Fault, Selector
from faultloom.hooks.grpc.server import DirectPool
from faultloom.scope.current import current_scope
from faultloom.wire.carriers import MAGIC

SERVERS = pytest.mark.parametrize("mode", [(), ("named",), ("aio",)], ids=["sync-server", "named-methods", "aio-server"])


def call(address, method, request=b"", options=(), timeout=10, **kwargs):
    with grpc.insecure_channel(address, options=options) as channel:
        return channel.unary_unary(f"/t.T/{method}")(request, timeout=timeout, **kwargs)


def aio_call(address, method, request=b"", options=(), timeout=10):
    async def run():
        async with grpc.aio.insecure_channel(address, options=options) as channel:
            return await channel.unary_unary(f"/t.T/{method}")(request, timeout=timeout)

    return asyncio.run(run())


CLIENTS = pytest.mark.parametrize("client", [call, aio_call], ids=["sync-client", "aio-client"])


@SERVERS
@CLIENTS
@pytest.mark.parametrize("size", [0, 1, 100_000, 4_194_304 - 10_000, 4_194_304 - 20, 4_194_304])
def test_messages_up_to_the_receive_limit_arrive_with_a_history(peers, mode, client, size):
    callee = peers("grpc_app", *mode, service="callee")
    with faultloom.starting(SIGNER) as started:
        assert client(callee.address, "Big", b"%d" % size) == b"x" * size
    assert ends(started.history.segment) == [("replied", 0, False, "callee")]


@SERVERS
@CLIENTS
def test_the_limit_of_the_channel_option_is_announced(peers, mode, client):
    callee = peers("grpc_app", *mode, service="callee")
    for limit, size in ((300, 290), (300, 0), (-1, 6_000_000), (8_000_000, 7_999_999)):
        with faultloom.starting(SIGNER) as started:
            assert len(client(callee.address, "Big", b"%d" % size, [("grpc.max_receive_message_length", limit)])) == size
        assert ends(started.history.segment) == [("replied", 0, False, "callee")]


@SERVERS
@CLIENTS
def test_5000_events_come_back_in_the_field(peers, mode, client):
    callee = peers("grpc_app", *mode, service="callee")
    with faultloom.starting(SIGNER, [Fault("unavailable", Selector(callee="nowhere"))]) as started:
        assert client(callee.address, "Fan", b"2500", timeout=60) == b"done"
    child = child_of(started.history.segment)
    assert len(child.events) == 5001 and not child.truncated
    assert set(ends(child)) == {("failed", 14, False, None)}


@SERVERS
@CLIENTS
def test_a_trailer_is_truncated_to_its_limit(peers, mode, client):
    callee = peers("grpc_app", *mode, service="callee")
    with faultloom.starting(SIGNER, [Fault("unavailable", Selector(callee="nowhere"))]) as started:
        with pytest.raises(grpc.RpcError) as error:
            client(callee.address, "FanFail", b"2500", timeout=60)
        assert error.value.code() is grpc.StatusCode.NOT_FOUND
    child = child_of(started.history.segment)
    assert child.truncated and 100 < len(child.events) < 1000
    assert child.events[-1].status == 5


@SERVERS
@CLIENTS
@pytest.mark.parametrize(("method", "request_", "code"), [("Fail", b"9", 9), ("PlainFail", b"", 5), ("PlainCode", b"", 6), ("SetCode", b"7", 7), ("Boom", b"", 2), ("Fail", b"14", 14)])
def test_an_error_has_its_history_in_the_trailer(peers, mode, client, method, request_, code):
    callee = peers("grpc_app", *mode, service="callee")
    with faultloom.starting(SIGNER) as started:
        with pytest.raises(grpc.RpcError) as error:
            client(callee.address, method, request_)
    assert error.value.code().value[0] == code
    if method in ("Fail", "PlainFail"):
        assert ("own", "trailer") in [tuple(pair) for pair in error.value.trailing_metadata()]
        assert error.value.details() == "requested"
    assert ends(started.history.segment) == [("replied", code, False, "callee")]
    assert child_of(started.history.segment).events[-1].status == code


@SERVERS
def test_a_reply_that_cannot_be_serialized_is_recorded_as_internal(peers, mode):
    callee = peers("grpc_app", *mode, service="callee")
    with faultloom.starting(SIGNER) as started:
        with pytest.raises(grpc.RpcError):
            call(callee.address, "BadReply")
    assert len(ends(started.history.segment)) == 1


@SERVERS
@pytest.mark.parametrize("traced", [True, False], ids=["traced", "untraced"])
def test_a_reply_that_cannot_be_serialized_fails_like_in_the_library(own_peer, mode, traced):
    errors = []
    for sdk in (True, False):
        callee = own_peer("grpc_app", *mode, sdk=sdk, service="callee")
        with faultloom.starting(SIGNER) if traced else contextlib.nullcontext():
            with pytest.raises(grpc.RpcError) as error:
                call(callee.address, "BadReply")
        errors.append((error.value.code(), error.value.details(), callee.stop().count("Exception serializing message!")))
    assert errors[0] == errors[1]


@SERVERS
@pytest.mark.parametrize("traced", [True, False], ids=["traced", "untraced"])
def test_a_request_that_cannot_be_deserialized_fails_like_in_the_library(own_peer, mode, traced):
    errors = []
    for sdk in (True, False):
        callee = own_peer("grpc_app", *mode, sdk=sdk, service="callee")
        with faultloom.starting(SIGNER) if traced else contextlib.nullcontext():
            with pytest.raises(grpc.RpcError) as error:
                call(callee.address, "Mirror", b"\xff")
        errors.append((error.value.code(), error.value.details(), callee.stop().count("Exception deserializing message!")))
    assert errors[0] == errors[1]


def test_methods_added_to_a_running_server_are_traced(peers):
    callee = peers("grpc_app", "named", "late", service="callee")
    with faultloom.starting(SIGNER) as started, grpc.insecure_channel(callee.address) as channel:
        for method in ("/t.T/Echo", "/t.L/Echo"):
            for _ in range(2):
                assert channel.unary_unary(method)(b"x", timeout=10) == b"x"
    assert ends(started.history.segment) == 4 * [("replied", 0, False, "callee")]


def test_an_untraced_request_takes_no_additional_function_calls(own_peer):
    """For a server with named methods. Half a call per request is tolerated for timers of the library's threads."""
    calls_per_request, requests = [], 200
    for sdk in (True, False):
        callee = own_peer("grpc_app", "named", "steps", sdk=sdk, service="callee")
        with grpc.insecure_channel(callee.address) as channel:
            steps, echo = channel.unary_unary("/t.T/Steps"), channel.unary_unary("/t.T/Mirror")
            steps(b"", timeout=10)
            before = int(steps(b"", timeout=10))
            for _ in range(requests):
                echo(StringValue(value="x").SerializeToString(), timeout=10)
            calls_per_request.append((int(steps(b"", timeout=10)) - before) / (requests + 1))
    assert calls_per_request[0] <= calls_per_request[1] + 0.5, calls_per_request


def test_an_untraced_call_fails_like_in_the_library(peers):
    stock = peers("grpc_app", sdk=False)
    with pytest.raises(grpc.RpcError) as error:
        call(stock.address, "Fail", b"5")
    assert type(error.value) is _InactiveRpcError
    assert (error.value.code(), error.value.details()) == (grpc.StatusCode.NOT_FOUND, "requested")
    assert ("own", "trailer") in [tuple(pair) for pair in error.value.trailing_metadata()]


def test_an_untraced_call_uses_a_replaced_method_of_the_library(peers, monkeypatch):
    stock, requests, original = peers("grpc_app", sdk=False), [], _UnaryUnaryMultiCallable.__call__

    def recording(self, request, *args):
        requests.append(request)
        return original(self, request, *args)

    assert call(stock.address, "Echo", b"1") == b"1"
    monkeypatch.setattr(_UnaryUnaryMultiCallable, "__call__", recording)
    assert call(stock.address, "Echo", b"2") == b"2"
    assert requests == [b"2"]


class OwnPool(futures.ThreadPoolExecutor):
    """An application's pool that counts its jobs."""

    jobs = 0

    def submit(self, *args, **kwargs):
        self.jobs += 1
        return super().submit(*args, **kwargs)


def test_a_customized_server_pool_is_used_unchanged(monkeypatch):
    wrapped, kinds = [], []

    def wrapping(submit):
        @functools.wraps(submit)
        def another_tool(self, *args, **kwargs):
            wrapped.append(args)
            return submit(self, *args, **kwargs)

        return another_tool

    def serve(pool):
        server = grpc.server(pool)
        echo = {"Echo": grpc.unary_unary_rpc_method_handler(lambda request, context: request)}
        server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler("t.T", echo),))
        port = server.add_insecure_port("127.0.0.1:0")
        server.start()
        assert call(f"127.0.0.1:{port}", "Echo", b"x") == b"x"
        kinds.append(type(server._state.thread_pool))
        server.stop(None).wait()
        return pool

    plain = serve(futures.ThreadPoolExecutor(1))
    assert kinds == [DirectPool] and plain.submit(current_scope).result(5) is None
    assert serve(OwnPool(1)).jobs == 1
    own = futures.ThreadPoolExecutor(1)
    own.submit = OwnPool(1).submit
    serve(own)
    monkeypatch.setattr(futures.ThreadPoolExecutor, "submit", wrapping(futures.ThreadPoolExecutor.submit))
    serve(futures.ThreadPoolExecutor(1))
    assert len(wrapped) == 1 and kinds == [DirectPool, OwnPool] + [futures.ThreadPoolExecutor] * 2


@SERVERS
def test_protobuf_messages_arrive_unchanged(peers, mode):
    callee = peers("grpc_app", *mode, service="callee")
    with grpc.insecure_channel(callee.address) as channel, faultloom.starting(SIGNER) as started:
        greet = channel.unary_unary("/t.T/Proto", StringValue.SerializeToString, StringValue.FromString)
        reply, done = greet.with_call(StringValue(value="you"))
        assert reply == StringValue(value="hello you") and reply.SerializeToString() == StringValue(value="hello you").SerializeToString()
        assert done.code() is grpc.StatusCode.OK
        assert greet.future(StringValue(value="me")).result().value == "hello me"
    assert ends(started.history.segment) == [("replied", 0, False, "callee")] * 2


def test_a_corrupted_protobuf_message_is_internal(peers):
    callee = peers("grpc_app", service="callee")
    with grpc.insecure_channel(callee.address) as channel, faultloom.starting(SIGNER, [Fault("corrupt-reply")]) as started:
        greet = channel.unary_unary("/t.T/Proto", StringValue.SerializeToString, StringValue.FromString)
        with pytest.raises(grpc.RpcError) as error:
            greet(StringValue(value="you"))
    assert error.value.code() is grpc.StatusCode.INTERNAL
    assert ends(started.history.segment) == [("replied", 0, False, "callee")]


@SERVERS
@CLIENTS
def test_a_chain_of_services_is_one_tree(peers, mode, client):
    front, back = peers("grpc_app", *mode, service="front"), peers("grpc_app", service="back")
    plan = [Fault("status", Selector("front", back.address, "Echo"), arg=8, max_fires=1)]
    for faults, code in ((None, 0), (plan, 2), (None, 0)):
        with faultloom.starting(SIGNER, faults) as started:
            if code:
                with pytest.raises(grpc.RpcError):
                    client(front.address, "Chain", back.address.encode())
            else:
                assert client(front.address, "Chain", back.address.encode()) == b"via:chained"
        inner = child_of(started.history.segment)
        assert inner.service == "front"
        assert ends(inner)[0] == (("replied", 8, False, None) if code else ("replied", 0, False, "back"))


def test_a_callee_without_the_sdk_is_a_gap(peers):
    stock = peers("grpc_app", sdk=False)
    with faultloom.starting(SIGNER) as started:
        assert call(stock.address, "Echo", b"x") == b"x"
        with pytest.raises(grpc.RpcError):
            call(stock.address, "Fail", b"5")
    assert ends(started.history.segment) == [("replied", 0, True, None), ("replied", 5, True, None)]


def test_an_internal_error_does_not_affect_the_call(monkeypatch, capsys):
    from faultloom.hooks.process import new_process
    from faultloom.scope.process import IncomingRequest

    process = new_process()
    monkeypatch.setattr(process.receiver, "accept", lambda *_: 1 // 0)
    monkeypatch.setattr(process.receiver, "accept_header", lambda *_: 1 // 0)
    for _ in range(2):
        assert process.open_grpc_scope([("x-faultloom-bin", b"1")]) is None and process.open_scope(IncomingRequest("1", "", "")) is None
    assert capsys.readouterr().err.count("ZeroDivisionError") == 1


def test_a_real_refusal_is_a_failure_with_a_gap(own_peer):
    gone = own_peer("grpc_app", sdk=False)
    gone.stop()
    with faultloom.starting(SIGNER) as started:
        for client in (call, aio_call):
            with pytest.raises(grpc.RpcError) as error:
                client(gone.address, "Echo", b"x", timeout=5)
            assert error.value.code() is grpc.StatusCode.UNAVAILABLE
    assert ends(started.history.segment) == [("failed", 14, True, None)] * 2


def test_a_real_deadline_is_a_failure_with_a_gap(peers):
    callee = peers("grpc_app", service="callee")
    with faultloom.starting(SIGNER) as started:
        for client in (call, aio_call):
            with pytest.raises(grpc.RpcError):
                client(callee.address, "Slow", b"0.5", timeout=0.1)
    assert ends(started.history.segment) == [("failed", 4, True, None)] * 2


STOCK_CLIENT = """
import grpc, json, sys, urllib.request
address, url = sys.argv[1:]
out = {}
with grpc.insecure_channel(address) as channel:
    for method, request in (("Echo", b"abc"), ("Big", b"4194304"), ("Fail", b"9"), ("Boom", b"")):
        try:
            message, call = channel.unary_unary("/t.T/" + method).with_call(request, timeout=10)
            out[method] = [message.decode() if len(message) < 10 else len(message), len(call.trailing_metadata())]
        except grpc.RpcError as error:
            out[method] = [error.code().value[0], [key for key, _ in error.trailing_metadata()]]
with urllib.request.urlopen(url + "/big?n=4000000") as reply:
    out["http"] = [len(reply.read()), reply.headers["content-length"], "x-faultloom" in str(reply.headers).lower()]
assert "faultloom" not in sys.modules
print(json.dumps(out))
"""


@SERVERS
def test_a_client_without_the_sdk_gets_unchanged_bytes(peers, mode):
    callee, flask = peers("grpc_app", *mode, service="callee"), peers("flask_app", service="front")
    ran = subprocess.run(
        [sys.executable, "-c", STOCK_CLIENT, callee.address, flask.url], capture_output=True, text=True, env=clean_environment(), cwd=APPS
    )
    assert json.loads(ran.stdout) == {
        "Echo": ["abc", 0], "Big": [4194304, 0], "Fail": [9, ["own"]], "Boom": [2, []], "http": [4_000_000, "4000000", False],
    }, ran.stderr  # fmt: skip


def test_a_message_that_resembles_a_field_stays_whole(peers):
    stock = peers("grpc_app", sdk=False)
    lookalike = b"message" + (8).to_bytes(4, "big") + MAGIC
    assert call(stock.address, "Echo", lookalike) == lookalike
    with faultloom.starting(SIGNER):
        assert call(stock.address, "Echo", lookalike) == lookalike


def test_metadata_of_the_application_arrives_but_a_forwarded_envelope_does_not(peers):
    callee = peers("grpc_app", service="callee")
    with faultloom.starting(SIGNER) as started:
        assert call(callee.address, "Echo", b"x", metadata=(("own", "1"), ("x-faultloom-bin", b"foreign"))) == b"x"
    assert ends(started.history.segment) == [("replied", 0, False, "callee")]


def test_parallel_futures_are_all_in_the_history(peers):
    callee = peers("grpc_app", service="callee")
    with grpc.insecure_channel(callee.address) as channel, faultloom.starting(SIGNER) as started:
        echo = channel.unary_unary("/t.T/Echo")
        futures = [echo.future(b"%d" % i) for i in range(50)]
        assert [future.result() for future in futures] == [b"%d" % i for i in range(50)]
    assert ends(started.history.segment) == [("replied", 0, False, "callee")] * 50


def test_parallel_aio_calls_are_all_in_the_history(peers):
    callee = peers("grpc_app", "aio", service="callee")

    async def run():
        async with grpc.aio.insecure_channel(callee.address) as channel:
            echo = channel.unary_unary("/t.T/Echo")
            return await asyncio.gather(*(echo(b"%d" % i) for i in range(50)))

    with faultloom.starting(SIGNER) as started:
        assert asyncio.run(run()) == [b"%d" % i for i in range(50)]
    assert ends(started.history.segment) == [("replied", 0, False, "callee")] * 50
