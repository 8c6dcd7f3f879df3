"""The scope of an HTTP request that a server has received, and whether the request is for HTTP at all."""

from __future__ import annotations

from typing import Callable, Optional, Sequence

from ...scope.process import IncomingRequest
from ...scope.scope import Scope
from ...wire.bridge import BAGGAGE, TRACEPARENT
from ...wire.carriers import REQUEST_HEADER, last_value
from ..process import this_process


def open_scope(values_of: Callable[[str], Sequence[str]]) -> Optional[Scope]:
    """The scope of a request with a valid envelope, or of one that is sampled. ``values_of``: the lines of a header."""
    process = this_process()
    own, baggage = values_of(REQUEST_HEADER), values_of(BAGGAGE)
    if not own and not baggage and not process.entry.sample_one_in:
        return None
    traceparent = (*values_of(TRACEPARENT), "")[0]
    return process.open_scope(IncomingRequest(last_value(own) if own else None, traceparent, ",".join(baggage)))


def leaves_http(upgrade: str) -> bool:
    """Whether a request with this ``Upgrade`` header asks for another protocol, such as WebSocket.

    Java's client asks for HTTP/2 in its first request, which servers of HTTP/1.1 ignore.
    """
    return upgrade.strip().lower() not in ("", "h2c")
