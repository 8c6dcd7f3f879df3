"""Which calls a selector matches (docs/formats/messages.md, "Deciding about a send")."""

from __future__ import annotations

import ipaddress
from typing import NamedTuple


class Selector(NamedTuple):
    """Three names; an empty one matches anything."""

    caller: str = ""
    callee: str = ""
    call: str = ""

    def matches(self, caller: str, peer: str, name: str) -> bool:
        """``name``: the gRPC method, or ``METHOD /path`` (raw for own calls, normalized in a history)."""
        return (
            (not self.caller or self.caller == caller)
            and (not self.callee or callee_matches(self.callee, peer))
            and (not self.call or call_matches(self.call, name))
        )


def host_of(peer: str) -> str:
    """The host of ``host:port``, without the brackets of an IPv6 address."""
    if peer.startswith("["):
        return peer[1:].split("]", 1)[0]
    host, colon, _ = peer.rpartition(":")
    return host if colon and ":" not in host else peer


def callee_matches(callee: str, peer: str) -> bool:
    """``callee``: a peer's name, its host, or the first label of its host name."""
    if callee == peer:
        return True
    host = host_of(peer)
    return callee == host or (callee == host.split(".", 1)[0] and not _is_ip(host))


def _is_ip(host: str) -> bool:
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return False
    return True


def call_matches(call: str, name: str) -> bool:
    """``call``: a call's name, its last path segment, or a pattern with ``*`` and ``{id}`` segments."""
    if call == name:
        return True
    if "/" not in call and " " not in call:
        _, slash, last = name.rpartition("/")
        return bool(slash) and last == call
    pattern, parts = call.split("/"), name.split("/")
    return len(pattern) == len(parts) and all(
        p == part or p == "*" or (p.startswith("{") and p.endswith("}")) for p, part in zip(pattern, parts)
    )
