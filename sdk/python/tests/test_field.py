"""The envelope of a unary gRPC call in a field of the message: announcement, use, and what the application gets."""

from __future__ import annotations

import asyncio
import json
from concurrent import futures
from typing import Any, List

import grpc
import pytest
from conftest import ENVIRONMENT, SIGNER, child_of, ends, trust_text
from google.protobuf.wrappers_pb2 import StringValue

import faultloom
from faultloom import Fault, Key, Selector, Signer
from faultloom.hooks.grpc.target import METADATA_ONLY, METHODS_MAX, Callee, target_for
from faultloom.hooks.process import new_process
from faultloom.scope.current import current_scope
from faultloom.scope.scope import Scope
from faultloom.wire.carriers import cut_field, encode_field
from faultloom.wire.envelope import encode_accepts
from faultloom.wire.history import TAKES_FIELD, decode_history, takes_field

SERVERS = pytest.mark.parametrize("mode", [(), ("named",), ("aio",)], ids=["sync-server", "named-methods", "aio-server"])
METADATA, FIELD, NOTHING = "metadata", "field", "nothing"
OK = ("replied", 0, False, "callee")


def step(request=b"x", method="Echo", **kwargs):
    return request, f"/t.T/{method}", kwargs


def sync_call(address, *steps, way="__call__", options=()):
    """Replies, or codes, to calls of one channel."""
    out: List[Any] = []
    with grpc.insecure_channel(address, options=options) as channel:
        for request, method, kwargs in steps:
            call = channel.unary_unary(method)
            try:
                if way == "future":
                    out.append(call.future(request, timeout=10, **kwargs).result())
                elif way == "with_call":
                    out.append(call.with_call(request, timeout=10, **kwargs)[0])
                else:
                    out.append(call(request, timeout=10, **kwargs))
            except grpc.RpcError as error:
                out.append(error.code().value[0])
    return out


def with_call(address, *steps, **kwargs):
    return sync_call(address, *steps, way="with_call", **kwargs)


def future(address, *steps, **kwargs):
    return sync_call(address, *steps, way="future", **kwargs)


def aio_call(address, *steps, options=()):
    async def run():
        out: List[Any] = []
        async with grpc.aio.insecure_channel(address, options=options) as channel:
            for request, method, kwargs in steps:
                try:
                    out.append(await channel.unary_unary(method)(request, timeout=10, **kwargs))
                except grpc.RpcError as error:
                    out.append(error.code().value[0])
        return out

    return asyncio.run(run())


CLIENTS = pytest.mark.parametrize("client", [sync_call, aio_call], ids=["sync-client", "aio-client"])
WAYS = pytest.mark.parametrize("client", [sync_call, with_call, future, aio_call], ids=["call", "with_call", "future", "aio"])


@pytest.fixture
def wire(peers):
    """``wire(callee)``: a relay to it; ``carriers_of(relay)``: the carriers of the requests that it has relayed since.
    """

    def relay(callee):
        started = peers("wire_app", callee.address, sdk=False)
        carriers_of(started)  # drops those of earlier tests
        return started

    return relay


def messages_of(relay):
    with grpc.insecure_channel(relay.address) as channel:
        return [(bytes.fromhex(message), metadata) for message, metadata in json.loads(channel.unary_unary("/t.T/Received")(b""))]


def carriers_of(relay):
    carriers = []
    for message, metadata in messages_of(relay):
        in_field = cut_field(message)[1] is not None
        assert not (in_field and metadata)
        carriers.append(FIELD if in_field else METADATA if metadata else NOTHING)
    return carriers


@SERVERS
@WAYS
def test_from_the_second_call_on_the_envelope_is_in_a_field(peers, wire, mode, client):
    callee = peers("grpc_app", *mode, service="callee")
    relay = wire(callee)
    with faultloom.starting(SIGNER) as started:
        assert client(relay.address, *(step(b"%d" % i) for i in range(3)), step(b"", metadata=(("own", "1"), ("x-faultloom-bin", b"foreign")))) == [b"0", b"1", b"2", b""]
    assert ends(started.history.segment) == [OK] * 4
    assert carriers_of(relay) == [METADATA, FIELD, FIELD, FIELD]


@SERVERS
@CLIENTS
def test_errors_announce_fields(peers, wire, mode, client):
    relay = wire(peers("grpc_app", *mode, service="callee"))
    with faultloom.starting(SIGNER) as started:
        assert client(relay.address, *[step(b"9", "Fail")] * 2, *[step(b"", "PlainFail")] * 2, *[step(b"", "Boom")] * 2) == [9, 9, 5, 5, 2, 2]
    assert ends(started.history.segment) == [("replied", code, False, "callee") for code in (9, 9, 5, 5, 2, 2)]
    assert carriers_of(relay) == [METADATA, FIELD] * 3


@SERVERS
def test_the_handler_gets_its_message_without_the_field(peers, wire, mode):
    relay = wire(peers("grpc_app", *mode, service="callee"))
    message = StringValue(value="you")
    with grpc.insecure_channel(relay.address) as channel, faultloom.starting(SIGNER) as started:
        mirror = channel.unary_unary("/t.T/Mirror", StringValue.SerializeToString)
        assert [mirror(message) for _ in range(3)] == [message.SerializeToString()] * 3
    assert ends(started.history.segment) == [OK] * 3
    (first, _), (second, _), _ = messages_of(relay)
    assert first == message.SerializeToString() == cut_field(second)[0]


@SERVERS
@CLIENTS
def test_calls_of_the_handler_belong_to_the_scope_that_a_field_opened(peers, mode, client):
    front, back = peers("grpc_app", *mode, service="callee"), peers("grpc_app", service="back")
    with faultloom.starting(SIGNER) as started:
        client(front.address, *[step(back.address.encode(), "Chain")] * 3)
    assert ends(started.history.segment) == [OK] * 3
    for call in (1, 2, 3):
        assert set(ends(child_of(started.history.segment, call))) == {("replied", 0, False, "back")}


@CLIENTS
def test_a_callee_without_the_sdk_never_gets_a_field(peers, wire, client):
    relay = wire(peers("grpc_app", sdk=False))
    with faultloom.starting(SIGNER):
        client(relay.address, *[step()] * 3)
    assert carriers_of(relay) == [METADATA] * 3


@SERVERS
@CLIENTS
def test_a_server_with_a_low_receive_limit_does_not_announce_fields(peers, wire, mode, client):
    for limit, carrier in (((1 << 20) - 1, METADATA), (1 << 20, FIELD), (-1, FIELD)):
        relay = wire(peers("grpc_app", *mode, f"limit={limit}", service="callee"))
        with faultloom.starting(SIGNER) as started:
            client(relay.address, *[step()] * 2)
        assert carriers_of(relay) == [METADATA, carrier], limit
        assert ends(started.history.segment) == [OK] * 2


@WAYS
def test_a_message_beyond_64_kib_has_its_envelope_in_metadata(peers, wire, client):
    relay = wire(peers("grpc_app", service="callee"))
    sizes = (1, 65_536, 65_537, 65_536)
    with faultloom.starting(SIGNER) as started:
        assert client(relay.address, *(step(b"x" * size) for size in sizes)) == [b"x" * size for size in sizes]
    assert carriers_of(relay) == [METADATA, FIELD, METADATA, FIELD]
    assert ends(started.history.segment) == [OK] * 4


@WAYS
def test_a_reply_without_a_history_disables_fields_permanently(peers, wire, client):
    relay = wire(peers("grpc_app", service="callee"))
    with faultloom.starting(SIGNER) as started:
        client(relay.address, step(), step(metadata=(("wire", "drop"),)), *[step()] * 3)
    assert carriers_of(relay) == [METADATA, FIELD, METADATA, METADATA, METADATA]
    assert ends(started.history.segment) == [OK, ("replied", 0, True, None), OK, OK, OK]


@WAYS
def test_after_a_failed_call_the_next_one_uses_metadata(peers, wire, client):
    relay = wire(peers("grpc_app", service="callee"))
    with faultloom.starting(SIGNER) as started:
        client(relay.address, step(), step(metadata=(("wire", "fail"),)), *[step()] * 2)
    assert carriers_of(relay) == [METADATA, FIELD, METADATA, FIELD]
    assert ends(started.history.segment) == [OK, ("failed", 14, True, None), OK, OK]


@CLIENTS
def test_a_bridged_envelope_stays_in_metadata(peers, wire, client):
    relay = wire(peers("grpc_app", service="callee"))
    for bridge in (False, True):
        with faultloom.starting(SIGNER, bridge=bridge):
            client(relay.address, *[step()] * 2)
        assert carriers_of(relay) == [METADATA, METADATA if bridge else FIELD]


@CLIENTS
@pytest.mark.parametrize("option", [("grpc.max_receive_message_length", 0), ("grpc.max_send_message_length", 60_000)])
def test_a_channel_without_room_for_fields_sends_none(peers, wire, client, option):
    relay = wire(peers("grpc_app", service="callee"))
    with faultloom.starting(SIGNER):
        client(relay.address, *[step(b"")] * 3, options=[option])
    assert carriers_of(relay) == [METADATA] * 3


def test_streams_have_their_envelopes_in_metadata(peers, wire):
    relay = wire(peers("grpc_app", service="callee"))
    with grpc.insecure_channel(relay.address) as channel, faultloom.starting(SIGNER):
        for _ in range(2):
            list(channel.unary_stream("/t.T/Stream")(b"1"))
            channel.stream_unary("/t.T/Join")(iter([b"1"]))
    assert carriers_of(relay) == [METADATA] * 4


@SERVERS
def test_histories_of_streams_do_not_announce_fields(peers, mode):
    callee = peers("grpc_app", *mode, service="callee")
    envelope = SIGNER.envelope(accept=0)
    with grpc.insecure_channel(callee.address) as channel:
        for method in ("Join", "JoinPlain"):
            _, call = channel.stream_unary(f"/t.T/{method}").with_call(iter([b"1"]), metadata=(("x-faultloom-bin", envelope),))
            (piece,) = [value for key, value in call.trailing_metadata() if key == "x-faultloom-bin"]
            assert piece[:3] == b"\x81\1\0" and not piece[3 + 9] & TAKES_FIELD


@CLIENTS
@pytest.mark.parametrize("kind", ["delay", "empty-reply", "corrupt-reply", "lost-reply", "status", "unavailable"])
def test_faults_apply_to_calls_with_fields(peers, wire, client, kind):
    relay = wire(peers("grpc_app", service="callee"))
    plan = [Fault(kind, Selector(call="Echo"), arg={"delay": 1, "status": 9}.get(kind, 0), nth=2)]
    with faultloom.starting(SIGNER, plan) as started:
        replies = client(relay.address, *[step(b"xx")] * 3)
    outcome = {"empty-reply": b"", "corrupt-reply": b"x\xff", "lost-reply": 14, "status": 9, "unavailable": 14, "delay": b"xx"}[kind]
    assert replies == [b"xx", outcome, b"xx"]
    assert carriers_of(relay) == [METADATA, FIELD] + [FIELD] * (kind not in ("status", "unavailable"))
    first, second, third = ends(started.history.segment)
    assert first == third == OK
    assert second == {
        "lost-reply": ("failed", 14, False, "callee"), "status": ("replied", 9, False, None), "unavailable": ("failed", 14, False, None),
    }.get(kind, OK)  # fmt: skip


@SERVERS
def test_a_field_takes_precedence_over_metadata(peers, mode):
    callee = peers("grpc_app", *mode, service="callee")
    other = Signer(Key("f1", True, bytes(32)), ENVIRONMENT)
    message = StringValue(value="you").SerializeToString()
    take = {"accept": 1, "receive_limit": 1 << 20}
    with grpc.insecure_channel(callee.address) as channel:
        for method in ("Mirror", "Echo"):
            for plan in (None, [Fault("delay", Selector("nobody"))]):
                metadata = (("x-faultloom-bin", SIGNER.envelope(plan, call=7, **take)),)
                call = channel.unary_unary(f"/t.T/{method}")
                reply, history = cut_field(call(message + encode_field(SIGNER.envelope(plan, call=8, **take)), metadata=metadata))
                assert reply == message and takes_field(history) and decode_history(history).call == 8
                # refused, but cut off; the envelope in the metadata is not used then
                assert call(message + encode_field(other.envelope(plan, call=9, **take)), metadata=metadata) == message
                assert call(message + encode_field(b"nonsense")) == call(message + encode_field(b"")) == message


def test_a_copy_of_a_plan_in_a_field_is_refused_unless_it_is_a_retry(monkeypatch):
    monkeypatch.setenv("FAULTLOOM_TRUST", trust_text().replace("\n", ";"))
    process = new_process()
    envelope = SIGNER.envelope([Fault("delay", Selector("nobody"))] * 10)
    retry = [("grpc-previous-rpc-attempts", "1")]
    scopes = [process.open_field_scope(envelope, lambda m=metadata: m, None, 1, 2) for metadata in ([], [], retry, retry)]
    assert [scope is not None for scope in scopes] == [True, False, True, False]
    assert scopes[0].start_us == 1
    sampled, other = Scope("callee", scopes[0].envelope), Scope("callee", scopes[0].envelope)
    sampled.is_sampled = True
    assert process.open_field_scope(b"", list, sampled, 1, 2) is sampled and not sampled.is_finished
    assert process.open_field_scope(b"", list, other, 1, 2) is None and other.is_finished
    assert process.open_field_scope(SIGNER.envelope(), list, sampled, 1, 2) is not None and sampled.is_finished


@SERVERS
def test_a_server_whose_interceptor_sends_calls_does_not_announce_fields(peers, wire, mode):
    back = peers("grpc_app", service="back")
    relay = wire(peers("grpc_app", *mode, f"calls={back.address}", service="callee"))
    with faultloom.starting(SIGNER) as started:
        sync_call(relay.address, *[step()] * 3)
    assert carriers_of(relay) == [METADATA] * 3
    for call in (1, 2, 3):
        assert ends(child_of(started.history.segment, call)) == [("replied", 0, False, "back")]


def test_a_message_that_cannot_be_serialized_fails_like_in_the_library(peers, wire):
    relay = wire(peers("grpc_app", service="callee"))
    with grpc.insecure_channel(relay.address) as channel, faultloom.starting(SIGNER) as started:
        echo = channel.unary_unary("/t.T/Echo", lambda number: b"%d" % number)
        assert echo(1) == b"1"
        with pytest.raises(grpc.RpcError) as error:
            echo("nonsense")
        assert error.value.code() is grpc.StatusCode.INTERNAL
        assert echo(2) == b"2"
    assert carriers_of(relay) == [METADATA, FIELD]
    assert ends(started.history.segment)[0] == ends(started.history.segment)[2] == OK


class RecordingInterceptor(grpc.ServerInterceptor):
    """An application's interceptor that records every request."""

    def __init__(self):
        self.requests = []

    def intercept_service(self, continuation, details):
        handler = continuation(details)

        def recording(request, context):
            self.requests.append(request)
            return handler.unary_unary(request, context)

        return grpc.unary_unary_rpc_method_handler(recording, handler.request_deserializer, handler.response_serializer)


def register(server):
    handlers = {"Echo": grpc.unary_unary_rpc_method_handler(lambda request, context: request)}
    server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler("t.T", handlers),))
    if hasattr(server, "add_registered_method_handlers"):
        server.add_registered_method_handlers("t.R", handlers)
        return "TR"
    return "T"


def test_a_field_is_cut_off_for_every_kind_of_registration_and_before_interceptors():
    """This process has hooks and no trust settings: the envelope is not accepted."""
    recorder = RecordingInterceptor()
    server = grpc.server(futures.ThreadPoolExecutor(2), interceptors=[recorder])
    services, port = register(server), server.add_insecure_port("127.0.0.1:0")
    server.start()
    with grpc.insecure_channel(f"127.0.0.1:{port}") as channel:
        for service in services:
            assert channel.unary_unary(f"/t.{service}/Echo")(b"x" + encode_field(b"envelope")) == b"x"
    server.stop(None)
    assert recorder.requests == [b"x"] * len(services)


def test_a_server_started_in_a_scope_does_not_inherit_it():
    """Regression: the tasks of a grpc.aio server inherited the scope that it was started in."""
    scopes = []

    async def handler(request, context):
        scopes.append(current_scope())
        return request

    async def run():
        server = grpc.aio.server()
        services, port = register(server), server.add_insecure_port("127.0.0.1:0")
        server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler("t.L", {"Scope": grpc.unary_unary_rpc_method_handler(handler)}),))
        with faultloom.starting(SIGNER):
            await server.start()
            async with grpc.aio.insecure_channel(f"127.0.0.1:{port}") as channel:
                assert await channel.unary_unary("/t.L/Scope")(b"x") == b"x"
                for service in services:
                    assert await channel.unary_unary(f"/t.{service}/Echo")(b"x" + encode_field(b"envelope")) == b"x"
        await server.stop(None)

    asyncio.run(run())
    assert scopes == [None]


def test_state_of_a_callee():
    with faultloom.starting(SIGNER) as started:
        sent, plain = (started.scope.begin_call(False, "peer", "/t.T/Echo", encode_accepts(1, 1 << 20)) for _ in range(2))
    sent.in_field = True
    announcing, silent = (b"\1" + sent.id.to_bytes(8, "big") + bytes((flags,)) for flags in (TAKES_FIELD, 1))
    plain_announcing = b"\1" + plain.id.to_bytes(8, "big") + bytes((TAKES_FIELD,))
    callee = Callee()
    for send, replied, history, flag in (
        (plain, True, None, 0), (plain, True, announcing, 0), (plain, True, plain_announcing, TAKES_FIELD), (plain, True, None, TAKES_FIELD),
        (plain, False, None, TAKES_FIELD), (sent, True, silent, 0), (sent, True, announcing, TAKES_FIELD), (sent, False, announcing, 0),
        (plain, True, plain_announcing, TAKES_FIELD), (sent, True, plain_announcing, 0), (sent, True, announcing, 0), (plain, True, plain_announcing, 0),
    ):  # fmt: skip
        callee.update(send, replied, history)
        assert callee.flag == flag
    METADATA_ONLY.update(sent, True, announcing)
    assert METADATA_ONLY.flag == 0


def test_the_number_of_methods_per_channel_is_limited():
    target = target_for("localhost:1", 4 << 20, True)
    callees = [target.callee(f"/t.T/{i}") for i in range(METHODS_MAX + 1)]
    assert callees[-1] is METADATA_ONLY and METADATA_ONLY not in callees[:-1]
    assert target.callee("/t.T/0") is callees[0]
    assert target_for("localhost:1", 0, True).callee("/t.T/0") is METADATA_ONLY
