"""Calls that belonged to no request: their context had no scope, and their thread or task was not started by a request."""

from __future__ import annotations

from typing import NamedTuple

#: different calls that a segment lists; further ones are counted together
UNSCOPED_EVENTS_MAX = 16


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
