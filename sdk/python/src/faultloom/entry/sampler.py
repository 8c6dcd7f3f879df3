"""Samples requests that arrive without an envelope, and exports the histories of requests that cannot return them.

A sampled request, or one whose envelope is in ``baggage``, has no caller that accepts a history. It goes to the
exporter.
"""

from __future__ import annotations

import os
import random
import re
import time
from typing import Callable, Mapping, Optional

from ..log import warn
from ..trust.settings import Key, TrustSettings
from ..trust.signer import Signer
from ..wire.bridge import parse_traceparent
from ..wire.envelope import Envelope
from .endpoint import parse_endpoint
from .exporter import Exporter

#: validity of the envelopes of sampled requests
ENVELOPE_SECONDS = 60
SAMPLE_MAX = 1_000_000
_SAMPLE = re.compile(r"1/([1-9][0-9]{0,6})")


class Sampler:
    """Reads its settings from the environment, once. Thread-safe."""

    def __init__(self, environ: Mapping[str, str]) -> None:
        self.exporter = _exporter(environ.get("FAULTLOOM_EXPORT", ""))
        #: one in so many requests is sampled; 0: none
        self.sample_one_in = _parse_sample(environ.get("FAULTLOOM_SAMPLE", ""), self.exporter is not None)
        self.bridge = environ.get("FAULTLOOM_BRIDGE", "") == "on"
        # a generator of its own: the application may have seeded the global one
        self._random = random.Random()
        os.register_at_fork(after_in_child=self._random.seed)

    def sample(self, trust: Optional[TrustSettings], traceparent: str) -> Optional[Envelope]:
        """The envelope of a request that is sampled, else None.

        Signed with the first trace key; None if there is none.
        """
        if trust is None or not self.sample_one_in:
            return None
        if self.sample_one_in > 1 and self._random.random() * self.sample_one_in >= 1:
            return None
        key = trust.signing_key(False)
        return None if key is None else self._envelope(key, trust.environment, traceparent)

    def _envelope(self, key: Key, environment: str, traceparent: str) -> Envelope:
        parent = parse_traceparent(traceparent)
        trace = os.urandom(16) if parent is None else parent.trace
        call = self._random.getrandbits(64) or 1 if parent is None else parent.call
        signed = Signer(key, environment).sign(seconds=ENVELOPE_SECONDS, trace=trace, bridge=self.bridge)
        expires = int(time.time()) + ENVELOPE_SECONDS
        return Envelope(signed, trace, None, expires, key.id, environment, True, self.bridge, None, call, 0, 0, [])

    def destination(self, envelope: Envelope, traceparent: str) -> Callable[[bytes], None]:
        """Takes the finished history of a request that cannot return it."""
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
        warn("FAULTLOOM_EXPORT is not an http:// or https:// address: nothing is exported")
        return None
    return Exporter(endpoint)


def _parse_sample(text: str, exports: bool) -> int:
    if not text:
        return 0
    found = _SAMPLE.fullmatch(text)
    if found is None or int(found[1]) > SAMPLE_MAX:
        warn("FAULTLOOM_SAMPLE is not 1/N with N from 1 to 1000000: no request is sampled")
        return 0
    if not exports:
        warn("FAULTLOOM_SAMPLE requires FAULTLOOM_EXPORT, the destination of histories: no request is sampled")
        return 0
    return int(found[1])
