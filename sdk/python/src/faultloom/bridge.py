"""The bridge: an envelope in ``baggage``, for hops that know OpenTelemetry only (docs/formats/messages.md, "Bridge").

Such a hop passes W3C headers on without knowing us. It takes no history back: it is a gap, and the scope behind it
exports its own if export is set up.
"""

from __future__ import annotations

import re
from typing import NamedTuple, Optional, Tuple

TRACEPARENT = "traceparent"
BAGGAGE = "baggage"
MEMBER = "faultloom"
BAGGAGE_BYTES = 8192

_TRACEPARENT = re.compile(r"([0-9a-f]{2})-([0-9a-f]{32})-([0-9a-f]{16})-[0-9a-f]{2}(-.*)?", re.DOTALL)


class Parent(NamedTuple):
    """Trace and caller as ``traceparent`` names them."""

    trace: bytes
    call: int


class Bridged(NamedTuple):
    """What a request without the usual carrier brought in baggage: the envelope's text, and the call it belongs to."""

    envelope: str
    call: int


def parse_traceparent(text: str) -> Optional[Parent]:
    found = _TRACEPARENT.fullmatch(text)
    if found is None:
        return None
    version, trace, parent, more = found.groups()
    if version == "ff" or (version == "00" and more is not None) or not int(trace, 16) or not int(parent, 16):
        return None
    return Parent(bytes.fromhex(trace), int(parent, 16))


def traceparent(trace: bytes, call: int) -> str:
    return f"00-{trace.hex()}-{call:016x}-01"


def _key_of(member: str) -> str:
    return member.partition(";")[0].partition("=")[0].strip()


def baggage_with(baggage: str, envelope: str) -> str:
    """``baggage`` with our member behind the others; without it if it has no room. "" is no header."""
    members = (member.strip() for member in baggage.split(","))
    kept = [member for member in members if member and _key_of(member) != MEMBER]
    added = ",".join([*kept, f"{MEMBER}={envelope}"])
    return added if len(added.encode("utf-8", "replace")) <= BAGGAGE_BYTES else ",".join(kept)


def outgoing(given_traceparent: str, given_baggage: str, envelope: str, trace: bytes, call: int) -> Tuple[str, str]:
    """``traceparent`` and ``baggage`` as they leave; what the application set is kept."""
    return given_traceparent or traceparent(trace, call), baggage_with(given_baggage, envelope)


def incoming(given_traceparent: str, given_baggage: str) -> Optional[Bridged]:
    """The envelope in a request's baggage; None: there is none, or nothing says which call it belongs to."""
    for member in given_baggage.split(","):
        key, equals, value = member.partition(";")[0].partition("=")
        if equals and key.strip() == MEMBER:
            parent = parse_traceparent(given_traceparent)
            return None if parent is None else Bridged(value.strip(), parent.call)
    return None
