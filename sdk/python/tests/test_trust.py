"""Which envelopes are accepted: without a key, after a switch at runtime, after a rotation of keys."""

from __future__ import annotations

import os
import threading
import time

import grpc
import pytest
import requests
from conftest import ENVIRONMENT, SIGNER, TRACE_KEY, child_of, ends, trust_text, until

import faultloom
from faultloom import Fault, Selector

RESET_IN_FRONT = [Fault("unavailable", Selector("front"))]


def chain(front, back, signer=SIGNER, plan=None):
    with faultloom.starting(signer, plan) as started:
        text = requests.get(f"{front.url}/chain?url={back.url}/echo", timeout=5).text
    return text, started.history.segment


def write(path, text):
    temporary = path.with_suffix(".new")
    temporary.write_text(text)
    os.replace(temporary, path)


def test_without_a_key_envelopes_are_ignored(own_peer):
    front, back = own_peer("flask_app", service="front", trust=""), own_peer("grpc_app", service="back", trust="")
    text, segment = chain(front, front, plan=RESET_IN_FRONT)
    assert text == "via:hello" and ends(segment) == [("replied", 200, True, None)]
    with faultloom.starting(SIGNER) as started:
        with grpc.insecure_channel(back.address) as channel:
            assert channel.unary_unary("/t.T/Echo")(b"x", timeout=5) == b"x"
    assert ends(started.history.segment) == [("replied", 0, True, None)]
    assert front.stop().count("faultloom") == 0


def test_an_unknown_key_is_refused_and_reported_once(own_peer):
    front = own_peer("flask_app", service="front")
    foreign = faultloom.Signer(faultloom.Key("f1", True, bytes(32)), ENVIRONMENT)
    for _ in range(3):
        text, segment = chain(front, front, foreign, RESET_IN_FRONT)
        assert text == "via:hello" and ends(segment) == [("replied", 200, True, None)]
    assert [line for line in front.stop().splitlines() if line.startswith("faultloom")] == [
        "faultloom: front: refused an envelope: bad_signature (further ones are not reported)"
    ]


@pytest.mark.parametrize("text", ["environment e\nkey fault f1 zz\n", "nonsense", "key fault f1 " + "00" * 32])
def test_with_invalid_settings_envelopes_are_ignored_with_one_line(own_peer, text):
    front = own_peer("flask_app", service="front", trust=text)
    assert chain(front, front)[1].events[1].gap
    lines = [line for line in front.stop().splitlines() if line.startswith("faultloom")]
    assert len(lines) == 1 and "line" in lines[0] and "00" * 16 not in lines[0]


def test_faults_can_be_switched_at_runtime(own_peer, tmp_path):
    file = tmp_path / "trust"
    write(file, trust_text())
    front = own_peer("flask_app", service="front", FAULTLOOM_TRUST_FILE=str(file))
    assert chain(front, front, plan=RESET_IN_FRONT)[0] == "via:ConnectionError"
    write(file, trust_text(faults="off"))
    text, segment = until(lambda: (lambda r: r if r[0] == "via:hello" else None)(chain(front, front, plan=RESET_IN_FRONT)))
    assert text == "via:hello" and child_of(segment).faults_off
    write(file, trust_text())
    assert until(lambda: chain(front, front, plan=RESET_IN_FRONT)[0] == "via:ConnectionError")


@pytest.mark.parametrize("kind", ["delay", "hang"])
def test_switching_faults_off_ends_a_wait_under_way(own_peer, tmp_path, kind):
    file = tmp_path / "trust"
    write(file, trust_text())
    front = own_peer("flask_app", service="front", FAULTLOOM_TRUST_FILE=str(file))
    switch = threading.Timer(0.5, write, (file, trust_text(faults="off")))
    switch.start()
    begun = time.monotonic()
    text = chain(front, front, plan=[Fault(kind, Selector("front"), arg=20_000)])[0]
    assert 0.4 < time.monotonic() - begun < 4 and text == ("via:hello" if kind == "delay" else "via:ReadTimeout")


def test_keys_rotate_at_runtime(own_peer, tmp_path):
    file = tmp_path / "trust"
    old, new = SIGNER, faultloom.Signer(faultloom.Key("f2", True, bytes(range(5, 37))), ENVIRONMENT)
    write(file, trust_text())
    front = own_peer("flask_app", service="front", FAULTLOOM_TRUST_FILE=str(file))

    def is_accepted(signer):
        return not chain(front, front, signer)[1].events[1].gap

    assert is_accepted(old) and not is_accepted(new)
    write(file, trust_text(TRACE_KEY, old.key, new.key))
    assert until(lambda: is_accepted(new)) and is_accepted(old)
    write(file, trust_text(TRACE_KEY, new.key))
    assert until(lambda: not is_accepted(old)) and is_accepted(new)
    file.unlink()
    assert until(lambda: not is_accepted(new))
    write(file, trust_text())
    assert until(lambda: is_accepted(old))


def test_a_trace_key_permits_a_history_and_no_faults(peers):
    front = peers("flask_app", service="front")
    signer = faultloom.Signer(TRACE_KEY, ENVIRONMENT)
    text, segment = chain(front, front, signer)
    assert text == "via:hello" and ends(segment) == [("replied", 200, False, "front")]


def test_an_envelope_without_the_history_permission_returns_none(peers):
    front, back = peers("flask_app", service="front"), peers("grpc_app", service="back")
    header = SIGNER.header(RESET_IN_FRONT, history=False, accept=2)
    reply = requests.get(f"{front.url}/chain?url={front.url}/echo", headers={"x-faultloom": header}, timeout=5)
    assert reply.text == "via:ConnectionError" and not any(name.lower().startswith("x-faultloom") for name in reply.headers)
    envelope = SIGNER.envelope(None, history=False, accept=1, receive_limit=1 << 20)
    with grpc.insecure_channel(back.address) as channel:
        message, call = channel.unary_unary("/t.T/Echo").with_call(b"x", metadata=(("x-faultloom-bin", envelope),))
    assert message == b"x" and not call.trailing_metadata()


def test_a_plan_is_not_used_twice_for_one_call(peers):
    front = peers("flask_app", service="front")
    header = SIGNER.header(RESET_IN_FRONT)
    texts = [requests.get(f"{front.url}/chain?url={front.url}/echo", headers={"x-faultloom": header}, timeout=5).text for _ in range(2)]
    assert texts == ["via:ConnectionError", "via:hello"]


def test_an_expired_envelope_is_refused(peers):
    front = peers("flask_app", service="front")
    header = SIGNER.header(seconds=1)
    until(lambda: time.time() % 1 > 0.9)
    time.sleep(1.2)
    reply = requests.get(front.url + "/echo", headers={"x-faultloom": header}, timeout=5)
    assert "x-faultloom-history" not in reply.headers and reply.headers["cache-control"] == "max-age=60"
