"""The bridge: an envelope in ``baggage``, past services that support OpenTelemetry only.

See docs/formats/messages.md, "Bridge". Such a service forwards W3C headers. It returns no history: it is a gap, and the
scope of its callee exports its own history if export is configured.
"""

from __future__ import annotations

import re
from typing import NamedTuple, Optional, Tuple

TRACEPARENT = "traceparent"
BAGGAGE = "baggage"
MEMBER = "faultloom"
BAGGAGE_BYTES = 8192

_TRACEPARENT = re.compile(r"([0-9a-f]{2})-([0-9a-f]{32})-([0-9a-f]{16})-[0-9a-f]{2}(-.*)?", re.DOTALL)


class Traceparent(NamedTuple):
    """The trace and the caller's id from ``traceparent``."""

    trace: bytes
    call: int


class BridgedEnvelope(NamedTuple):
    """An envelope from ``baggage``: its text, and the id of the call it belongs to."""

    envelope: str
    call: int


def parse_traceparent(text: str) -> Optional[Traceparent]:
    found = _TRACEPARENT.fullmatch(text)
    if found is None:
        return None
    version, trace, parent, more = found.groups()
    if version == "ff" or (version == "00" and more is not None) or not int(trace, 16) or not int(parent, 16):
        return None
    return Traceparent(bytes.fromhex(trace), int(parent, 16))


def format_traceparent(trace: bytes, call: int) -> str:
    return f"00-{trace.hex()}-{call:016x}-01"


_BLANKS = " \t"


def _key_of(member: str) -> str:
    key, equals, _ = member.partition(";")[0].partition("=")
    return key.strip(_BLANKS) if equals else ""


def add_to_baggage(baggage: str, envelope: str) -> str:
    """``baggage`` with our member last, or without it if that would be too long. "": no header."""
    members = (member.strip(_BLANKS) for member in baggage.split(","))
    kept = [member for member in members if member and _key_of(member) != MEMBER]
    added = ",".join([*kept, f"{MEMBER}={envelope}"])
    return added if len(added.encode("utf-8", "replace")) <= BAGGAGE_BYTES else ",".join(kept)


def inject_bridge(own_traceparent: str, own_baggage: str, envelope: str, trace: bytes, call: int) -> Tuple[str, str]:
    """``traceparent`` and ``baggage`` of a call. The application's own values are kept."""
    return own_traceparent or format_traceparent(trace, call), add_to_baggage(own_baggage, envelope)


def extract_bridge(traceparent: str, baggage: str) -> Optional[BridgedEnvelope]:
    """The envelope in a request's baggage. None: there is none, or no valid ``traceparent`` names its call."""
    for member in baggage.split(","):
        key, equals, value = member.partition(";")[0].partition("=")
        if equals and key.strip(_BLANKS) == MEMBER:
            parent = parse_traceparent(traceparent)
            return None if parent is None else BridgedEnvelope(value.strip(_BLANKS), parent.call)
    return None
