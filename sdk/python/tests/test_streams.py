"""gRPC streams: one call each, with the history in pieces after the messages and the rest in the trailer."""

from __future__ import annotations

import asyncio
import gc
import subprocess
import sys
import time

import grpc
import pytest
from conftest import APPS, SIGNER, child_of, clean_environment, ends, faults_fired, until

import faultloom
from faultloom import Fault, Selector
from faultloom.wire.carriers import cut_field

SERVERS = pytest.mark.parametrize("mode", [(), ("named",), ("aio",)], ids=["sync-server", "named-methods", "aio-server"])


class Caller:
    """The same streams with each kind of client. All return (messages, error)."""

    def __init__(self, run, aio):
        self._run, self.aio = run, aio

    def replies(self, address, method, request, **kwargs):
        return self._run("unary_stream", address, method, request, **kwargs)

    def join(self, address, method, requests, **kwargs):
        return self._run("stream_unary", address, method, requests, **kwargs)

    def talk(self, address, method, requests, **kwargs):
        return self._run("stream_stream", address, method, requests, **kwargs)


def run_sync(kind, address, method, request, stop_after=None, options=(), timeout=10, interceptor=None):
    got, error = [], None
    with grpc.insecure_channel(address, options=options) as channel:
        if interceptor is not None:
            channel = grpc.intercept_channel(channel, interceptor)
        callable_ = getattr(channel, kind)(f"/t.T/{method}")
        try:
            if kind == "stream_unary":
                got.append(callable_(iter(request), timeout=timeout))
            else:
                stream = callable_(iter(request) if kind == "stream_stream" else request, timeout=timeout)
                for message in stream:
                    got.append(message)
                    if len(got) == stop_after:
                        stream.cancel()
                        break
        except grpc.RpcError as raised:
            error = raised
    return got, error


def run_future(kind, address, method, request, timeout=10, **_):
    assert kind == "stream_unary"
    with grpc.insecure_channel(address) as channel:
        future = channel.stream_unary(f"/t.T/{method}").future(iter(request), timeout=timeout)
        error = future.exception()
        return [] if error else [future.result()], error


def run_aio(kind, address, method, request, stop_after=None, options=(), timeout=10, reader=False, interceptor=None):
    async def run():
        got, error = [], None
        async with grpc.aio.insecure_channel(address, options=options, interceptors=[interceptor] if interceptor else None) as channel:
            callable_ = getattr(channel, kind)(f"/t.T/{method}")
            try:
                if kind == "stream_unary":
                    got.append(await callable_(iter(request), timeout=timeout))
                    return got, error
                call = callable_(iter(request) if kind == "stream_stream" else request, timeout=timeout)
                if reader:
                    while True:
                        message = await call.read()
                        if message is grpc.aio.EOF:
                            break
                        got.append(message)
                else:
                    async for message in call:
                        got.append(message)
                        if len(got) == stop_after:
                            call.cancel()
                            break
            except grpc.RpcError as raised:
                error = raised
        return got, error

    return asyncio.run(run())


SYNC, AIO = Caller(run_sync, False), Caller(run_aio, True)
CLIENTS = pytest.mark.parametrize("client", [SYNC, AIO], ids=["sync-client", "aio-client"])


@SERVERS
@CLIENTS
@pytest.mark.parametrize("method", ["Stream", "StreamWritten", "StreamPlain"])
def test_a_stream_of_replies_is_one_call_with_the_history_of_its_handler(peers, mode, client, method):
    callee, leaf = peers("grpc_app", *mode, service="callee"), peers("grpc_app", service="leaf")
    with faultloom.starting(SIGNER) as started:
        assert client.replies(callee.address, method, b"3 " + leaf.address.encode()) == ([b"0", b"1", b"2"], None)
        assert client.replies(callee.address, method, b"0") == ([], None)
    assert ends(started.history.segment) == [("replied", 0, False, "callee")] * 2
    inner = child_of(started.history.segment)
    assert ends(inner) == [("replied", 0, False, "leaf")] * 3 and not inner.truncated
    assert inner.events[-1].status == 0
    assert child_of(started.history.segment, 2).events[0].status == 0


@SERVERS
@CLIENTS
@pytest.mark.parametrize("method", ["Join", "JoinPlain"])
def test_a_stream_of_requests_is_one_call_with_the_history_of_its_handler(peers, mode, client, method):
    callee, leaf = peers("grpc_app", *mode, service="callee"), peers("grpc_app", service="leaf")
    to_leaf = b" " + leaf.address.encode()
    with faultloom.starting(SIGNER) as started:
        assert client.join(callee.address, method, [b"1" + to_leaf, b"2" + to_leaf]) == ([b"1+2"], None)
    assert ends(started.history.segment) == [("replied", 0, False, "callee")]
    assert ends(child_of(started.history.segment)) == [("replied", 0, False, "leaf")] * 2


@SERVERS
def test_a_future_of_a_stream_of_requests(peers, mode):
    callee = peers("grpc_app", *mode, service="callee")
    with faultloom.starting(SIGNER) as started:
        assert run_future("stream_unary", callee.address, "Join", [b"1", b"2"])[0] == [b"1+2"]
        assert run_future("stream_unary", callee.address, "JoinFail", [b"1", b"2"])[1].code() is grpc.StatusCode.OUT_OF_RANGE
    assert ends(started.history.segment) == [("replied", 0, False, "callee"), ("replied", 11, False, "callee")]


@SERVERS
@CLIENTS
@pytest.mark.parametrize("method", ["Talk", "TalkPlain"])
def test_a_bidirectional_stream_is_one_call_with_the_history_of_its_handler(peers, mode, client, method):
    callee, leaf = peers("grpc_app", *mode, service="callee"), peers("grpc_app", service="leaf")
    words = [b"a " + leaf.address.encode(), b"b", b"c " + leaf.address.encode()]
    with faultloom.starting(SIGNER) as started:
        assert client.talk(callee.address, method, words) == ([b"re:a", b"re:b", b"re:c"], None)
    assert ends(started.history.segment) == [("replied", 0, False, "callee")]
    assert ends(child_of(started.history.segment)) == [("replied", 0, False, "leaf")] * 2


@SERVERS
def test_a_stream_that_is_read_message_by_message(peers, mode):
    callee = peers("grpc_app", *mode, service="callee")
    with faultloom.starting(SIGNER) as started:
        assert run_aio("unary_stream", callee.address, "Stream", b"3", reader=True) == ([b"0", b"1", b"2"], None)
    assert ends(started.history.segment) == [("replied", 0, False, "callee")]


@SERVERS
@CLIENTS
@pytest.mark.parametrize("method", ["Stream", "StreamPlain"])
def test_canceling_after_the_second_message_keeps_the_history_until_then(peers, mode, client, method):
    callee, leaf = peers("grpc_app", *mode, service="callee"), peers("grpc_app", service="leaf")
    with faultloom.starting(SIGNER) as started:
        assert client.replies(callee.address, method, b"100 " + leaf.address.encode(), stop_after=2)[0] == [b"0", b"1"]
    assert ends(started.history.segment) == [("failed", 1, False, "callee")]
    inner = child_of(started.history.segment)
    assert inner.truncated and ends(inner)[0] == ("replied", 0, False, "leaf")


@SERVERS
@CLIENTS
def test_a_stream_left_open_by_the_caller_ends_with_its_scope(peers, mode, client):
    callee, leaf = peers("grpc_app", *mode, service="callee"), peers("grpc_app", service="leaf")
    request = b"2 " + leaf.address.encode()

    async def open_async():
        async with grpc.aio.insecure_channel(callee.address) as channel:
            with faultloom.starting(SIGNER) as started:
                stream = channel.unary_stream("/t.T/StreamOpen")(request)
                assert [await stream.read(), await stream.read()] == [b"0", b"1"]
            return started

    if client.aio:
        started = asyncio.run(open_async())
    else:
        with grpc.insecure_channel(callee.address) as channel:
            with faultloom.starting(SIGNER) as started:
                stream = channel.unary_stream("/t.T/StreamOpen")(request)
                assert [next(stream), next(stream)] == [b"0", b"1"]
            stream.cancel()
    assert ends(started.history.segment) == [("failed", 1, False, "callee")]
    assert ends(child_of(started.history.segment))[0] == ("replied", 0, False, "leaf")


def test_a_stream_that_the_application_drops_is_canceled(own_peer):
    callee = own_peer("grpc_app", service="callee")
    with grpc.insecure_channel(callee.address) as channel:
        closed = channel.unary_unary("/t.T/Closed")
        with faultloom.starting(SIGNER) as started:
            stream = channel.unary_stream("/t.T/StreamOpen")(b"1")
            next(stream)
            del stream
            gc.collect()
            assert until(lambda: started.scope.calls[0].has_ended)
        assert until(lambda: closed(b"") == b"1")
    assert ends(started.history.segment) == [("failed", 1, False, "callee")]


@SERVERS
def test_a_handler_whose_caller_has_disconnected_is_closed(own_peer, mode):
    callee = own_peer("grpc_app", *mode, service="callee")
    with grpc.insecure_channel(callee.address) as channel:
        for number in (1, 2):
            with faultloom.starting(SIGNER):
                stream = channel.unary_stream("/t.T/StreamOpen")(b"1")
                next(stream)
                stream.cancel()
            assert until(lambda: channel.unary_unary("/t.T/Closed")(b"") == b"%d" % number)


@SERVERS
@CLIENTS
@pytest.mark.parametrize("method", ["StreamFail", "StreamPlainFail"])
def test_an_error_after_messages_keeps_the_history_and_the_applications_trailers(peers, mode, client, method):
    callee, leaf = peers("grpc_app", *mode, service="callee"), peers("grpc_app", service="leaf")
    with faultloom.starting(SIGNER) as started:
        got, error = client.replies(callee.address, method, b"2 " + leaf.address.encode())
    assert got == [b"0", b"1"] and error.code() is grpc.StatusCode.NOT_FOUND and error.details() == "requested"
    assert ("own", "trailer") in [tuple(pair) for pair in error.trailing_metadata()]
    assert ends(started.history.segment) == [("replied", 5, False, "callee")]
    inner = child_of(started.history.segment)
    assert ends(inner) == [("replied", 0, False, "leaf")] * 2 and inner.events[-1].status == 5


@SERVERS
@CLIENTS
def test_an_exception_in_a_handler_is_unknown_with_a_history(peers, mode, client):
    callee = peers("grpc_app", *mode, service="callee")
    with faultloom.starting(SIGNER) as started:
        got, error = client.replies(callee.address, "StreamBoom", b"")
        assert got == [b"0"] and error.code() is grpc.StatusCode.UNKNOWN
        assert client.join(callee.address, "JoinFail", [b"1"])[1].code() is grpc.StatusCode.OUT_OF_RANGE
    assert ends(started.history.segment) == [("replied", 2, False, "callee"), ("replied", 11, False, "callee")]


@SERVERS
@CLIENTS
def test_a_large_history_is_on_the_messages_and_its_end_is_truncated(peers, mode, client):
    callee = peers("grpc_app", *mode, service="callee")
    with faultloom.starting(SIGNER, [Fault("unavailable", Selector(callee="nowhere"))]) as started:
        got, error = client.replies(callee.address, "StreamFan", b"1000 10", timeout=60)
        assert error is None and got == [b"first", b"x" * 10]
    inner = child_of(started.history.segment)
    # the part on the last message is complete; the trailer has at most 3 kB of the rest
    assert inner.truncated and 2001 < len(inner.events) < 4001 and inner.events[-1].status == 0
    assert set(ends(inner)) == {("failed", 14, False, None)} or ends(inner)[-1][0] == "open"


@SERVERS
@CLIENTS
def test_a_receive_limit_defers_pieces_to_later_messages(peers, mode, client):
    callee, leaf = peers("grpc_app", *mode, service="callee"), peers("grpc_app", service="leaf")
    plan = [Fault("unavailable", Selector(callee="nowhere"))]
    for limit, size, whole in ((400, 400, True), (400, 200, True), (60, 5, True)):
        with faultloom.starting(SIGNER, plan) as started:
            got, error = client.replies(callee.address, "StreamFan", b"2 %d" % size, options=[("grpc.max_receive_message_length", limit)])
            assert error is None and got == [b"first", b"x" * size]
        inner = child_of(started.history.segment)
        assert ends(inner) == [("failed", 14, False, None)] * 4 and inner.truncated != whole


@SERVERS
@CLIENTS
def test_a_callee_without_the_sdk_is_a_gap(peers, mode, client):
    stock = peers("grpc_app", *mode, sdk=False)
    with faultloom.starting(SIGNER) as started:
        assert client.replies(stock.address, "Stream", b"2") == ([b"0", b"1"], None)
        assert client.join(stock.address, "Join", [b"1", b"2"]) == ([b"1+2"], None)
        assert client.talk(stock.address, "Talk", [b"a"]) == ([b"re:a"], None)
        assert client.replies(stock.address, "StreamFail", b"1")[1].code() is grpc.StatusCode.NOT_FOUND
    assert ends(started.history.segment) == [("replied", 0, True, None)] * 3 + [("replied", 5, True, None)]


STOCK_CLIENT = """
import grpc, sys
with grpc.insecure_channel(sys.argv[1]) as channel:
    stream = channel.unary_stream("/t.T/Stream")(b"3")
    print(list(stream), stream.trailing_metadata())
    print(channel.stream_unary("/t.T/Join")(iter([b"1", b"2"])))
    print(list(channel.stream_stream("/t.T/Talk")(iter([b"a", b"b"]))))
assert "faultloom" not in sys.modules
"""


@SERVERS
def test_a_client_without_the_sdk_gets_unchanged_bytes(peers, mode):
    callee = peers("grpc_app", *mode, service="callee")
    ran = subprocess.run([sys.executable, "-c", STOCK_CLIENT, callee.address], capture_output=True, text=True, env=clean_environment(), cwd=APPS)
    assert ran.stdout.splitlines() == ["[b'0', b'1', b'2'] ()", "b'1+2'", "[b're:a', b're:b']"], ran.stderr


def test_a_caller_that_accepts_no_fields_gets_the_history_in_the_trailer(peers):
    callee, leaf = peers("grpc_app", service="callee"), peers("grpc_app", service="leaf")
    envelope = SIGNER.envelope(None, accept=0)
    with grpc.insecure_channel(callee.address) as channel:
        stream = channel.unary_stream("/t.T/Stream")(b"2 " + leaf.address.encode(), metadata=(("x-faultloom-bin", envelope),))
        assert [cut_field(message) for message in stream] == [(b"0", None), (b"1", None)]
    (trailer,) = [value for key, value in stream.trailing_metadata() if key == "x-faultloom-bin"]
    assert trailer[:3] == b"\x81\x01\x00" and len(trailer) > 60


class SyncInterceptor(grpc.UnaryStreamClientInterceptor, grpc.StreamUnaryClientInterceptor, grpc.StreamStreamClientInterceptor):
    def _pass(self, continuation, details, request):
        metadata = [*(details.metadata or ()), ("own", "1")]
        return continuation(details._replace(metadata=metadata) if hasattr(details, "_replace") else details, request)

    intercept_unary_stream = intercept_stream_unary = intercept_stream_stream = _pass


class AioInterceptor(grpc.aio.UnaryStreamClientInterceptor):
    async def intercept_unary_stream(self, continuation, details, request):
        return await continuation(details, request)


class AioJoinInterceptor(grpc.aio.StreamUnaryClientInterceptor):
    async def intercept_stream_unary(self, continuation, details, requests):
        return await continuation(details, requests)


class AioTalkInterceptor(grpc.aio.StreamStreamClientInterceptor):
    async def intercept_stream_stream(self, continuation, details, requests):
        return await continuation(details, requests)


def test_interceptors_of_the_application_work(peers):
    callee = peers("grpc_app", service="callee")
    with faultloom.starting(SIGNER) as started:
        for client, replies, join, talk in (
            (SYNC, SyncInterceptor(), SyncInterceptor(), SyncInterceptor()),
            (AIO, AioInterceptor(), AioJoinInterceptor(), AioTalkInterceptor()),
        ):
            assert client.replies(callee.address, "Stream", b"2", interceptor=replies) == ([b"0", b"1"], None)
            assert client.join(callee.address, "Join", [b"1", b"2"], interceptor=join) == ([b"1+2"], None)
            assert client.talk(callee.address, "Talk", [b"a"], interceptor=talk) == ([b"re:a"], None)
    assert ends(started.history.segment) == [("replied", 0, False, "callee")] * 6


# -- faults: healthy, disturbed, healthy

CODES = {"unavailable": 14, "status": 8, "deadline": 4, "reset": 14, "hang": 4, "lost-reply": 14}
ARG = {"delay": 200, "hang": 300, "status": 8}
SHAPES = {
    "replies": (lambda client, address: client.replies(address, "Stream", b"2"), [b"0", b"1"]),
    "join": (lambda client, address: client.join(address, "Join", [b"1", b"2"]), [b"1+2"]),
    "talk": (lambda client, address: client.talk(address, "Talk", [b"a", b"b"]), [b"re:a", b"re:b"]),
}


@SERVERS
@CLIENTS
@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("kind", ["unavailable", "status", "deadline", "reset", "delay", "hang", "lost-reply", "empty-reply", "corrupt-reply"])
def test_every_fault_of_a_stream(peers, mode, client, shape, kind):
    callee = peers("grpc_app", *mode, service="callee")
    run, healthy = SHAPES[shape]
    for faults in (None, [Fault(kind, arg=ARG.get(kind, 0))], None):
        begun = time.monotonic()
        with faultloom.starting(SIGNER, faults) as started:
            got, error = run(client, callee.address)
        seconds = time.monotonic() - begun
        segment = started.history.segment
        if faults is None:
            assert (got, error) == (healthy, None) and ends(segment) == [("replied", 0, False, "callee")]
            continue
        assert faults_fired(segment) == [0]
        code = CODES.get(kind)
        if code is not None:
            assert got == [] and error.code().value[0] == code
            ran = kind == "lost-reply"
            assert ends(segment) == [("replied" if kind == "status" else "failed", code, False, "callee" if ran else None)]
        elif kind == "delay":
            assert got == healthy and ends(segment) == [("replied", 0, False, "callee")]
        else:
            changed = {"empty-reply": lambda m: b"", "corrupt-reply": lambda m: m[: len(m) // 2] + b"\xff" * (len(m) - len(m) // 2)}[kind]
            assert got == [changed(message) for message in healthy] and ends(segment) == [("replied", 0, False, "callee")]
        assert seconds >= ARG.get(kind, 0) / 1000 * (kind in ("delay", "hang"))


@CLIENTS
def test_a_lost_reply_of_a_stream_that_really_failed_stays_that_failure(own_peer, client):
    gone = own_peer("grpc_app", sdk=False)
    gone.stop()
    with faultloom.starting(SIGNER, [Fault("lost-reply")]) as started:
        got, error = client.replies(gone.address, "Stream", b"2")
    assert error.code() is grpc.StatusCode.UNAVAILABLE and "refused" in error.details()
    assert ends(started.history.segment) == [("failed", 14, True, None)]


@CLIENTS
def test_a_lost_end_of_a_stream_without_messages(peers, client):
    callee = peers("grpc_app", service="callee")
    with faultloom.starting(SIGNER, [Fault("lost-reply")]) as started:
        got, error = client.replies(callee.address, "Stream", b"0")
    assert got == [] and error.code() is grpc.StatusCode.UNAVAILABLE
    assert ends(started.history.segment) == [("failed", 14, False, "callee")]


@CLIENTS
@pytest.mark.parametrize("kind", ["delay", "hang"])
def test_the_callers_deadline_ends_a_delayed_stream(peers, client, kind):
    callee = peers("grpc_app", service="callee")
    begun = time.monotonic()
    with faultloom.starting(SIGNER, [Fault(kind, arg=5000)]) as started:
        got, error = client.replies(callee.address, "Stream", b"2", timeout=0.3)
    assert error.code() is grpc.StatusCode.DEADLINE_EXCEEDED and time.monotonic() - begun < 4
    assert ends(started.history.segment) == [("failed", 4, False, None)]


def test_a_delayed_stream_can_be_canceled_and_does_not_block_its_caller(peers):
    callee = peers("grpc_app", service="callee")
    begun = time.monotonic()
    with grpc.insecure_channel(callee.address) as channel:
        with faultloom.starting(SIGNER, [Fault("delay", arg=5000)]) as started:
            stream = channel.unary_stream("/t.T/Stream")(b"2")
            assert stream.is_active() and not stream.done() and time.monotonic() - begun < 3
            assert stream.cancel() and stream.cancelled()
            with pytest.raises(grpc.RpcError) as error:
                next(stream)
            assert error.value.code() is grpc.StatusCode.CANCELLED
    assert ends(started.history.segment) == [("failed", 1, False, None)]


def test_a_real_deadline_of_a_stream_is_a_failure_with_the_history_so_far(peers):
    callee, leaf = peers("grpc_app", service="callee"), peers("grpc_app", service="leaf")
    for client in (SYNC, AIO):
        with faultloom.starting(SIGNER) as started:
            got, error = client.replies(callee.address, "StreamOpen", b"2 " + leaf.address.encode(), timeout=0.7)
        assert got == [b"0", b"1"] and error.code() is grpc.StatusCode.DEADLINE_EXCEEDED
        assert ends(started.history.segment) == [("failed", 4, False, "callee")]


@SERVERS
def test_faults_fire_inside_a_stream(peers, mode):
    callee, leaf = peers("grpc_app", *mode, service="callee"), peers("grpc_app", service="leaf")
    request = b"3 " + leaf.address.encode()
    plan = [Fault("unavailable", Selector("callee"), nth=2)]
    for faults, messages in ((None, 3), (plan, 2), (None, 3)):
        with faultloom.starting(SIGNER, faults) as started:
            got, error = SYNC.replies(callee.address, "Stream", request)
        assert len(got) == messages and (error is None) == (faults is None)
        inner = child_of(started.history.segment)
        assert faults_fired(inner) == ([None, None, None] if faults is None else [None, 0])
