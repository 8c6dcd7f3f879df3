"""Evidence: the counters by which the conditions of a plan are evaluated (3MileBeach §4.2)."""

from __future__ import annotations

from typing import Dict, List, Optional, Sequence, Tuple

from ..wire.history import RECV_RESPONSE, SEND_REQUEST, SEND_RESPONSE, UNSCOPED_CALLS, Segment
from ..wire.plan import Fault
from ..wire.primitives import encode_varint
from ..wire.selectors import Selector

#: distinct matches remembered: a history of thousands of events has few distinct calls
_MATCHES_MAX = 4096


class _Counters:
    __slots__ = ("after", "fired", "matched")

    def __init__(self) -> None:
        self.matched = 0
        self.fired = 0
        self.after: List[int] = []


class Evidence:
    """The counters of one plan, at one scope. Not thread-safe: the scope's lock protects it."""

    def __init__(self, faults: List[Fault], values: Sequence[int]) -> None:
        """``values``: the counters as received, in the order of the format."""
        self.faults = faults
        self.counters: List[_Counters] = []
        #: whether any fault depends on what was counted, so that histories must be read
        self.has_conditions = any(fault.nth or fault.max_fires or fault.after for fault in faults)
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
                out += encode_varint(c.matched)
            if fault.max_fires:
                out += encode_varint(c.fired)
            for value in c.after:
                out += encode_varint(value)
        return bytes(out)

    def decide_fault(self, caller: str, peer: str, name: str, faults_enabled: bool) -> Optional[int]:
        """The index of the fault that fires at this call, or None. Counts the call in any case."""
        chosen: Optional[int] = None
        for index, (fault, c) in enumerate(zip(self.faults, self.counters)):
            if not fault.selector.matches(caller, peer, name):
                continue
            c.matched += 1
            if (
                faults_enabled
                and chosen is None
                and (not fault.nth or fault.nth == c.matched)
                and (not fault.max_fires or c.fired < fault.max_fires)
                and all(count >= after.times for after, count in zip(fault.after, c.after))
            ):
                c.fired += 1
                chosen = index
        return chosen

    def count_prerequisites(self, sent: bool, caller: str, peer: str, name: str) -> None:
        """Counts a call that was sent, or that has completed, for the prerequisites it matches."""
        for fault, c in zip(self.faults, self.counters):
            if fault.after and fault.after_sent == sent:
                for i, after in enumerate(fault.after):
                    if self._matches_call(after.selector, caller, peer, name):
                        c.after[i] += 1

    def count_segment(self, segment: Segment) -> None:
        """Counts the calls of a callee and of its callees. The decoder limits the depth to 64."""
        caller = segment.service
        sent: List[Tuple[str, str]] = []
        for event in segment.events:
            if event.kind == SEND_REQUEST:
                sent.append((event.peer, event.name))
                for fault, c in zip(self.faults, self.counters):
                    if self._matches_call(fault.selector, caller, event.peer, event.name):
                        c.matched += 1
                self.count_prerequisites(True, caller, event.peer, event.name)
                if event.fault is not None and event.fault < len(self.counters):
                    self.counters[event.fault].fired += 1
            elif event.kind != SEND_RESPONSE and event.kind != UNSCOPED_CALLS:
                if event.kind == RECV_RESPONSE:
                    self.count_prerequisites(False, caller, *sent[event.call - 1])
                if event.child is not None:
                    self.count_segment(event.child)

    def _matches_call(self, selector: Selector, caller: str, peer: str, name: str) -> bool:
        key = (selector, caller, peer, name)
        matches = self._matches.get(key)
        if matches is None:
            if len(self._matches) > _MATCHES_MAX:
                self._matches.clear()
            matches = self._matches[key] = selector.matches(caller, peer, name)
        return matches
