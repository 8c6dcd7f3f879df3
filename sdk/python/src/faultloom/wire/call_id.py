"""Call ids: derived from the caller's id and the number of the call, never part of a history."""

from __future__ import annotations

from .primitives import U64

STEP, FIRST, SECOND = 0x9E3779B97F4A7C15, 0xBF58476D1CE4E5B9, 0x94D049BB133111EB


def derive_call_id(parent: int, number: int) -> int:
    """Id of the ``number``-th call (from 1) sent by the scope of call ``parent``; never 0."""
    z = (parent + number * STEP) & U64
    z = ((z ^ z >> 30) * FIRST) & U64
    z = ((z ^ z >> 27) * SECOND) & U64
    return z ^ z >> 31 or 1
