"""The history of a reply: one segment per scope, nested in the end event of the call that returned it.

Decoding checks everything the format limits (4 MiB, depth 64, 100,000 events) and raises ``malformed`` or
``unsupported_version``, never anything else. A nested segment that cannot be read is left out, and its call has a gap.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Dict, List, NamedTuple, Optional, Set, Tuple

from .call_id import derive_call_id
from .errors import FaultloomError, malformed
from .plan import FAULTS_MAX
from .primitives import U64, Reader, encode_varint

VERSION = 1
#: the version with what version 1 does not have: inherited calls, calls of no request, times for connections
VERSION_2 = 2
HISTORY_BYTES = 4 << 20
DEPTH_MAX = 64
EVENTS_MAX = 100_000
#: how many events a scope reads of one reply's history to count them for its plan
COUNTED_EVENTS_MAX = 10_000
HEAD_BYTES = 9

SEND_REQUEST, RECV_RESPONSE, CALL_FAILED, SEND_RESPONSE, UNSCOPED_CALLS = 1, 2, 3, 4, 5
# flags in the tag of SEND_REQUEST; TAG_HTTP also of UNSCOPED_CALLS
TAG_FAULT = 8  # a fault fired
TAG_HTTP = 16  # an HTTP request
TAG_INHERITED = 32  # version 2: the call has the scope of its thread or task, because its context had none
# flags in the tag of RECV_RESPONSE and CALL_FAILED
TAG_CHILD = 8  # a child history follows
TAG_GAP = 16  # the callee may have run and no history arrived
TAG_CONNECTED = 32  # version 2: the call has set up a connection
TAKES_FIELD = 4  # flag of a segment: requests of the answered method may have their envelope in a field

_KINDS = ("", "SEND_REQUEST", "RECV_RESPONSE", "CALL_FAILED", "SEND_RESPONSE", "UNSCOPED_CALLS")


class Event(NamedTuple):
    """One event. Fields that its kind does not have are empty. ``at_us``: since the start of the segment."""

    kind: int
    at_us: int
    call: int = 0
    name: str = ""
    peer: str = ""
    http: bool = False
    fault: Optional[int] = None
    status: int = 0
    gap: bool = False
    child: Optional["Segment"] = None
    inherited: bool = False
    #: spent on a connection of its own; 0: none, or unknown
    connect_us: int = 0
    calls: int = 0
    site: str = ""


@dataclass
class Segment:
    """What one scope recorded. ``name`` is empty if the call is named in the caller's segment only."""

    service: str
    name: str
    start_us: int
    truncated: bool
    faults_off: bool
    events: List[Event] = field(default_factory=list)

    def to_json(self, call: int) -> Dict[str, Any]:
        """The form of spec/README.md; ``call`` is the id of the call this segment answers."""
        return {
            "service": self.service,
            "name": self.name,
            "start_us": self.start_us,
            "truncated": self.truncated,
            "faults_off": self.faults_off,
            "events": [_event_json(event, call) for event in self.events],
        }


def _event_json(event: Event, call: int) -> Dict[str, Any]:
    out: Dict[str, Any] = {"kind": _KINDS[event.kind], "at_us": event.at_us}
    if event.kind == SEND_REQUEST:
        out.update(
            call=event.call,
            id=f"{derive_call_id(call, event.call):016x}",
            name=event.name,
            peer=event.peer,
            protocol=_protocol(event),
            fault=event.fault,
        )
        if event.inherited:
            out["inherited"] = True
        return out
    if event.kind == UNSCOPED_CALLS:
        out.update(name=event.name, peer=event.peer, protocol=_protocol(event), count=event.calls, site=event.site)
        return out
    out["status"] = event.status
    if event.kind != SEND_RESPONSE:
        child = event.child.to_json(derive_call_id(call, event.call)) if event.child else None
        out.update(call=event.call, gap=event.gap, child=child)
        if event.connect_us:
            out["connect_us"] = event.connect_us
    return out


def _protocol(event: Event) -> str:
    return "http" if event.http else "grpc"


@dataclass
class History:
    """A decoded history: the id of the answered call, and the root segment."""

    call: int
    segment: Segment

    def to_json(self) -> Dict[str, Any]:
        return {"call": f"{self.call:016x}", "segment": self.segment.to_json(self.call)}


class Head(NamedTuple):
    """What a history has before its segment. ``call``: the id of the answered call."""

    version: int
    call: int


def split_history(data: bytes) -> Tuple[Head, bytes]:
    """The head, and the bytes of the root segment."""
    if len(data) > HISTORY_BYTES:
        raise malformed("history too large")
    if not data:
        raise malformed("empty history")
    if not _is_supported(data[0]):
        raise FaultloomError("unsupported_version")
    if len(data) < HEAD_BYTES:
        raise malformed("ends early")
    return Head(data[0], int.from_bytes(data[1:HEAD_BYTES], "big")), data[HEAD_BYTES:]


def _is_supported(version: int) -> bool:
    return version == VERSION or version == VERSION_2


def can_begin_tail(data: bytes) -> bool:
    """Whether these bytes can be the history in a tail.

    It is small enough and has version 1 or 2, a call id, and a segment that can be read up to its events.

    Readers search for the start of a tail by its first bytes, so flags that HTTP does not use and control characters
    in the service are excluded.
    """
    try:
        split_history(data)
        head = read_segment_head(Reader(data, HEAD_BYTES))
    except FaultloomError:
        return False
    return not data[HEAD_BYTES] & TAKES_FIELD and not any(char < " " or char == "\x7f" for char in head.service)


def takes_field(data: bytes) -> bool:
    """Whether the service of this history accepts envelopes in a field of the answered method's requests."""
    return len(data) > HEAD_BYTES and _is_supported(data[0]) and bool(data[HEAD_BYTES] & TAKES_FIELD)


def decode_history(data: bytes) -> History:
    """Raises ``malformed`` or ``unsupported_version``."""
    head, segment = split_history(data)
    return History(head.call, decode_segment(segment, head.version))


def decode_segment(data: bytes, version: int = VERSION) -> Segment:
    """A segment without the head of a history, as scopes embed it. ``version``: that of its history."""
    return _segment(data, 0, len(data), 0, _Budget(version, EVENTS_MAX))


def decode_counted(data: bytes, version: int = VERSION) -> Segment:
    """``decode_segment`` for a scope that counts the events. Raises ``TooManyEvents`` beyond 10,000 of them."""
    return _segment(data, 0, len(data), 0, _Budget(version, COUNTED_EVENTS_MAX, ends_reading=True))


class TooManyEvents(FaultloomError):
    """A segment, with all that are nested in it, has more events than are read."""

    def __init__(self) -> None:
        super().__init__("malformed", "too many events")


class _Budget:
    """The events that may still be read, of all nested segments together.

    ``version``: that of the history, which decides which events and flags there are. ``ends_reading``: reading ends
    where the budget ends. Otherwise only the segment that exceeds it is left out.
    """

    __slots__ = ("ends_reading", "left", "version")

    def __init__(self, version: int, left: int, ends_reading: bool = False) -> None:
        self.version, self.left, self.ends_reading = version, left, ends_reading


def read_segment_head(r: Reader) -> Segment:
    flags = r.u8()
    if flags & ~7:
        raise malformed("reserved flag")
    return Segment(r.string(1, 64), r.string(0, 200), r.varint(), bool(flags & 1), bool(flags & 2))


def _reference(r: Reader, table: List[str]) -> str:
    index = r.count(len(table))
    if index:
        return table[index - 1]
    table.append(r.string(1, 200))
    return table[-1]


def _segment(data: bytes, start: int, end: int, depth: int, budget: _Budget) -> Segment:
    if depth >= DEPTH_MAX:
        raise malformed("too deep")
    r = Reader(data, start, end)
    segment = read_segment_head(r)
    events = segment.events
    table: List[str] = []
    ended: Set[int] = set()
    nested: List[Tuple[int, int, int]] = []
    sent = at_us = kind = 0
    while r.at < end:
        if not budget.left:
            raise TooManyEvents
        budget.left -= 1
        if kind == SEND_RESPONSE:
            raise malformed("events after the answer")
        tag = r.u8()
        at_us += r.varint()
        kind = tag & 7
        if tag & ~31 and (tag & ~63 or budget.version != VERSION_2 or kind > CALL_FAILED) or at_us > U64:
            raise malformed("event")
        if kind == SEND_REQUEST:
            sent += 1
            name, peer = _reference(r, table), _reference(r, table)
            fault = r.count(FAULTS_MAX - 1) if tag & TAG_FAULT else None
            inherited = bool(tag & TAG_INHERITED)
            events.append(Event(kind, at_us, sent, name, peer, bool(tag & TAG_HTTP), fault, inherited=inherited))
        elif kind == RECV_RESPONSE or kind == CALL_FAILED:
            call = r.varint()
            if not 0 < call <= sent or call in ended:
                raise malformed("the end of a call that is not open")
            ended.add(call)
            status = r.varint()
            connect_us = r.varint() if tag & TAG_CONNECTED else 0
            if tag & TAG_CHILD:
                length = r.varint()
                if length > end - r.at:
                    raise malformed("a child longer than the rest")
                nested.append((len(events), r.at, r.at + length))
                r.at += length
            events.append(Event(kind, at_us, call, status=status, gap=bool(tag & TAG_GAP), connect_us=connect_us))
        elif kind == SEND_RESPONSE and not tag & ~7:
            events.append(Event(kind, at_us, status=r.varint()))
        elif kind == UNSCOPED_CALLS and budget.version == VERSION_2 and not tag & TAG_CHILD:
            name, peer = _reference(r, table), _reference(r, table)
            calls, site = r.varint(), r.string(0, 200)
            events.append(Event(kind, at_us, name=name, peer=peer, http=bool(tag & TAG_HTTP), calls=calls, site=site))
        else:
            raise malformed("event kind")
    # after the segment's own events: however large a nested segment is, they are not left out
    for index, start, stop in nested:
        child = _child(data, start, stop, depth + 1, budget)
        events[index] = events[index]._replace(child=child, gap=events[index].gap or child is None)
    return segment


def _child(data: bytes, start: int, end: int, depth: int, budget: _Budget) -> Optional[Segment]:
    """A nested segment. None: it is left out."""
    before = budget.left
    try:
        return _segment(data, start, end, depth, budget)
    except FaultloomError as error:
        if not budget.ends_reading:
            budget.left = before  # events that are left out do not count
        elif isinstance(error, TooManyEvents):
            raise
        return None


class _Raw(NamedTuple):
    tag: int
    step_us: int
    flat: bytes  # the event without its child history
    fixed: bytes  # the event after tag and time, without the child history


def _raw_events(r: Reader, table: Optional[List[str]]) -> List[_Raw]:
    """``table``: the strings before these events.

    None at the end of a stream, where they are unknown: any index is accepted.
    """
    events: List[_Raw] = []
    data = r.data
    while not r.done():
        start = r.at
        tag = r.u8()
        step_us = r.varint()
        fixed_at = r.at
        kind = tag & 7
        if kind == SEND_REQUEST or kind == UNSCOPED_CALLS:
            for _ in range(2):
                if table is not None:
                    _reference(r, table)
                elif not r.varint():
                    r.string(1, 200)
            if kind == UNSCOPED_CALLS:
                r.varint()
                r.string(0, 200)
            elif tag & TAG_FAULT:
                r.varint()
        elif kind == RECV_RESPONSE or kind == CALL_FAILED:
            r.varint()
            r.varint()
            if tag & TAG_CONNECTED:
                r.varint()
            if tag & TAG_CHILD:
                fixed = data[fixed_at : r.at]
                r.take(r.count(HISTORY_BYTES))
                flat = bytes((tag & ~TAG_CHILD | TAG_GAP,)) + data[start + 1 : fixed_at] + fixed
                events.append(_Raw(tag, step_us, flat, fixed))
                continue
        elif kind == SEND_RESPONSE:
            r.varint()
        else:
            raise malformed("event kind")
        events.append(_Raw(tag, step_us, data[start : r.at], data[fixed_at : r.at]))
    return events


def truncate_history(history: bytes, limit: int) -> Optional[bytes]:
    """Reduces ``history`` to ``limit`` bytes: without child histories, then with fewer events.

    None: even its head does not fit.
    """
    if len(history) <= limit:
        return history
    split_history(history)
    r = Reader(history, HEAD_BYTES)
    read_segment_head(r)
    head = bytearray(history[: r.at])
    head[HEAD_BYTES] |= 1
    kept = _fitting(_raw_events(r, []), limit - len(head))
    return None if kept is None else bytes(head) + kept


def truncate_events(events: bytes, limit: int) -> Optional[bytes]:
    """Like ``truncate_history``, for the last events of a segment without its head."""
    return _fitting(_raw_events(Reader(events), None), limit)


def _fitting(events: List[_Raw], limit: int) -> Optional[bytes]:
    if sum(len(event.flat) for event in events) <= limit:
        return b"".join(event.flat for event in events)
    if not events or events[-1].tag & 7 != SEND_RESPONSE:
        return None
    skipped = events[-1].step_us
    size = sum(len(event.flat) for event in events[:-1])
    for kept in range(len(events) - 1, -1, -1):
        closing = bytes((SEND_RESPONSE,)) + encode_varint(skipped) + events[-1].fixed
        if size + len(closing) <= limit:
            return b"".join(event.flat for event in events[:kept]) + closing
        if kept:
            skipped += events[kept - 1].step_us
            size -= len(events[kept - 1].flat)
    return None
