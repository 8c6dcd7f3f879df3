"""What a scope decides and records, beyond the vectors."""

from __future__ import annotations

import threading

import pytest
from conftest import SIGNER, ends, faults_fired, trust_text

from faultloom import After, Fault, Selector, decode_history
from faultloom.envelope import Receiver, accepting
from faultloom.pieces import Joiner
from faultloom.scope import NOTED_CALLS, Scope
from faultloom.trust import parse_trust

TRUST = parse_trust(trust_text())


def scope_for(plan=None, faults_on=lambda: True, **how):
    envelope = Receiver(lambda: TRUST).accept(SIGNER.envelope(plan, **how))
    return Scope("front", envelope, faults_on)


def test_a_scope_that_has_answered_sends_and_records_nothing():
    scope = scope_for()
    send = scope.send(False, "a:1", "/s/M", accepting(0, 0))
    history = scope.respond(0)
    assert scope.send(False, "a:1", "/s/M", accepting(0, 0)) is None
    scope.replied(send.number, 0)
    assert scope.respond(0) is None
    assert ends(decode_history(history).segment) == [("open", None, False, None)]


def test_a_call_ends_once():
    scope = scope_for()
    send = scope.send(False, "a:1", "/s/M", accepting(0, 0))
    scope.replied(send.number, 0, None, True)
    scope.failed(send.number, 14)
    assert ends(decode_history(scope.respond(0)).segment) == [("replied", 0, True, None)]


def test_a_reply_whose_tail_never_came_is_a_gap():
    scope = scope_for()
    scope.awaits(scope.send(True, "a:1", "GET /", accepting(0, 0)).number, 200)
    assert ends(decode_history(scope.respond(0)).segment) == [("replied", 200, True, None)]


def test_the_switch_works_for_a_request_under_way():
    on = [True]
    scope = scope_for([Fault("reset")], lambda: on[0])
    fired = [scope.send(False, "a:1", "/s/M", accepting(0, 0)).fault is not None]
    on[0] = False
    fired.append(scope.send(False, "a:1", "/s/M", accepting(0, 0)).fault is not None)
    segment = decode_history(scope.respond(0)).segment
    assert fired == [True, False] and segment.faults_off


def test_concurrent_sends_fire_a_limited_fault_once():
    scope = scope_for([Fault("reset", max_fires=1)])
    fired = []

    def work():
        for _ in range(50):
            send = scope.send(False, "a:1", "/s/M", accepting(0, 0))
            if send.fault:
                fired.append(send.number)
            scope.replied(send.number, 0)

    threads = [threading.Thread(target=work) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    segment = decode_history(scope.respond(0)).segment
    assert len(fired) == 1 and len(ends(segment)) == 400
    assert faults_fired(segment)[fired[0] - 1] == 0


@pytest.mark.parametrize("stream", [False, True])
def test_a_scope_does_not_record_for_ever(monkeypatch, stream):
    monkeypatch.setattr("faultloom.scope.EVENTS_BYTES", 2000)
    scope = scope_for()
    for _ in range(1000):
        send = scope.send(False, "peer:1", "/s/M", accepting(0, 0))
        scope.replied(send.number, 0, None, True)
    # how long the events are is looked at when they are written
    assert sum(len(rest) for _, _, rest in scope._events) + len(scope._written) < 2000 + 12 * NOTED_CALLS
    if stream:
        joiner = Joiner(scope.envelope.call)
        joiner.add(scope.respond_stream(0))
        history = joiner.history()
    else:
        history = scope.respond(0)
    segment = decode_history(history).segment
    assert segment.truncated and segment.events[-1].status == 0 and 200 < len(segment.events) < 700


def test_an_envelope_that_would_be_too_large_is_not_sent():
    plan = [Fault("reset", Selector(call="x" * 120 + str(i)), after=(After(Selector(call="y" * 120), 1),)) for i in range(13)]
    scope = scope_for(plan, call=5)
    big = [i for i in range(1, 400) if scope.send(False, "a:1", "y" * 120, accepting(0, 2**60)).envelope is None]
    fits = len(scope.envelope.passed_on)
    assert (fits + 30 > 2048) == bool(big)


def test_a_child_that_is_not_a_history_is_a_gap():
    scope = scope_for([Fault("reset", nth=9)])
    for junk in (b"", b"\2" + bytes(30), bytes(4), b"\1" + bytes(30)):
        scope.replied(scope.send(False, "a:1", "/s/M", accepting(0, 0)).number, 0, junk)
    assert all(end[2] and end[3] is None for end in ends(decode_history(scope.respond(0)).segment))
