"""A plan's bytes: a string table, then the faults."""

from __future__ import annotations

from typing import Any, Dict, List, NamedTuple, Sequence, Tuple

from .errors import FaultloomError, malformed
from .primitives import Reader, encode_string, encode_varint
from .selectors import Selector

FAULTS_MAX = 64
STRINGS_MAX = 128
STRING_BYTES = 128
AFTER_MAX = 8

KINDS = ("unavailable", "status", "deadline", "reset", "delay", "hang", "lost-reply", "empty-reply", "corrupt-reply")

_ARG, _NTH, _MAX_FIRES, _AFTER, _SENT = 1, 2, 4, 8, 16


class After(NamedTuple):
    """One prerequisite: calls that ``selector`` matches have happened ``times`` times."""

    selector: Selector
    times: int = 1


class Fault(NamedTuple):
    """One planned fault.

    ``arg``: a status code, or milliseconds for delay and hang. 0 means unset, also for ``nth`` and ``max_fires``.
    """

    kind: str
    selector: Selector = Selector()
    arg: int = 0
    nth: int = 0
    max_fires: int = 0
    after: Tuple[After, ...] = ()
    after_sent: bool = False

    def to_json(self) -> Dict[str, Any]:
        """The form of spec/README.md."""
        return {
            "kind": self.kind,
            "arg": self.arg,
            "caller": self.selector.caller,
            "callee": self.selector.callee,
            "call": self.selector.call,
            "nth": self.nth,
            "max_fires": self.max_fires,
            "after": [
                {"caller": a.selector.caller, "callee": a.selector.callee, "call": a.selector.call, "times": a.times}
                for a in self.after
            ],
            "after_counts": "sent" if self.after_sent else "completed",
        }

    @property
    def counters(self) -> int:
        """The number of evidence counters that an envelope has for this fault."""
        return (self.nth != 0) + (self.max_fires != 0) + len(self.after)


def encode_plan(faults: Sequence[Fault]) -> bytes:
    """Raises ``too_many_faults``, ``unknown_fault`` or ``envelope_too_large`` (a limit of the format)."""
    if len(faults) > FAULTS_MAX:
        raise FaultloomError("too_many_faults")
    if not faults:
        raise malformed("a plan has at least one fault")
    table: Dict[str, int] = {}

    def selector(s: Selector) -> bytes:
        return b"".join(encode_varint(table.setdefault(part, len(table) + 1) if part else 0) for part in (s.caller, s.callee, s.call))

    body = bytearray(encode_varint(len(faults)))
    for fault in faults:
        if fault.kind not in KINDS:
            raise FaultloomError("unknown_fault", fault.kind)
        flags = _ARG * bool(fault.arg) | _NTH * bool(fault.nth) | _MAX_FIRES * bool(fault.max_fires)
        body.append(KINDS.index(fault.kind) + 1)
        body.append(flags | _AFTER * bool(fault.after) | _SENT * fault.after_sent)
        body += selector(fault.selector)
        for value in (fault.arg, fault.nth, fault.max_fires):
            if value:
                body += encode_varint(value)
        if fault.after:
            if len(fault.after) > AFTER_MAX:
                raise FaultloomError("envelope_too_large", "a fault has at most 8 prerequisites")
            body += encode_varint(len(fault.after))
            for after in fault.after:
                body += selector(after.selector) + encode_varint(after.times)
    strings = [encode_string(text) for text in table]
    if len(strings) > STRINGS_MAX or any(len(text.encode()) > STRING_BYTES for text in table):
        raise FaultloomError("envelope_too_large", "too many or too long names")
    return encode_varint(len(strings)) + b"".join(strings) + bytes(body)


def decode_plan(data: bytes) -> List[Fault]:
    """Raises ``too_many_faults``, ``unknown_fault`` or ``malformed``."""
    r = Reader(data)
    strings = [""] + [r.string(1, STRING_BYTES) for _ in range(r.count(STRINGS_MAX))]
    count = r.varint()
    if count > FAULTS_MAX:
        raise FaultloomError("too_many_faults")
    if not count:
        raise malformed("an empty plan")
    faults = [_fault(r, strings) for _ in range(count)]
    if not r.done():
        raise malformed("bytes after the plan")
    return faults


def _selector(r: Reader, strings: List[str]) -> Selector:
    last = len(strings) - 1
    return Selector(strings[r.count(last)], strings[r.count(last)], strings[r.count(last)])


def _positive(r: Reader) -> int:
    value = r.varint()
    if not value:
        raise malformed("zero")
    return value


def _fault(r: Reader, strings: List[str]) -> Fault:
    kind = r.u8()
    if not 1 <= kind <= len(KINDS):
        raise FaultloomError("unknown_fault")
    flags = r.u8()
    if flags & ~31:
        raise malformed("reserved flag")
    selector = _selector(r, strings)
    arg = r.varint() if flags & _ARG else 0
    nth = _positive(r) if flags & _NTH else 0
    max_fires = _positive(r) if flags & _MAX_FIRES else 0
    after: List[After] = []
    if flags & _AFTER:
        count = r.count(AFTER_MAX)
        if not count:
            raise malformed("no prerequisites")
        after = [After(_selector(r, strings), _positive(r)) for _ in range(count)]
    return Fault(KINDS[kind - 1], selector, arg, nth, max_fires, tuple(after), bool(flags & _SENT))
