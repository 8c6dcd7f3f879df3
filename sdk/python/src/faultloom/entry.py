"""Requests that arrive without the usual carrier: an envelope may come in baggage, or this service draws the request itself.

The history of such a scope goes to the exporter instead of the reply: nobody up there would take it.
"""

from __future__ import annotations

import os
import random
import re
import time
from typing import Callable, Mapping, Optional

from .bridge import MEMBER, Bridged, incoming, parse_traceparent
from .envelope import Envelope
from .export import Exporter, parse_endpoint
from .signer import Signer
from .trust import Key, Trust, complain

SECONDS = 60
SAMPLE_MAX = 1_000_000
_SAMPLE = re.compile(r"1/([1-9][0-9]{0,6})")


class Entry:
    """Settings of the environment; read once."""

    def __init__(self, environ: Mapping[str, str]) -> None:
        self.exporter = _exporter(environ.get("FAULTLOOM_EXPORT", ""))
        #: one in so many requests is drawn; 0: none
        self.one_in = _one_in(environ.get("FAULTLOOM_SAMPLE", ""), self.exporter is not None)
        self.bridge = environ.get("FAULTLOOM_BRIDGE", "") == "on"
        # not the application's generator, which it may have seeded
        self._random = random.Random()
        os.register_at_fork(after_in_child=self._random.seed)

    def bridged(self, traceparent: str, baggage: str) -> Optional[Bridged]:
        return incoming(traceparent, baggage) if MEMBER in baggage else None

    def drawn(self, trust: Optional[Trust], traceparent: str) -> Optional[Envelope]:
        """The envelope that this service gives a request, if it draws it."""
        if trust is None or not self.one_in or (self.one_in > 1 and self._random.random() * self.one_in >= 1):
            return None
        key = next((key for key in trust.keys.values() if not key.fault), None)
        return None if key is None else self._envelope(key, trust.environment, traceparent)

    def _envelope(self, key: Key, environment: str, traceparent: str) -> Envelope:
        parent = parse_traceparent(traceparent)
        trace = os.urandom(16) if parent is None else parent.trace
        call = self._random.getrandbits(64) or 1 if parent is None else parent.call
        signed = Signer.signed(key, environment, seconds=SECONDS, trace=trace, bridge=self.bridge)
        expires = int(time.time()) + SECONDS
        return Envelope(signed, trace, None, expires, key.id, environment, True, self.bridge, None, call, 0, 0, [])

    def destination(self, envelope: Envelope, traceparent: str) -> Callable[[bytes], None]:
        """Where the finished history of such a request goes."""
        exporter, trace = self.exporter, envelope.trace
        if exporter is None or not envelope.history:
            return lambda _: None
        has_parent = parse_traceparent(traceparent) is not None
        return lambda history: exporter.add(trace, has_parent, history)


def _exporter(text: str) -> Optional[Exporter]:
    if not text:
        return None
    endpoint = parse_endpoint(text)
    if endpoint is None:
        complain("FAULTLOOM_EXPORT is not an http:// address: nothing is exported")
        return None
    return Exporter(endpoint)


def _one_in(text: str, exports: bool) -> int:
    if not text:
        return 0
    found = _SAMPLE.fullmatch(text)
    if found is None or int(found[1]) > SAMPLE_MAX:
        complain("FAULTLOOM_SAMPLE is not 1/N with N from 1 to 1000000: no request is drawn")
        return 0
    if not exports:
        complain("FAULTLOOM_SAMPLE needs FAULTLOOM_EXPORT, where histories are to go: no request is drawn")
        return 0
    return int(found[1])
