"""A scope: the work a service does to answer one call.

It numbers the calls sent, decides which planned fault fires at each, and records one segment of the history. Events are
noted as they happen and written when the history leaves; child histories are taken as they came and are only looked into
when a plan has conditions to count (3MileBeach §4.2, evidence).

A function costs the interpreter more than most of what is done here, and much more in a busy process, so the way of an
ordinary call takes few of them.

The scope of a gRPC stream hands its history out in pieces (``pieces.py``): what a message has taken along is kept no longer.

A scope that has answered is *over*: it decides, sends and records nothing any more, so work that outlives its request
(background threads, timers) runs as if it had no context.
"""

from __future__ import annotations

import functools
from _thread import RLock  # what threading's function of this name makes
from time import perf_counter_ns, time_ns
from typing import Any, Callable, Dict, List, Optional, Sequence, Tuple

from . import ids
from .bridge import outgoing
from .carriers import field_bytes
from .envelope import ACCEPT_FIELD, ENVELOPE_BYTES, Envelope, to_header
from .errors import FaultloomError
from .history import (
    CALL_FAILED, FLAG_A, FLAG_B, HEAD_BYTES, HISTORY_BYTES, RECV_RESPONSE, SEND_REQUEST, SEND_RESPONSE, Segment, decode_segment,
)  # fmt: skip
from .names import NAME_BYTES, normalised_http_name
from .pieces import last_piece, piece
from .plan import Fault
from .selectors import Selector
from .wire import U64, cut, string, varint


class Send:
    """One call being sent: its number in the scope, its id, and the fault that fires at it."""

    fault_index: Optional[int] = None
    fault: Optional[Fault] = None
    #: None: it would be too large, the call goes out without one
    envelope: Optional[bytes] = None
    ended = False
    #: the envelope travels in a field of the message (gRPC)
    in_field = False

    number: int
    id: int
    peer: str
    name: str
    #: what its history begins with
    head: bytes


_new_send = Send.__new__  # a scope does the rest itself


class _Counters:
    __slots__ = ("after", "fired", "matched")

    def __init__(self) -> None:
        self.matched = 0
        self.fired = 0
        self.after: List[int] = []


class Evidence:
    """The counters that a plan's conditions are judged by."""

    def __init__(self, faults: List[Fault], values: Sequence[int]) -> None:
        self.faults = faults
        self.counters: List[_Counters] = []
        self._matches: Dict[Tuple[Selector, str, str, str], bool] = {}
        it = iter(values)
        for fault in faults:
            c = _Counters()
            c.matched = next(it, 0) if fault.nth else 0
            c.fired = next(it, 0) if fault.max_fires else 0
            c.after = [next(it, 0) for _ in fault.after]
            self.counters.append(c)

    def encode(self) -> bytes:
        out = bytearray()
        for fault, c in zip(self.faults, self.counters):
            if fault.nth:
                out += varint(c.matched)
            if fault.max_fires:
                out += varint(c.fired)
            for value in c.after:
                out += varint(value)
        return bytes(out)

    def decide(self, caller: str, peer: str, name: str, faults_on: bool) -> Optional[int]:
        chosen: Optional[int] = None
        for index, (fault, c) in enumerate(zip(self.faults, self.counters)):
            if not fault.selector.matches(caller, peer, name):
                continue
            c.matched += 1
            if (
                faults_on
                and chosen is None
                and (not fault.nth or fault.nth == c.matched)
                and (not fault.max_fires or c.fired < fault.max_fires)
                and all(seen >= after.times for after, seen in zip(fault.after, c.after))
            ):
                c.fired += 1
                chosen = index
        return chosen

    def count_after(self, sent: bool, caller: str, peer: str, name: str) -> None:
        for fault, c in zip(self.faults, self.counters):
            if fault.after and fault.after_sent == sent:
                for i, after in enumerate(fault.after):
                    if self._match(after.selector, caller, peer, name):
                        c.after[i] += 1

    def _match(self, selector: Selector, caller: str, peer: str, name: str) -> bool:
        # a history of thousands of events has few distinct calls
        key = (selector, caller, peer, name)
        known = self._matches.get(key)
        if known is None:
            if len(self._matches) > 4096:
                self._matches.clear()
            known = self._matches[key] = selector.matches(caller, peer, name)
        return known

    def walk(self, segment: Segment) -> None:
        """Counts what happened below. Iterative depth is at most 64, which the decoder has checked."""
        caller = segment.service
        sent: List[Tuple[str, str]] = []
        for event in segment.events:
            if event.kind == SEND_REQUEST:
                sent.append((event.peer, event.name))
                for fault, c in zip(self.faults, self.counters):
                    if self._match(fault.selector, caller, event.peer, event.name):
                        c.matched += 1
                self.count_after(True, caller, event.peer, event.name)
                if event.fault is not None and event.fault < len(self.counters):
                    self.counters[event.fault].fired += 1
            elif event.kind != SEND_RESPONSE:
                if event.kind == RECV_RESPONSE:
                    self.count_after(False, caller, *sent[event.call - 1])
                if event.child is not None:
                    self.walk(event.child)


#: no carrier takes more, so a scope that lives long must not record for ever; noted events are not counted, which are few
EVENTS_BYTES = 2 * HISTORY_BYTES

#: calls after which the events are written that were noted: as notes they take more room
NOTED_CALLS = 256

_SMALL = [bytes((value,)) for value in range(128)]
#: the part of the time of day in µs that is the same for minutes
_high = functools.lru_cache(maxsize=8)(varint)


# services make the same few calls again and again
@functools.lru_cache(maxsize=4096)
def _literal(text: str) -> bytes:
    return b"\0" + string(text)


@functools.lru_cache(maxsize=4096)
def _recorded(text: str) -> str:
    return cut(text, NAME_BYTES) or "?"


def _reference(strings: Dict[str, bytes], text: str) -> bytes:
    known = strings.get(text)
    if known is not None:
        return known
    strings[text] = varint(len(strings) + 1)
    return _literal(text)


def _call_in(strings: Dict[str, bytes], name: str, peer: str) -> bytes:
    return _reference(strings, _recorded(name)) + _reference(strings, _recorded(peer))


@functools.lru_cache(maxsize=1024)
def _first_call(name: str, peer: str) -> Tuple[bytes, Dict[str, bytes]]:
    """What the first call of a scope is recorded as, and the strings that are known from there on (not to be changed)."""
    strings: Dict[str, bytes] = {}
    return _call_in(strings, name, peer), strings


@functools.lru_cache(maxsize=1024)
def _names(service: str, call: str) -> bytes:
    return string(service) + string(cut(call, NAME_BYTES))


#: event kind, status, history, gap
_End = Tuple[int, int, Optional[bytes], bool]


class Scope:
    """Thread-safe: a service may send from many threads to answer one call. Times are µs since the start."""

    # what most scopes never change stays with the class: there is one for each request

    over = False
    #: where the finished history goes instead of the reply, if it does
    destination: Optional[Callable[[bytes], None]] = None
    #: the call's name where the history has no caller that names it
    called = ""
    #: what a server's hook notes for the end of the call: its context
    answer: Any = None
    #: TAKES_FIELD if the history is to say that
    takes_field = 0
    #: in ns
    _clock: Callable[[], int] = staticmethod(perf_counter_ns)
    _evidence: Optional[Evidence] = None
    _saw_faults_off = False
    _last_us = 0
    #: bytes of the histories below and of what is written
    _size = 0
    #: those that are written already
    _written = b""
    #: nothing more is recorded but the answer
    _full = False
    #: bytes of the history that messages of a stream have taken along
    _taken = 0
    #: those that were named in calls, as later ones name them; with one call they are another scope's too
    _strings: Dict[str, bytes]
    #: calls whose end is still to come but known should the scope answer before it: number -> how to record it
    _pending: Optional[Dict[int, Callable[[], _End]]] = None

    def __init__(
        self,
        service: str,
        envelope: Envelope,
        faults_on: Callable[[], bool] = lambda: True,
        start_us: Optional[int] = None,
        clock: Optional[Callable[[], int]] = None,
        start_ns: Optional[int] = None,
    ) -> None:
        """``service`` has ``SERVICE_BYTES`` at most. ``faults_on`` is asked at every send, so that the switch works for requests
        under way. ``start_us`` and ``start_ns`` are the start by both clocks if that was not now; ``clock`` (µs since the start) is given by tests only."""
        self.service = service
        self.envelope = envelope
        self.start_us = time_ns() // 1000 if start_us is None else start_us
        self._start_ns = perf_counter_ns() if start_ns is None else start_ns
        self.faults_on = faults_on
        self._lock = RLock()
        self.sent: List[Send] = []
        #: tag, time, and what follows them
        self._events: List[Tuple[int, int, bytes]] = []
        if clock is not None:
            self._clock, self._start_ns = (lambda: clock() * 1000), 0
        if envelope.plan:
            self._strings = {}
            self._evidence = Evidence(envelope.plan, envelope.evidence)
            self._saw_faults_off = not faults_on()

    def _event(self, tag: int, rest: bytes) -> None:
        if self._full or self._size > EVENTS_BYTES:
            self._full = True
            return
        self._events.append((tag, self._clock(), rest))

    def _write(self, name: Optional[str]) -> bytes:
        """The events since the last time, behind the head of the history if there is a name."""
        if name is None:
            head = self._written
        else:
            us = self.start_us
            flags = _SMALL[self.takes_field | 2 * self._saw_faults_off | self._full]
            start = bytes((us & 127 | 128, us >> 7 & 127 | 128, us >> 14 & 127 | 128, us >> 21 & 127 | 128)) + _high(us >> 28) if us >> 28 else varint(us)
            head = b"\1" + self.envelope.call.to_bytes(8, "big") + flags + _names(self.service, name) + start + self._written
        self._written = b""
        out = bytearray()
        last, begin = self._last_us, self._start_ns
        for tag, at, rest in self._events:
            at = (at - begin) // 1000
            step = at - last
            if step < 0:
                step = 0
            else:
                last = at
            # as ``varint`` writes it
            if step < 128:
                out += bytes((tag, step)) + rest
            elif step < 16_384:
                out += bytes((tag, step & 127 | 128, step >> 7)) + rest
            elif step < 2_097_152:
                out += bytes((tag, step & 127 | 128, step >> 7 & 127 | 128, step >> 14)) + rest
            else:
                out += _SMALL[tag] + varint(step) + rest
        self._last_us = last
        self._events = []
        return head + out

    def send(self, http: bool, peer: str, name: str, accepts: bytes) -> Optional[Send]:
        """Decides about one call; ``name`` is the gRPC method or the raw ``METHOD /path``, ``accepts`` what the envelope says about the
        reply (``accepting``). None: the scope is over."""
        with self._lock:
            if self.over:
                return None
            envelope = self.envelope
            sent = self.sent
            send = _new_send(Send)
            sent.append(send)
            send.number = number = len(sent)
            send.peer, send.name = peer, name
            # as ``ids.derive``
            z = (envelope.call + number * ids.STEP) & U64
            z = ((z ^ z >> 30) * ids.FIRST) & U64
            z = ((z ^ z >> 27) * ids.SECOND) & U64
            send.id = id = z ^ z >> 31 or 1
            wired = id.to_bytes(8, "big")
            send.head = b"\1" + wired
            if not number % NOTED_CALLS:
                self._written = self._write(None)
                self._size = len(self._written)
            if self._evidence is None:
                counters = b""
                recorded = normalised_http_name(name) if http else name
                if number == 1:
                    call, self._strings = _first_call(recorded, peer)
                else:
                    if number == 2:
                        self._strings = self._strings.copy()
                    call = _call_in(self._strings, recorded, peer)
                if self._full or self._size > EVENTS_BYTES:
                    self._full = True
                else:
                    self._events.append((SEND_REQUEST | FLAG_B if http else SEND_REQUEST, self._clock(), call))
            else:
                counters = self._decide(self._evidence, send, http)
            whole = b"".join((envelope.passed_on, wired, accepts, counters))
            if len(whole) <= ENVELOPE_BYTES:
                send.envelope = whole
            return send

    def _decide(self, evidence: Evidence, send: Send, http: bool) -> bytes:
        """Whether a fault fires; the counters to send along."""
        faults_on = self.faults_on()
        self._saw_faults_off |= not faults_on
        index = evidence.decide(self.service, send.peer, send.name, faults_on)
        call = _call_in(self._strings, normalised_http_name(send.name) if http else send.name, send.peer)
        if index is None:
            self._event(SEND_REQUEST | (FLAG_B if http else 0), call)
        else:
            send.fault_index, send.fault = index, evidence.faults[index]
            self._event(SEND_REQUEST | FLAG_A | (FLAG_B if http else 0), call + varint(index))
        evidence.count_after(True, self.service, send.peer, send.name)
        return evidence.encode()

    def replied(self, number: int, status: int, history: Optional[bytes] = None, gap: bool = False) -> None:
        """The caller has a reply, of whatever status. ``gap`` counts if there is no history."""
        self.ended(RECV_RESPONSE, number, status, history, gap)

    def failed(self, number: int, code: int, history: Optional[bytes] = None, gap: bool = False) -> None:
        """No reply; ``code`` is a gRPC code, for HTTP too."""
        self.ended(CALL_FAILED, number, code, history, gap)

    def bridged(self, send: Send, given_traceparent: str, given_baggage: str) -> Tuple[str, str]:
        """``traceparent`` and ``baggage`` of a call whose envelope also travels in them."""
        assert send.envelope is not None
        return outgoing(given_traceparent, given_baggage, to_header(send.envelope), self.envelope.trace, send.id)

    def awaits(self, number: int, status: int) -> None:
        """A reply whose history comes behind its body: recorded as a gap if the scope answers before that."""
        with self._lock:
            self._pending = self._pending or {}
            self._pending[number] = lambda: (RECV_RESPONSE, status, None, True)

    def streams(self, number: int, so_far: Callable[[], Tuple[Optional[bytes], bool]]) -> None:
        """A stream was opened. If the scope answers before its end, it is recorded as cancelled, with the history and gap of ``so_far``."""

        def cancelled() -> _End:
            return (CALL_FAILED, 1, *so_far())

        with self._lock:
            self._pending = self._pending or {}
            self._pending[number] = cancelled

    def ended(self, kind: int, number: int, status: int, history: Optional[bytes], gap: bool) -> None:
        """``replied`` (RECV_RESPONSE) or ``failed`` (CALL_FAILED)."""
        with self._lock:
            sent = self.sent[number - 1]
            if self.over or sent.ended:
                return
            sent.ended = True
            if self._pending:
                self._pending.pop(number, None)
            child: Optional[bytes] = None
            if history is not None:
                gap = True
                if history.startswith(sent.head):
                    child = history[HEAD_BYTES:]
                    size = len(child)
                    gap = size > HISTORY_BYTES - HEAD_BYTES
                    if gap:
                        child = None
            if self._evidence is not None:
                self._count(self._evidence, kind, sent, child)
            if child is None:
                rest = varint(number) + varint(status)
            else:
                kind |= FLAG_A
                if number < 128 and status < 128 and size < 16_384:  # as ``varint`` writes them
                    rest = (bytes((number, status, size)) if size < 128 else bytes((number, status, size & 127 | 128, size >> 7))) + child
                else:
                    rest = b"".join((varint(number), varint(status), varint(size), child))
                self._size += size
            if self._full or self._size > EVENTS_BYTES:
                self._full = True
            else:
                self._events.append((kind | FLAG_B if gap else kind, self._clock(), rest))

    def _count(self, evidence: Evidence, kind: int, sent: Send, child: Optional[bytes]) -> None:
        if kind == RECV_RESPONSE:
            evidence.count_after(False, self.service, sent.peer, sent.name)
        if child is not None:
            try:
                evidence.walk(decode_segment(child))
            except FaultloomError:
                pass

    def respond(self, status: int, name: str = "") -> Optional[bytes]:
        """Ends the scope and returns its history; None if it was over already. ``name``: the route template, or empty."""
        with self._lock:
            if self.over:
                return None
            if self._pending:
                self._end_pending()
            self._events.append((SEND_RESPONSE, self._clock(), _SMALL[status] if status < 128 else varint(status)))
            self.over = True
            history = self._write(name or self.called)
        if self.destination is None:
            return history
        self.destination(history)
        return None

    @property
    def returns(self) -> bool:
        """Whether the reply carries the history."""
        return self.envelope.history and self.destination is None

    def piece(self, message_bytes: int) -> Optional[bytes]:
        """What a stream's reply message of that size takes along; None: nothing is new, or it has no room for that."""
        envelope = self.envelope
        with self._lock:
            if self.over or not self.returns or not envelope.accept & ACCEPT_FIELD or (self._taken and not self._events and not self._written):
                return None
            events = self._write(None)
            data = events if self._taken else self._write("") + events
            out = piece(self._taken, data)
            if message_bytes + field_bytes(len(out)) > envelope.receive_limit:
                self._written = events
                return None
            self._taken += len(data)
            self._size = 0
            return out

    def respond_stream(self, status: int, name: str = "") -> Optional[bytes]:
        """Ends the scope of a stream; the piece for its trailer, if there is one. ``name`` counts if no message took the head along."""
        with self._lock:
            if self.over:
                return None
            if self._pending:
                self._end_pending()
            self._events.append((SEND_RESPONSE, self._clock(), varint(status)))
            self.over = True
            events = self._write(None)
            head = b"" if self._taken else self._write(name or self.called)
        if self.destination is not None:
            self.destination(head + events)
            return None
        return last_piece(self._taken, head, events, self._full) if self.envelope.history else None

    def _end_pending(self) -> None:
        for number, pending in list((self._pending or {}).items()):
            kind, code, history, gap = pending()
            self.ended(kind, number, code, history, gap)

    def abandon(self) -> None:
        """Ends the scope without an answer."""
        with self._lock:
            self.over = True
            self._events, self._written = [], b""
