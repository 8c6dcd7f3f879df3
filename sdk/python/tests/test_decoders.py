"""Decoders return a result or raise our error for any bytes, and encoding round trips."""

from __future__ import annotations

import itertools
import time
import zlib
from email.message import Message

import pytest
from conftest import ENVIRONMENT, FAULT_KEY, SIGNER, TRACE_KEY, trust_text
from hypothesis import given
from hypothesis import strategies as st

from faultloom import After, Fault, FaultloomError, Selector, Signer, decode_history
from faultloom.hooks.http.body import HOLD_BYTES, Decoder, RecodingWindow, Window, accepts_only_decodable, take_reply_history
from faultloom.scope.scope import Scope
from faultloom.trust.receiver import Receiver
from faultloom.trust.settings import TrustSettings, TrustSettingsError
from faultloom.wire.carriers import corrupt_body, cut_field, cut_tail, encode_field, encode_tail
from faultloom.wire.envelope import assemble_envelope, decode_header, encode_accepts, encode_header
from faultloom.wire.history import HEAD_BYTES, truncate_history
from faultloom.wire.names import normalize_http_name, raw_http_name
from faultloom.wire.plan import KINDS, decode_plan, encode_plan
from faultloom.wire.primitives import Reader, encode_string, encode_varint
from faultloom.wire.selectors import call_matches, callee_matches

TRUST = TrustSettings.parse(trust_text())
U64 = st.integers(0, 2**64 - 1)
NAMES = st.text(st.characters(blacklist_categories=["Cs"]), max_size=20)
SELECTORS = st.builds(Selector, NAMES, NAMES, NAMES)
FAULTS = st.builds(
    Fault, st.sampled_from(KINDS), SELECTORS, U64, U64, U64,
    st.lists(st.builds(After, SELECTORS, st.integers(1, 2**64 - 1)), max_size=8).map(tuple), st.booleans(),
)  # fmt: skip


def receiver() -> Receiver:
    return Receiver(lambda: TRUST)


@given(U64)
def test_varint_round_trip(value):
    r = Reader(encode_varint(value))
    assert r.varint() == value and r.done()


@given(st.binary(max_size=64))
def test_a_reader_raises_only_our_error(data):
    for read in (lambda r: r.varint(), lambda r: r.string(0, 20), lambda r: r.take(40), lambda r: r.u8()):
        try:
            read(Reader(data))
        except FaultloomError as error:
            assert error.code == "malformed"


@given(st.lists(FAULTS, min_size=1, max_size=4))
def test_plan_round_trip(faults):
    assert decode_plan(encode_plan(faults)) == faults


@given(st.binary(max_size=200))
def test_a_plan_decoder_raises_only_our_error(data):
    try:
        decode_plan(data)
    except FaultloomError as error:
        assert error.code in ("malformed", "too_many_faults", "unknown_fault")


@given(st.lists(FAULTS, max_size=3), st.booleans(), st.integers(1, 2**64 - 1), st.integers(0, 3), st.integers(0, 2**31))
def test_envelope_round_trip(faults, history, call, accept, limit):
    signed_prefix = SIGNER.sign(faults, history=history)
    evidence = b"".join(encode_varint(i) for i in range(sum(f.counters for f in faults)))
    data = assemble_envelope(signed_prefix, call, accept, limit, evidence)
    if data is None:
        return
    e = receiver().accept_header(encode_header(data))
    assert (e.plan or []) == faults and e.signed_prefix == signed_prefix and e.history == history
    assert (e.call, e.accept, e.receive_limit) == (call, accept, limit)
    assert list(e.evidence) == list(range(sum(f.counters for f in faults)))


@given(st.data())
def test_a_changed_envelope_is_refused_unless_only_its_unsigned_part_differs(data):
    whole = SIGNER.envelope([Fault("reset", Selector("a", "b", "c"), nth=2)])
    at = data.draw(st.integers(0, len(whole) - 1))
    changed = whole[:at] + bytes((whole[at] ^ data.draw(st.integers(1, 255)),)) + whole[at + 1 :]
    signed = len(SIGNER.sign([Fault("reset", Selector("a", "b", "c"), nth=2)]))
    try:
        receiver().accept(changed)
        assert at >= signed
    except FaultloomError:
        pass


@given(st.binary(max_size=300))
def test_an_envelope_decoder_raises_only_our_error(data):
    for attempt in (lambda: receiver().accept(data), lambda: receiver().accept(b"\1" + data), lambda: receiver().accept_header(encode_header(data))):
        with pytest.raises(FaultloomError):
            attempt()


@given(st.text(max_size=40))
def test_a_header_decoder_raises_only_our_error(text):
    try:
        assert encode_header(decode_header(text)) == text
    except FaultloomError as error:
        assert error.code == "malformed"


def test_without_trust_settings_envelopes_are_ignored():
    without_settings = Receiver(lambda: None)
    assert without_settings.accept(SIGNER.envelope()) is None and without_settings.accept_header("!") is None


def test_a_plan_is_accepted_once_per_call_and_attempt():
    r = receiver()
    data = SIGNER.envelope([Fault("reset")], call=7)
    assert r.accept(data) and r.accept(data, 1)
    with pytest.raises(FaultloomError, match="replayed"):
        r.accept(data)
    trace_only = SIGNER.envelope(call=7)
    assert r.accept(trace_only) and r.accept(trace_only)


def test_a_trace_key_cannot_sign_a_plan():
    with pytest.raises(FaultloomError, match="plan_not_permitted"):
        Signer(TRACE_KEY, ENVIRONMENT).sign([Fault("reset")])


def test_the_replay_memory_is_bounded(monkeypatch):
    monkeypatch.setattr("faultloom.trust.receiver.REPLAY_MEMORY_MAX", 100)
    r = receiver()
    for call in range(1, 300):
        r._admit((b"t", call, 0), int(time.time()) + 60, int(time.time()))
    assert len(r._admitted) <= 100


# -- histories


def recorded(depth: int, sends: int, replies: list) -> bytes:
    """A history recorded by scopes, like in services."""
    envelope = receiver().accept(SIGNER.envelope(call=depth + 1))
    ticks = itertools.count(0, 150)
    scope = Scope("service", envelope, start_us=10**15, clock=lambda: next(ticks))
    for i in range(sends):
        send = scope.begin_call(i % 2 == 1, f"peer-{i % 3}:80", f"GET /item/{i}" if i % 2 else "/s/Call", encode_accepts(0, 0))
        reply = replies[i % len(replies)]
        child = None
        if reply == "child" and depth > 0:
            inner = receiver().accept(assemble_envelope(envelope.signed_prefix, send.id, 0, 0, b""))
            nested = Scope("child", inner, start_us=10**15, clock=lambda: next(ticks))
            nested.begin_call(False, "leaf:1", "/s/Leaf", encode_accepts(0, 0))
            child = nested.finish(0)
        if reply != "open":
            (scope.record_failure if reply == "failed" else scope.record_reply)(send.number, 0 if child else 14, child, child is None)
    return scope.finish(0, "GET /r/{id}")


HISTORIES = st.builds(
    recorded, st.just(1), st.integers(0, 12), st.lists(st.sampled_from(["child", "failed", "gap", "open"]), min_size=1, max_size=4)
)


@given(HISTORIES, st.integers(0, 400))
def test_a_truncated_history_fits_and_is_a_prefix(history, limit):
    cut = truncate_history(history, limit)
    whole = decode_history(history).segment
    if cut is None:
        assert limit < len(history)
        return
    assert len(cut) <= limit or cut == history
    segment = decode_history(cut).segment
    assert cut == history or segment.truncated
    assert segment.events[-1].status == whole.events[-1].status and segment.events[-1].at_us == whole.events[-1].at_us
    for mine, theirs in zip(segment.events[:-1], whole.events):
        assert mine[:7] == theirs[:7]
    if len(segment.events) < len(whole.events):
        longer = truncate_history(history, limit + 64)
        assert longer is not None and len(longer) >= len(cut)


@given(HISTORIES, st.data())
def test_a_history_decoder_raises_only_our_error(history, data):
    at = data.draw(st.integers(0, len(history) - 1))
    broken = history[:at] + data.draw(st.binary(max_size=4)) + history[at + data.draw(st.integers(0, 3)) :]
    for attempt in (decode_history, lambda b: truncate_history(b, max(0, len(b) - 1)), lambda b: truncate_history(b, HEAD_BYTES + 8)):
        try:
            attempt(broken)
        except FaultloomError as error:
            assert error.code in ("malformed", "unsupported_version")


def nested(levels: int) -> bytes:
    segment = b"\0" + encode_string("s") + encode_string("") + b"\1"
    for _ in range(levels):
        segment = b"\0" + encode_string("s") + encode_string("") + b"\1" + b"\1\0" + b"\0" + encode_string("n") + b"\0" + encode_string("p") + b"\x0a\0\1\0" + encode_varint(len(segment)) + segment
    return b"\1" + bytes(8) + segment


def test_depth_and_event_count_are_limited():
    decode_history(nested(63))
    deepest = decode_history(nested(64)).segment
    for _ in range(63):
        deepest = deepest.events[-1].child
    assert deepest.events[-1].child is None and deepest.events[-1].gap
    many = b"\1" + bytes(8) + b"\0" + encode_string("s") + encode_string("") + b"\1" + b"\1\0\0\1n\0\1p" + b"\1\0\1\2" * 100_000
    with pytest.raises(FaultloomError, match="malformed"):
        decode_history(many)


def test_a_child_with_which_there_would_be_too_many_events_is_left_out():
    def call(number: int, child: bytes) -> bytes:
        return b"\1\0\0\1n\0\1p" + b"\x0a\0" + bytes((number,)) + b"\0" + encode_varint(len(child)) + child

    head = b"\0" + encode_string("s") + encode_string("") + b"\1"
    flat = [head + b"\1\0\0\1n\0\1p" + b"\1\0\1\2" * (n - 1) for n in (99_995, 99_996)]
    for child, kept in zip(flat, (True, False)):
        segment = decode_history(b"\1" + bytes(8) + head + call(1, child) + call(2, head) + b"\4\0\0").segment
        ends = [(event.child is not None, event.gap) for event in segment.events if event.call and event.status == 0 and not event.name]
        assert ends == [(kept, not kept), (True, False)]


# -- carriers


@given(st.binary(max_size=100), st.binary(max_size=300))
def test_field_and_tail_round_trip(message, history):
    assert cut_field(message + encode_field(history)) == (message, history)
    history = b"\1" + bytes(8) + b"\0" + encode_string("s") + encode_string("") + b"\1" + history
    assert cut_tail(message + encode_tail(history)) == (message, history)


@given(st.binary(max_size=100), st.integers(0, 2**32 - 1))
def test_bytes_that_resemble_a_field_or_tail_stay(message, length):
    data = message + length.to_bytes(4, "big") + b"flm\1"
    kept, history = cut_field(data)
    assert history is not None or kept == data
    body, history = cut_tail(data)
    assert (history is None and body == data) or body + history == data[:-8]


@given(st.binary(max_size=50))
def test_corruption_keeps_length_and_first_half(body):
    changed = corrupt_body(body)
    assert len(changed) == len(body) and changed[: len(body) // 2] == body[: len(body) // 2]


def through_window(data, sizes, decoder=None):
    histories, out, at = [], b"", 0
    window = Window(decoder, histories.append)
    for size in sizes:
        window.feed(data[at : at + size])
        at += size
        out += window.take(window.ready)
    window.feed(data[at:])
    window.finish()
    return out + window.take(window.ready), histories


@given(st.binary(max_size=500), st.lists(st.integers(1, 100), max_size=20), st.sampled_from(["", "gzip", "deflate", "raw"]))
def test_a_window_cuts_the_tail_however_the_body_arrives(body, sizes, coding):
    history = recorded(0, 2, ["gap"])
    data = body + encode_tail(history)
    decoder = None
    if coding:
        wbits = {"gzip": 31, "deflate": 15, "raw": -15}[coding]
        compressor = zlib.compressobj(6, zlib.DEFLATED, wbits)
        data = compressor.compress(data) + compressor.flush()
        decoder = Decoder("gzip" if coding == "gzip" else "deflate")
    assert through_window(data, sizes, decoder) == (body, [history])


def test_a_window_forwards_bytes_before_the_tail():
    window = Window(None, lambda history: None)
    window.feed(b"x" * 10)
    assert window.ready == 10 and window.take(100) == b"x" * 10
    # bytes that could be the beginning of a tail are held back, but not more than the largest tail
    begin = encode_tail(recorded(0, 2, ["gap"]))[:12]
    window.feed(begin)
    assert window.ready == 0
    window.feed(b"x" * HOLD_BYTES)
    assert window.ready == len(begin) + HOLD_BYTES


def test_a_gzip_body_of_several_members_is_decoded():
    def member(data):
        compressor = zlib.compressobj(6, zlib.DEFLATED, 31)
        return compressor.compress(data) + compressor.flush()

    body, histories = through_window(member(b"one ") + member(b"two") + member(encode_tail(recorded(0, 0, ["gap"]))), [3, 7], Decoder("gzip"))
    assert body == b"one two" and histories[0] is not None


WINDOW_BITS = {"gzip": 31, "deflate": 15, "raw": -15}


def recoded(data, sizes, coding):
    """What an application that reads at once gets of a compressed body, and its histories."""
    histories, out, at = [], b"", 0
    window = RecodingWindow(Decoder("gzip" if coding == "gzip" else "deflate"), histories.append)
    for size in sizes:
        window.feed(data[at : at + size])
        at += size
        out += window.take(window.ready)
    window.feed(data[at:])
    window.finish()
    return out + window.take(window.ready), histories


@given(st.binary(max_size=500), st.lists(st.integers(1, 100), max_size=20), st.sampled_from(["gzip", "deflate", "raw"]))
def test_a_compressed_body_is_compressed_again_without_its_tail(body, sizes, coding):
    history = recorded(0, 2, ["gap"])
    compressor = zlib.compressobj(6, zlib.DEFLATED, WINDOW_BITS[coding])
    data = compressor.compress(body + encode_tail(history)) + compressor.flush()
    got, histories = recoded(data, sizes, coding)
    assert zlib.decompress(got, WINDOW_BITS[coding]) == body and histories == [history]


@given(st.binary(max_size=300), st.integers(0, 300))
def test_a_body_that_cannot_be_decoded_arrives_as_it_was_sent(body, cut):
    compressor = zlib.compressobj(6, zlib.DEFLATED, 31)
    data = compressor.compress(body) + compressor.flush()
    for bad in (body, data[: min(cut, len(data) - 1)], data[:-8] + b"\xff" * 8, data + b"garbage"):
        got, histories = recoded(bad, [], "gzip")
        if not bad.endswith(b"garbage"):
            assert got == bad
        else:
            assert got.endswith(b"garbage") and zlib.decompressobj(31).decompress(got) == body
        assert histories == [None]


def test_a_body_that_cannot_be_decoded_after_its_begin_was_read_fails_for_its_reader():
    compressor = zlib.compressobj(0, zlib.DEFLATED, 31)
    data = compressor.compress(b"x" * 100) + compressor.flush(zlib.Z_FULL_FLUSH)
    window = RecodingWindow(Decoder("gzip"), lambda history: None)
    decoder = zlib.decompressobj(31)
    window.feed(data)
    assert decoder.decompress(window.take(window.ready)) == b"x" * 100
    window.feed(b"\xff\xff")
    with pytest.raises(zlib.error):
        decoder.decompress(window.take(window.ready))


@pytest.mark.parametrize(
    ("value", "may"),
    [("", True), ("gzip, deflate", True), ("identity", True), ("gzip, br", False), ("*", False), ("zstd", False), ("gzip;q=0.5, br;q=0", True)],
)
def test_a_tail_is_announced_only_if_every_accepted_coding_can_be_decoded(value, may):
    assert accepts_only_decodable(value) is may


# -- names and selectors


@given(st.text(max_size=250), st.text(max_size=60))
def test_names_and_selectors_take_any_text(path, other):
    name = normalize_http_name(raw_http_name("GET", "/" + path))
    assert len(name.encode("utf-8", "replace")) <= 200
    assert call_matches(name, name) and callee_matches(other, other)
    call_matches(other, name)
    callee_matches(other, path)


@given(st.text(max_size=100))
def test_invalid_trust_settings_are_refused_with_a_line_number(text):
    try:
        TrustSettings.parse(text)
    except TrustSettingsError as error:
        assert "line" in str(error)


def test_an_error_never_contains_a_key():
    with pytest.raises(TrustSettingsError) as error:
        TrustSettings.parse("environment e\nkey fault f1 " + "ab" * 31)
    assert "abab" not in str(error.value) and "line 2" in str(error.value)
    assert FAULT_KEY.secret.hex() not in repr(FAULT_KEY) and "secret" not in repr(FAULT_KEY)


def test_a_replay_is_detected_before_entries_are_evicted(monkeypatch):
    monkeypatch.setattr("faultloom.trust.receiver.REPLAY_MEMORY_MAX", 3)
    r = receiver()
    now = int(time.time())
    assert all(r._admit((b"t", call, 0), now + 60, now) for call in (1, 2, 3))
    assert not any(r._admit((b"t", call, 0), now + 60, now) for call in (1, 2, 3))


def test_the_run_id_is_present_only_if_its_bit_is_set():
    accepted = receiver().accept(SIGNER.envelope(run=b"r" * 16, bridge=True))
    assert accepted and accepted.run == b"r" * 16 and accepted.bridge
    accepted = receiver().accept(SIGNER.envelope())
    assert accepted and accepted.run is None and not accepted.bridge


@pytest.mark.parametrize(("status", "expected"), [(200, True), (201, False), (302, False), (304, False), (404, True), (500, True)])
def test_an_announcement_on_a_redirect_counts_for_nothing(status: int, expected: bool) -> None:
    headers = Message()
    headers["x-faultloom-reply"] = "tail"
    assert take_reply_history(status, headers, headers.get_all).has_tail is expected
    assert not headers
