"""Calls that belonged to no request: their context had no scope, and was not that of a request without one.

While scopes are open, each of them counts such a call, because it may have been made for each of them. A process stores
the last 64. While none is open, a call costs one look at ``OPEN_SCOPES``.
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
    ("anyio", "asyncio", "concurrent", "contextlib", "faultloom", "grpc", "http", "httpcore", "httpx", "requests", "threading", "urllib", "urllib3")
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


class UnscopedCalls:
    """The last calls of a process. Thread-safe."""

    def __init__(self) -> None:
        #: how many there were
        self.sent = 0
        self._calls: Deque[UnscopedCall] = deque(maxlen=UNSCOPED_CALLS_MAX)
        self._lock = threading.Lock()

    def add(self, call: UnscopedCall) -> None:
        with self._lock:
            self._calls.append(call)
            self.sent += 1

    def since(self, before: int) -> Tuple[List[UnscopedCall], int]:
        """The calls after the first ``before``, oldest first, and how many more there were."""
        with self._lock:
            count = self.sent - before
            calls = list(self._calls)
        return calls[max(0, len(calls) - count) :], max(0, count - len(calls))


SENT_UNSCOPED = UnscopedCalls()


def count_unscoped(http: bool, peer: str, name: str) -> None:
    """Counts a call for all open scopes. ``name``: the gRPC method, or the raw ``METHOD /path``.

    The exporter's own calls are not counted.
    """
    site = _call_site()
    if site is not None:
        SENT_UNSCOPED.add(UnscopedCall(http, peer, normalize_http_name(name) if http else name, site))


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
