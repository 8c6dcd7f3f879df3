"""The history of a reply: a segment per scope, nested in the reply event of the call that brought it back.

Decoding checks everything the format limits (4 MiB, depth 64, 100,000 events) and raises ``malformed`` or
``unsupported_version``, never anything else.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Dict, List, NamedTuple, Optional, Set, Tuple

from . import ids
from .errors import FaultloomError, malformed
from .wire import U64, Reader, varint

HISTORY_BYTES = 4 << 20
DEPTH_MAX = 64
EVENTS_MAX = 100_000
HEAD_BYTES = 9

SEND_REQUEST, RECV_RESPONSE, CALL_FAILED, SEND_RESPONSE = 1, 2, 3, 4
FLAG_A = 8  # SEND_REQUEST: a fault fired; RECV_RESPONSE, CALL_FAILED: a child history follows
FLAG_B = 16  # SEND_REQUEST: HTTP; RECV_RESPONSE, CALL_FAILED: gap
TAKES_FIELD = 4  # of a segment: requests of the answered method may have their envelope in a field

_KINDS = ("", "SEND_REQUEST", "RECV_RESPONSE", "CALL_FAILED", "SEND_RESPONSE")


class Event(NamedTuple):
    """One event; fields that its kind does not have are empty. ``at_us`` counts from the segment's start."""

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


@dataclass
class Segment:
    """What one scope recorded. ``name`` is empty if the callee knows the call by the caller's name."""

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
            id=f"{ids.derive(call, event.call):016x}",
            name=event.name,
            peer=event.peer,
            protocol="http" if event.http else "grpc",
            fault=event.fault,
        )
        return out
    out["status"] = event.status
    if event.kind != SEND_RESPONSE:
        child = event.child.to_json(ids.derive(call, event.call)) if event.child else None
        out.update(call=event.call, gap=event.gap, child=child)
    return out


@dataclass
class History:
    call: int
    segment: Segment

    def to_json(self) -> Dict[str, Any]:
        return {"call": f"{self.call:016x}", "segment": self.segment.to_json(self.call)}


def split_head(data: bytes) -> Tuple[int, bytes]:
    """The id of the call that ``data`` answers, and the root segment's bytes."""
    if len(data) > HISTORY_BYTES:
        raise malformed("history too large")
    if not data:
        raise malformed("empty history")
    if data[0] != 1:
        raise FaultloomError("unsupported_version")
    if len(data) < HEAD_BYTES:
        raise malformed("ends early")
    return int.from_bytes(data[1:HEAD_BYTES], "big"), data[HEAD_BYTES:]


def takes_field(data: bytes) -> bool:
    """Whether the service of this history takes envelopes in a field of the answered method's requests."""
    return len(data) > HEAD_BYTES and data[0] == 1 and bool(data[HEAD_BYTES] & TAKES_FIELD)


def decode_history(data: bytes) -> History:
    call, segment = split_head(data)
    return History(call, decode_segment(segment))


def decode_segment(data: bytes) -> Segment:
    """A segment by itself, as scopes embed it."""
    return _segment(data, 0, len(data), 0, [EVENTS_MAX])


def read_prefix(r: Reader) -> Segment:
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


def _segment(data: bytes, start: int, end: int, depth: int, budget: List[int]) -> Segment:
    if depth >= DEPTH_MAX:
        raise malformed("too deep")
    r = Reader(data, start, end)
    segment = read_prefix(r)
    events = segment.events
    table: List[str] = []
    ended: Set[int] = set()
    sent = at_us = kind = 0
    while r.at < end:
        budget[0] -= 1
        if budget[0] < 0:
            raise malformed("too many events")
        if kind == SEND_RESPONSE:
            raise malformed("events behind the answer")
        tag = r.u8()
        at_us += r.varint()
        if tag & ~31 or at_us > U64:
            raise malformed("event")
        kind = tag & 7
        if kind == SEND_REQUEST:
            sent += 1
            name, peer = _reference(r, table), _reference(r, table)
            fault = r.varint() if tag & FLAG_A else None
            events.append(Event(kind, at_us, sent, name, peer, bool(tag & FLAG_B), fault))
        elif kind == RECV_RESPONSE or kind == CALL_FAILED:
            call = r.varint()
            if not 0 < call <= sent or call in ended:
                raise malformed("an end without its call")
            ended.add(call)
            status = r.varint()
            child: Optional[Segment] = None
            if tag & FLAG_A:
                length = r.varint()
                if length > end - r.at:
                    raise malformed("a child longer than what is left")
                child = _segment(data, r.at, r.at + length, depth + 1, budget)
                r.at += length
            events.append(Event(kind, at_us, call, status=status, gap=bool(tag & FLAG_B), child=child))
        elif kind == SEND_RESPONSE and not tag & (FLAG_A | FLAG_B):
            events.append(Event(kind, at_us, status=r.varint()))
        else:
            raise malformed("event kind")
    return segment


class _Raw(NamedTuple):
    tag: int
    step_us: int
    flat: bytes  # the event without its child history
    fixed: bytes  # what stands behind tag and time, without the child history


def _raw_events(r: Reader, table: Optional[List[str]]) -> List[_Raw]:
    """``table``: the strings before these events; None if they are not here (the end of a stream), then any index will do."""
    events: List[_Raw] = []
    data = r.data
    while not r.done():
        start = r.at
        tag = r.u8()
        step_us = r.varint()
        fixed_at = r.at
        kind = tag & 7
        if kind == SEND_REQUEST:
            for _ in range(2):
                if table is not None:
                    _reference(r, table)
                elif not r.varint():
                    r.string(1, 200)
            if tag & FLAG_A:
                r.varint()
        elif kind == RECV_RESPONSE or kind == CALL_FAILED:
            r.varint()
            r.varint()
            if tag & FLAG_A:
                fixed = data[fixed_at : r.at]
                r.take(r.count(HISTORY_BYTES))
                flat = bytes((tag & ~FLAG_A | FLAG_B,)) + data[start + 1 : fixed_at] + fixed
                events.append(_Raw(tag, step_us, flat, fixed))
                continue
        elif kind == SEND_RESPONSE:
            r.varint()
        else:
            raise malformed("event kind")
        events.append(_Raw(tag, step_us, data[start : r.at], data[fixed_at : r.at]))
    return events


def truncate(history: bytes, limit: int) -> Optional[bytes]:
    """``history`` cut down to ``limit`` bytes: without child histories, then with fewer events; None if not even its frame fits."""
    if len(history) <= limit:
        return history
    split_head(history)
    r = Reader(history, HEAD_BYTES)
    read_prefix(r)
    head = bytearray(history[: r.at])
    head[HEAD_BYTES] |= 1
    kept = _fitting(_raw_events(r, []), limit - len(head))
    return None if kept is None else bytes(head) + kept


def shorten(events: bytes, limit: int) -> Optional[bytes]:
    """As ``truncate``, for the last events of a segment whose head is elsewhere."""
    return _fitting(_raw_events(Reader(events), None), limit)


def _fitting(events: List[_Raw], room: int) -> Optional[bytes]:
    if sum(len(event.flat) for event in events) <= room:
        return b"".join(event.flat for event in events)
    if not events or events[-1].tag & 7 != SEND_RESPONSE:
        return None
    skipped = events[-1].step_us
    size = sum(len(event.flat) for event in events[:-1])
    for kept in range(len(events) - 1, -1, -1):
        closing = bytes((SEND_RESPONSE,)) + varint(skipped) + events[-1].fixed
        if size + len(closing) <= room:
            return b"".join(event.flat for event in events[:kept]) + closing
        if kept:
            skipped += events[kept - 1].step_us
            size -= len(events[kept - 1].flat)
    return None
