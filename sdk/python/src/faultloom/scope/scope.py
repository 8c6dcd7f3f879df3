"""A scope: the work of a service for one call that it answers.

It numbers the calls sent, decides which planned fault fires at each, and records one segment of the history. Events are
noted as they happen and encoded when the history leaves. Child histories are embedded as received, and decoded only if
a plan has conditions to count (3MileBeach §4.2, evidence).

The path of an ordinary call avoids Python functions: a function call costs more than most of what is done here.

The scope of a gRPC stream returns its history in pieces (``wire.pieces``). What a message has carried away is not kept.

A finished scope decides, sends and records nothing. Work that outlives its request (background threads, timers)
therefore runs without a scope.
"""

from __future__ import annotations

import functools
from _thread import RLock  # ``threading.RLock`` without the Python function around it
from time import perf_counter_ns, time_ns
from typing import Any, Callable, Dict, List, Optional, Sequence, Tuple

from ..wire.bridge import inject_bridge
from ..wire.call_id import FIRST, SECOND, STEP
from ..wire.carriers import field_length
from ..wire.envelope import ACCEPT_FIELD, ENVELOPE_BYTES, Envelope, encode_header
from ..wire.errors import FaultloomError
from ..wire.history import (
    CALL_FAILED, HEAD_BYTES, HISTORY_BYTES, RECV_RESPONSE, SEND_REQUEST, SEND_RESPONSE, TAG_CHILD, TAG_FAULT, TAG_GAP, TAG_HTTP,
    TAG_CONNECTED, TAG_INHERITED, UNSCOPED_CALLS, VERSION, VERSION_2, TooManyEvents,
    decode_counted,
)  # fmt: skip
from ..wire.names import NAME_BYTES, normalize_http_name
from ..wire.pieces import PieceJoiner, encode_last_piece, encode_piece
from ..wire.plan import Fault
from ..wire.primitives import U64, encode_string, encode_varint, truncate_text
from .evidence import Evidence
from .unscoped import OPEN_SCOPES, OTHER_CALLS, SENT_UNSCOPED, UNSCOPED_EVENTS_MAX, Interval, UnscopedCall, count_unscoped


class OutgoingCall:
    """One call being sent. ``begin_call`` creates it."""

    #: the number in the scope, from 1
    number: int
    id: int
    peer: str
    name: str
    fault_index: Optional[int] = None
    fault: Optional[Fault] = None
    #: None: it would be too large, the call is sent without one
    envelope: Optional[bytes] = None
    #: the envelope travels in a field of the message (gRPC)
    in_field = False
    #: for streams: the request was sent, so the callee may have run
    is_sent = False
    has_ended = False
    #: spent on a connection of its own
    connect_us = 0
    #: the first bytes of its history after the version: the call id
    id_bytes: bytes


# avoids the constructor's Python function
_new_call = OutgoingCall.__new__

#: a long-lived scope stops recording, since no carrier takes more than HISTORY_BYTES; the few noted events do not count
EVENTS_BYTES = 2 * HISTORY_BYTES

#: after so many calls the noted events are encoded, which takes less memory
UNWRITTEN_CALLS_MAX = 256

#: recorded instead of an empty name or peer: the format requires at least one byte
UNKNOWN = "unknown"

_NO_STRINGS: Dict[str, bytes] = {}

_VERSIONS = (VERSION, VERSION_2)

_SMALL = [bytes((value,)) for value in range(128)]
# the high bits of the time of day in µs stay the same for minutes
_encode_high_bits = functools.lru_cache(maxsize=8)(encode_varint)


# services send the same few calls again and again
@functools.lru_cache(maxsize=4096)
def _literal(text: str) -> bytes:
    return b"\0" + encode_string(text)


@functools.lru_cache(maxsize=4096)
def _recorded_name(text: str) -> str:
    return truncate_text(text, NAME_BYTES) or UNKNOWN


def _reference(strings: Dict[str, bytes], text: str) -> bytes:
    reference = strings.get(text)
    if reference is not None:
        return reference
    strings[text] = encode_varint(len(strings) + 1)
    return _literal(text)


def _encode_call(strings: Dict[str, bytes], name: str, peer: str) -> bytes:
    return _reference(strings, _recorded_name(name)) + _reference(strings, _recorded_name(peer))


@functools.lru_cache(maxsize=1024)
def _first_call(name: str, peer: str) -> Tuple[bytes, Dict[str, bytes]]:
    """The encoding of a scope's first call, and the string table after it.

    The table is shared: copy it before a change.
    """
    strings: Dict[str, bytes] = {}
    return _encode_call(strings, name, peer), strings


@functools.lru_cache(maxsize=1024)
def _encode_names(service: str, call: str) -> bytes:
    return encode_string(service) + encode_string(truncate_text(call, NAME_BYTES))


#: event kind, status, history, gap
_End = Tuple[int, int, Optional[bytes], bool]


class Scope:
    """Thread-safe: a service may send from many threads to answer one call. Times are µs since the start."""

    # attributes that most scopes never change are class attributes: every request creates a scope
    is_finished = False
    #: takes the finished history instead of the reply
    destination: Optional[Callable[[bytes], None]] = None
    #: the trace begins here
    is_sampled = False
    #: the name of the answered call, where no caller names it in the history
    call_name = ""
    #: the context of a server's call, which its hook keeps for the end of the call
    server_context: Any = None
    #: TAKES_FIELD if the history announces that
    takes_field = 0
    #: in ns
    _clock: Callable[[], int] = staticmethod(perf_counter_ns)
    _evidence: Optional[Evidence] = None
    _faults_were_off = False
    _last_us = 0
    #: bytes of child histories and of encoded events
    _size = 0
    #: of the history: VERSION_2 once it has what version 1 does not have
    _version = VERSION
    #: encoded events
    _written = b""
    #: the size limit is reached: only the answer is still recorded
    _is_full = False
    #: bytes of the history that messages of a stream have carried away
    _taken = 0
    #: string table of the segment; without or with one call it is shared with other scopes
    _strings: Dict[str, bytes] = _NO_STRINGS
    #: calls that have not ended, by number, with the end to record if the scope finishes first
    _pending: Optional[Dict[int, Callable[[], _End]]] = None
    #: histories of streams, by number of the call
    _streams: Optional[Dict[int, PieceJoiner]] = None

    def __init__(
        self,
        service: str,
        envelope: Envelope,
        faults_enabled: Callable[[], bool] = lambda: True,
        start_us: Optional[int] = None,
        clock: Optional[Callable[[], int]] = None,
        start_ns: Optional[int] = None,
    ) -> None:
        """``service`` has at most ``SERVICE_BYTES``. ``faults_enabled`` is called at every send, so that the switch
        also applies to requests under way. ``start_us`` (since the epoch) and ``start_ns`` (by ``perf_counter_ns``):
        the start, if it was earlier than now. ``clock`` (µs since the start) is for tests."""
        self.service = service
        self.envelope = envelope
        self.start_us = time_ns() // 1000 if start_us is None else start_us
        self._start_ns = perf_counter_ns() if start_ns is None else start_ns
        self.faults_enabled = faults_enabled
        self._lock = RLock()
        OPEN_SCOPES.add(self._lock)
        self._interval = Interval(SENT_UNSCOPED.sent)
        self.calls: List[OutgoingCall] = []
        #: tag, time in ns, and the encoded rest of each event
        self._events: List[Tuple[int, int, bytes]] = []
        if clock is not None:
            self._clock, self._start_ns = (lambda: clock() * 1000), 0
        if envelope.plan:
            self._strings = {}
            self._evidence = Evidence(envelope.plan, envelope.evidence)
            self._faults_were_off = not faults_enabled()

    @property
    def returns_history(self) -> bool:
        """Whether the reply carries the history."""
        return self.envelope.history and self.destination is None

    # -- calls

    def begin_call(self, http: bool, peer: str, name: str, accepts: bytes, flags: int = 0) -> Optional[OutgoingCall]:
        """Numbers a call, decides which fault fires, and records SEND_REQUEST. None: the scope is finished.

        ``name`` is the gRPC method or the raw ``METHOD /path``, ``accepts`` as returned by ``encode_accepts``,
        ``flags`` those of ``begin_inherited_call``.
        """
        with self._lock:
            if self.is_finished:
                return None
            envelope = self.envelope
            calls = self.calls
            call = _new_call(OutgoingCall)
            calls.append(call)
            call.number = number = len(calls)
            call.peer, call.name = peer, name
            # like ``derive_call_id``
            z = (envelope.call + number * STEP) & U64
            z = ((z ^ z >> 30) * FIRST) & U64
            z = ((z ^ z >> 27) * SECOND) & U64
            call.id = id = z ^ z >> 31 or 1
            id_bytes = id.to_bytes(8, "big")
            call.id_bytes = id_bytes
            if not number % UNWRITTEN_CALLS_MAX:
                self._written = self._encode_events(None)
                self._size = len(self._written)
            if self._evidence is None:
                counters = b""
                recorded = normalize_http_name(name) if http else name
                if self._strings is _NO_STRINGS:
                    event, self._strings = _first_call(recorded, peer)
                else:
                    if number == 2:
                        self._strings = self._strings.copy()
                    event = _encode_call(self._strings, recorded, peer)
                if self._is_full or self._size > EVENTS_BYTES:
                    self._is_full = True
                else:
                    tag = SEND_REQUEST | TAG_HTTP if http else SEND_REQUEST
                    self._events.append((tag | flags, self._clock(), event))
            else:
                counters = self._decide_fault(self._evidence, call, http, flags)
            if flags:
                if len(OPEN_SCOPES) > 1:
                    count_unscoped(http, peer, name, self._interval)  # it may belong to the other scopes
                if not self._is_full:
                    self._version = VERSION_2
            whole = b"".join((envelope.signed_prefix, id_bytes, accepts, counters))
            if len(whole) <= ENVELOPE_BYTES:
                call.envelope = whole
            return call

    def begin_inherited_call(self, http: bool, peer: str, name: str, accepts: bytes) -> Optional[OutgoingCall]:
        """``begin_call`` for a call whose context had no scope, and which therefore got that of its thread or task."""
        return self.begin_call(http, peer, name, accepts, TAG_INHERITED)

    def _decide_fault(self, evidence: Evidence, call: OutgoingCall, http: bool, flags: int) -> bytes:
        """Sets the fault that fires and records SEND_REQUEST. Returns the counters to send."""
        enabled = self.faults_enabled()
        self._faults_were_off |= not enabled
        index = evidence.decide_fault(self.service, call.peer, call.name, enabled)
        event = _encode_call(self._strings, normalize_http_name(call.name) if http else call.name, call.peer)
        tag = SEND_REQUEST | (TAG_HTTP if http else 0) | flags
        if index is None:
            self._record(tag, event)
        else:
            call.fault_index, call.fault = index, evidence.faults[index]
            self._record(tag | TAG_FAULT, event + encode_varint(index))
        evidence.count_prerequisites(True, self.service, call.peer, call.name)
        return evidence.encode()

    def inject_bridge(self, call: OutgoingCall, traceparent: str, baggage: str) -> Tuple[str, str]:
        """The ``traceparent`` and ``baggage`` to send with a call. The arguments are the application's values."""
        assert call.envelope is not None
        return inject_bridge(traceparent, baggage, encode_header(call.envelope), self.envelope.trace, call.id)

    def record_reply(self, number: int, status: int, history: Optional[bytes] = None, gap: bool = False) -> None:
        """Records a reply of any status. ``gap`` applies if there is no history."""
        self.record_end(RECV_RESPONSE, number, status, history, gap)

    def record_failure(self, number: int, code: int, history: Optional[bytes] = None, gap: bool = False) -> None:
        """Records a call without a reply. ``code`` is a gRPC code, for HTTP too."""
        self.record_end(CALL_FAILED, number, code, history, gap)

    def set_connect_time(self, number: int, us: int) -> None:
        """Sets how long a call spent on a connection of its own. The end of the call records that."""
        with self._lock:
            self.calls[number - 1].connect_us = us

    def record_end(self, kind: int, number: int, status: int, history: Optional[bytes], gap: bool) -> None:
        """``record_reply`` (kind RECV_RESPONSE) or ``record_failure`` (CALL_FAILED).

        Later ends of a call are ignored.
        """
        with self._lock:
            call = self.calls[number - 1]
            if self.is_finished or call.has_ended:
                return
            call.has_ended = True
            if self._pending:
                self._pending.pop(number, None)
            child: Optional[bytes] = None
            if history is not None:
                gap = True
                if history.startswith(call.id_bytes, 1) and history[0] in _VERSIONS:
                    child = history[HEAD_BYTES:]
                    size = len(child)
                    gap = size > HISTORY_BYTES - HEAD_BYTES
                    if gap:
                        child = None
            version = history[0] if child is not None and history is not None else VERSION
            if self._evidence is not None and not self._count_end(self._evidence, kind, call, child, version):
                child, gap = None, True
            connect = b""
            if call.connect_us:
                kind |= TAG_CONNECTED
                connect = encode_varint(call.connect_us)
            if child is None:
                rest = encode_varint(number) + encode_varint(status) + connect
            else:
                kind |= TAG_CHILD
                if not connect and number < 128 and status < 128 and size < 16_384:  # like ``encode_varint``
                    rest = (bytes((number, status, size)) if size < 128 else bytes((number, status, size & 127 | 128, size >> 7))) + child
                else:
                    rest = b"".join((encode_varint(number), encode_varint(status), connect, encode_varint(size), child))
                self._size += size
            if self._is_full or self._size > EVENTS_BYTES:
                self._is_full = True
            else:
                self._events.append((kind | TAG_GAP if gap else kind, self._clock(), rest))
                if connect or version == VERSION_2 and child is not None:
                    self._version = VERSION_2

    def _count_end(
        self, evidence: Evidence, kind: int, call: OutgoingCall, child: Optional[bytes], version: int
    ) -> bool:
        """Counts the end of a call. False: its history has too many events to read them all, and is not kept."""
        if kind == RECV_RESPONSE:
            evidence.count_prerequisites(False, self.service, call.peer, call.name)
        if child is not None and evidence.has_conditions:
            try:
                evidence.count_segment(decode_counted(child, version))
            except TooManyEvents:
                return False
            except FaultloomError:
                pass  # kept all the same: the tool reports what is wrong with it
        return True

    def reply_started(self, number: int, status: int) -> None:
        """A reply whose history comes after its body: recorded as a gap if the scope finishes before that."""
        with self._lock:
            self._pending = self._pending or {}
            self._pending[number] = lambda: (RECV_RESPONSE, status, None, True)

    # -- calls that are streams

    def open_stream(self, number: int) -> PieceJoiner:
        """A call is a stream: its history comes in pieces. Recorded as canceled if the scope finishes first."""
        call, joiner = self.calls[number - 1], PieceJoiner(self.calls[number - 1].id)

        def canceled() -> _End:
            history = joiner.history()
            return CALL_FAILED, 1, history, call.is_sent and history is None

        with self._lock:
            self._pending = self._pending or {}
            self._pending[number] = canceled
            self._streams = self._streams or {}
            self._streams[number] = joiner
        return joiner

    def add_piece(self, number: int, piece: bytes) -> None:
        """Adds a piece of the history of a stream, in the order of arrival."""
        if self._streams is not None and number in self._streams:
            self._streams[number].add(piece)

    def record_unscoped(self, calls: Sequence[UnscopedCall], more: int) -> None:
        """Records calls that belonged to no request: equal ones together, in the order of the first of each.

        ``more``: the number of calls of which nothing else is known.
        """
        listed: Dict[UnscopedCall, int] = {}
        for call in calls:
            if call in listed or len(listed) < UNSCOPED_EVENTS_MAX:
                listed[call] = listed.get(call, 0) + 1
            else:
                more += 1
        with self._lock:
            if self.is_finished:
                return
            for call, count in listed.items():
                self._record_unscoped(call, count)
            if more:
                self._record_unscoped(OTHER_CALLS, more)

    def _record_unscoped(self, call: UnscopedCall, count: int) -> None:
        if self._strings is _NO_STRINGS or len(self.calls) == 1:  # shared with other scopes
            self._strings = self._strings.copy()
        names = _encode_call(self._strings, call.name, call.peer)
        rest = names + encode_varint(count) + encode_string(truncate_text(call.site, NAME_BYTES))
        self._record(UNSCOPED_CALLS | (TAG_HTTP if call.http else 0), rest)
        if not self._is_full:
            self._version = VERSION_2

    # -- the answer

    def finish(self, status: int, name: str = "") -> Optional[bytes]:
        """Records the answer and finishes the scope.

        Returns the history, or exports it if it does not travel on the reply. None: exported, or the scope was finished
        already. ``name``: the route template, or empty.
        """
        with self._lock:
            if self.is_finished:
                return None
            if self._pending:
                self._end_pending_calls()
            if SENT_UNSCOPED.sent != self._interval.before:
                self.record_unscoped(*SENT_UNSCOPED.within(self._interval))
            self._events.append((SEND_RESPONSE, self._clock(), _SMALL[status] if status < 128 else encode_varint(status)))
            self.is_finished = True
            OPEN_SCOPES.discard(self._lock)
            history = self._encode_events(name or self.call_name)
        if self.destination is None:
            return history
        self.destination(history)
        return None

    def next_piece(self, message_bytes: int) -> Optional[bytes]:
        """The piece that a stream's reply message of this size carries. None: nothing is new, or it does not fit."""
        envelope = self.envelope
        with self._lock:
            if self.is_finished or not self.returns_history or not envelope.accept & ACCEPT_FIELD:
                return None
            if self._taken and not self._events and not self._written:
                return None
            events = self._encode_events(None)
            data = events if self._taken else self._encode_events("") + events
            piece = encode_piece(self._taken, data, version=self._version)
            if message_bytes + field_length(len(piece)) > envelope.receive_limit:
                self._written = events
                return None
            self._taken += len(data)
            self._size = 0
            return piece

    def last_piece(self, status: int, name: str = "") -> Optional[bytes]:
        """Like ``finish``, for a stream: returns the piece for its trailer, if any.

        ``name`` is used if no message has carried the head of the history.
        """
        with self._lock:
            if self.is_finished:
                return None
            if self._pending:
                self._end_pending_calls()
            if SENT_UNSCOPED.sent != self._interval.before:
                self.record_unscoped(*SENT_UNSCOPED.within(self._interval))
            self._events.append((SEND_RESPONSE, self._clock(), encode_varint(status)))
            self.is_finished = True
            OPEN_SCOPES.discard(self._lock)
            events = self._encode_events(None)
            head = b"" if self._taken else self._encode_events(name or self.call_name)
        if self.destination is not None:
            self.destination(head + events)
            return None
        if not self.envelope.history:
            return None
        return encode_last_piece(self._taken, head, events, self._is_full, self._version)

    def abandon(self) -> None:
        """Finishes the scope without an answer."""
        with self._lock:
            self.is_finished = True
            OPEN_SCOPES.discard(self._lock)
            self._events, self._written = [], b""

    def _end_pending_calls(self) -> None:
        for number, pending in list((self._pending or {}).items()):
            kind, code, history, gap = pending()
            self.record_end(kind, number, code, history, gap)

    # -- encoding

    def _record(self, tag: int, rest: bytes) -> None:
        if self._is_full or self._size > EVENTS_BYTES:
            self._is_full = True
            return
        self._events.append((tag, self._clock(), rest))

    def _encode_events(self, name: Optional[str]) -> bytes:
        """The events since the last time, after the head of the history if a name is given."""
        if name is None:
            head = self._written
        else:
            us = self.start_us
            flags = _SMALL[self.takes_field | 2 * self._faults_were_off | self._is_full]
            if us >> 28:
                low_bits = bytes((us & 127 | 128, us >> 7 & 127 | 128, us >> 14 & 127 | 128, us >> 21 & 127 | 128))
                start = low_bits + _encode_high_bits(us >> 28)
            else:
                start = encode_varint(us)
            head = _SMALL[self._version] + self.envelope.call.to_bytes(8, "big") + flags + _encode_names(self.service, name) + start + self._written
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
            # like ``encode_varint``
            if step < 128:
                out += bytes((tag, step)) + rest
            elif step < 16_384:
                out += bytes((tag, step & 127 | 128, step >> 7)) + rest
            elif step < 2_097_152:
                out += bytes((tag, step & 127 | 128, step >> 7 & 127 | 128, step >> 14)) + rest
            else:
                out += _SMALL[tag] + encode_varint(step) + rest
        self._last_us = last
        self._events = []
        return head + out
