"""Calls that belonged to no request: their context had no scope, and was not that of a request without one.

While scopes are open, each of them counts such a call, because it may have been made for each of them. If one has
inherited the call, the others count it. A process stores the last 64. While no scope is open, a call costs one look at
``OPEN_SCOPES``.
"""

from __future__ import annotations

import os
import sys
import threading
from collections import deque
from typing import Any, Deque, List, NamedTuple, Optional, Set, Tuple

from ..wire.names import normalize_http_name

#: different calls that a segment lists; further ones are counted together
UNSCOPED_EVENTS_MAX = 16
#: calls that a process stores; of those before, only the number is known
UNSCOPED_CALLS_MAX = 64

#: one object per open scope of this process. A scope that never finishes stays, which only costs time
OPEN_SCOPES: Set[Any] = set()

#: packages that send the program's calls: their lines are not where the program makes them
_LIBRARIES = frozenset(
    ("aiohttp", "anyio", "asyncio", "concurrent", "contextlib", "faultloom", "grpc", "http", "httpcore", "httpx", "requests", "threading", "urllib", "urllib3")
)  # fmt: skip


class UnscopedCall(NamedTuple):
    """A call without a scope, sent while a scope was open.

    ``name`` is the gRPC method, or ``METHOD /path``, normalized. ``site``: where the program made the call
    (``file.py:12``), or empty.
    """

    http: bool
    peer: str
    name: str
    site: str


#: stands for calls that are not listed
OTHER_CALLS = UnscopedCall(False, "other", "other", "")


class Interval:
    """The time of one scope. ``before``: how many calls there were when it began."""

    __slots__ = ("before", "inherited")

    def __init__(self, before: int) -> None:
        self.before = before
        #: how many calls since then its scope has inherited
        self.inherited = 0


class UnscopedCalls:
    """The last calls of a process. Thread-safe."""

    def __init__(self) -> None:
        #: how many there were
        self.sent = 0
        #: each with the interval of the scope that has inherited it
        self._calls: Deque[Tuple[UnscopedCall, Optional[Interval]]] = deque(maxlen=UNSCOPED_CALLS_MAX)
        self._lock = threading.Lock()

    def add(self, call: UnscopedCall, by: Optional[Interval] = None) -> None:
        with self._lock:
            self._calls.append((call, by))
            self.sent += 1
            if by is not None:
                by.inherited += 1

    def within(self, interval: Interval) -> Tuple[List[UnscopedCall], int]:
        """The calls that the scope of this interval has not inherited, oldest first, and how many more there were."""
        with self._lock:
            sent = self.sent - interval.before
            count = sent - interval.inherited
            stored = list(self._calls)
        calls = [call for call, by in stored[max(0, len(stored) - sent) :] if by is not interval]
        return calls, count - len(calls)


SENT_UNSCOPED = UnscopedCalls()


def count_unscoped(http: bool, peer: str, name: str, by: Optional[Interval] = None) -> None:
    """Counts a call for all open scopes. ``name``: the gRPC method, or the raw ``METHOD /path``.

    ``by``: the interval of the scope that has inherited it. That scope does not count it. The exporter's own calls are
    not counted.
    """
    site = _call_site()
    if site is not None:
        SENT_UNSCOPED.add(UnscopedCall(http, peer, normalize_http_name(name) if http else name, site), by)


def _call_site() -> Optional[str]:
    """The innermost line of the program on the stack, without its folder; "" if there is none. None: the exporter.

    Clients that are generated from protobuf files are skipped.
    """
    frame = sys._getframe(2)
    while frame is not None:
        module = str(frame.f_globals.get("__name__", ""))
        if module.startswith("faultloom.entry."):
            return None
        file = frame.f_code.co_filename
        if module.partition(".")[0] not in _LIBRARIES and not file.endswith("_pb2_grpc.py"):
            return f"{os.path.basename(file)}:{frame.f_lineno}"
        frame = frame.f_back  # type: ignore[assignment]
    return ""
