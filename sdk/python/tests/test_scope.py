"""Decisions and records of scopes that the vectors do not cover."""

from __future__ import annotations

import threading

import pytest
from conftest import SIGNER, ends, faults_fired, trust_text

from faultloom import After, Fault, Selector, decode_history
from faultloom.scope.process import service_name
from faultloom.scope.scope import UNWRITTEN_CALLS_MAX, Scope
from faultloom.trust.receiver import Receiver
from faultloom.trust.settings import TrustSettings
from faultloom.wire.carriers import cut_tail, encode_tail
from faultloom.wire.envelope import encode_accepts
from faultloom.wire.pieces import PieceJoiner

TRUST = TrustSettings.parse(trust_text())


def scope_for(plan=None, faults_enabled=lambda: True, **kwargs):
    envelope = Receiver(lambda: TRUST).accept(SIGNER.envelope(plan, **kwargs))
    return Scope("front", envelope, faults_enabled)


def test_a_finished_scope_sends_and_records_nothing():
    scope = scope_for()
    send = scope.begin_call(False, "a:1", "/s/M", encode_accepts(0, 0))
    history = scope.finish(0)
    assert scope.begin_call(False, "a:1", "/s/M", encode_accepts(0, 0)) is None
    scope.record_reply(send.number, 0)
    assert scope.finish(0) is None
    assert ends(decode_history(history).segment) == [("open", None, False, None)]


@pytest.mark.parametrize(
    "name, replaced",
    [("front", "front"), ("a\x01b\x1f c\x7f\n", "a?b? c??"), ("é\x80", "é\x80"), ("\n" * 63 + "é", "?" * 63), ("\x7f" * 65, "?" * 64)],
)
@pytest.mark.parametrize("source", ["variable", "program"])
def test_the_service_name_has_no_control_characters(monkeypatch, source, name, replaced):
    monkeypatch.setenv("FAULTLOOM_SERVICE", name if source == "variable" else "")
    monkeypatch.setattr("sys.argv", [f"/bin/{name}.py"])
    assert service_name() == replaced
    history = Scope(service_name(), scope_for().envelope).finish(200)
    assert cut_tail(encode_tail(history)) == (b"", history)


def test_a_call_ends_once():
    scope = scope_for()
    send = scope.begin_call(False, "a:1", "/s/M", encode_accepts(0, 0))
    scope.record_reply(send.number, 0, None, True)
    scope.record_failure(send.number, 14)
    assert ends(decode_history(scope.finish(0)).segment) == [("replied", 0, True, None)]


def test_a_reply_whose_tail_is_missing_is_a_gap():
    scope = scope_for()
    scope.reply_started(scope.begin_call(True, "a:1", "GET /", encode_accepts(0, 0)).number, 200)
    assert ends(decode_history(scope.finish(0)).segment) == [("replied", 200, True, None)]


def test_the_faults_switch_applies_to_a_request_under_way():
    on = [True]
    scope = scope_for([Fault("reset")], lambda: on[0])
    fired = [scope.begin_call(False, "a:1", "/s/M", encode_accepts(0, 0)).fault is not None]
    on[0] = False
    fired.append(scope.begin_call(False, "a:1", "/s/M", encode_accepts(0, 0)).fault is not None)
    segment = decode_history(scope.finish(0)).segment
    assert fired == [True, False] and segment.faults_off


def test_concurrent_calls_fire_a_limited_fault_once():
    scope = scope_for([Fault("reset", max_fires=1)])
    fired = []

    def work():
        for _ in range(50):
            send = scope.begin_call(False, "a:1", "/s/M", encode_accepts(0, 0))
            if send.fault:
                fired.append(send.number)
            scope.record_reply(send.number, 0)

    threads = [threading.Thread(target=work) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    segment = decode_history(scope.finish(0)).segment
    assert len(fired) == 1 and len(ends(segment)) == 400
    assert faults_fired(segment)[fired[0] - 1] == 0


@pytest.mark.parametrize("stream", [False, True])
def test_a_scope_stops_recording_at_the_size_limit(monkeypatch, stream):
    monkeypatch.setattr("faultloom.scope.scope.EVENTS_BYTES", 2000)
    scope = scope_for()
    for _ in range(1000):
        send = scope.begin_call(False, "peer:1", "/s/M", encode_accepts(0, 0))
        scope.record_reply(send.number, 0, None, True)
    # the size of events is checked when they are encoded
    assert sum(len(rest) for _, _, rest in scope._events) + len(scope._written) < 2000 + 12 * UNWRITTEN_CALLS_MAX
    if stream:
        joiner = PieceJoiner(scope.envelope.call)
        joiner.add(scope.last_piece(0))
        history = joiner.history()
    else:
        history = scope.finish(0)
    segment = decode_history(history).segment
    assert segment.truncated and segment.events[-1].status == 0 and 200 < len(segment.events) < 700


def test_an_envelope_that_would_be_too_large_is_not_sent():
    plan = [Fault("reset", Selector(call="x" * 120 + str(i)), after=(After(Selector(call="y" * 120), 1),)) for i in range(13)]
    scope = scope_for(plan, call=5)
    big = [i for i in range(1, 400) if scope.begin_call(False, "a:1", "y" * 120, encode_accepts(0, 2**60)).envelope is None]
    fits = len(scope.envelope.signed_prefix)
    assert (fits + 30 > 2048) == bool(big)


def test_a_child_that_is_not_a_history_is_a_gap():
    scope = scope_for([Fault("reset", nth=9)])
    for junk in (b"", b"\2" + bytes(30), bytes(4), b"\1" + bytes(30)):
        scope.record_reply(scope.begin_call(False, "a:1", "/s/M", encode_accepts(0, 0)).number, 0, junk)
    assert all(end[2] and end[3] is None for end in ends(decode_history(scope.finish(0)).segment))
