"""One process: its service name, names for its peers, its trust settings and the replay memory. Opens scopes."""

from __future__ import annotations

import os
import sys
from typing import Any, Callable, Iterable, Mapping, NamedTuple, Optional, Protocol, Set, Tuple, Union

from ..log import warn
from ..trust.receiver import Receiver
from ..trust.settings import TrustSettings, TrustSource
from ..wire.bridge import BAGGAGE, MEMBER, TRACEPARENT, extract_bridge
from ..wire.carriers import ATTEMPTS_KEY, GRPC_KEY, parse_attempt
from ..wire.envelope import Envelope
from ..wire.errors import FaultloomError
from ..wire.names import SERVICE_BYTES
from ..wire.primitives import truncate_text
from .scope import Scope


class EntrySampler(Protocol):
    """What a process needs for requests that enter the traced system here: ``entry.sampler``."""

    #: one in so many requests is sampled; 0: none
    sample_one_in: int

    def sample(self, trust: Optional[TrustSettings], traceparent: str) -> Optional[Envelope]: ...

    def destination(self, envelope: Envelope, traceparent: str) -> Callable[[bytes], None]: ...


class IncomingRequest(NamedTuple):
    """The parts of a request that determine its scope. An ``envelope`` in text comes from an HTTP header."""

    envelope: Union[bytes, str, None]
    traceparent: str
    baggage: str
    #: earlier attempts by gRPC's own retry
    attempt: int = 0


class Process:
    """Thread-safe. Settings come from the environment, once; the trust file is read again when it changes."""

    def __init__(self, environ: Mapping[str, str], entry: EntrySampler) -> None:
        self._service = ""
        self._peers = parse_peers(environ.get("FAULTLOOM_PEERS", ""))
        self.trust = TrustSource(environ)
        self.receiver = Receiver(self.trust.settings, source=self.trust)
        self.entry = entry
        self._warned_codes: Set[str] = set()

    @property
    def service(self) -> str:
        # determined late: when the hooks are installed, the interpreter has not set the program's name yet
        if not self._service:
            self._service = service_name()
        return self._service

    def peer_name(self, authority: str) -> str:
        """The configured name of an authority (``host:port``), else the authority itself."""
        return self._peers.get(authority, authority)

    def faults_enabled(self) -> bool:
        """Whether faults may fire. Checks the trust file again (at most every 200 ms): the switch also stops requests
        under way. False without trust settings, for example after the file became invalid."""
        trust = self.trust.settings()
        return trust is not None and trust.faults_enabled

    def open_scope(self, request: IncomingRequest) -> Optional[Scope]:
        """Begins the scope of a request that carries a valid envelope or is sampled.

        None: the request is not traced.
        """
        own = request.envelope
        if own is None:
            bridged = self._open_bridged_scope(request) if request.baggage else None
            return bridged or self._open_sampled_scope(request.traceparent)
        if isinstance(own, str):
            text = own
            accepted = self._accept(lambda: self.receiver.accept_header(text, request.attempt))
        else:
            data = own
            accepted = self._accept(lambda: self.receiver.accept(data, request.attempt))
        return accepted or self._open_sampled_scope(request.traceparent)

    def open_grpc_scope(self, metadata: Iterable[Tuple[str, Any]]) -> Optional[Scope]:
        """``open_scope`` for a gRPC request with this metadata."""
        own: Optional[bytes] = None
        attempt = 0
        traceparent = baggage = ""
        for key, value in metadata:
            if key not in _KEYS:
                continue
            if key == GRPC_KEY:
                own = value
            elif key == TRACEPARENT:
                traceparent = traceparent or _text(value)
            elif key == BAGGAGE:
                baggage = f"{baggage},{_text(value)}" if baggage else _text(value)
            elif key == ATTEMPTS_KEY:
                attempt = parse_attempt(value)
        # like ``open_scope``, with fewer function calls for ordinary requests
        if own is None:
            if baggage:
                return self.open_scope(IncomingRequest(None, traceparent, baggage, attempt))
            return self._open_sampled_scope(traceparent)
        try:
            envelope = self.receiver.accept(own, attempt)
        except Exception as error:
            envelope = None
            self._warn_once(error)
        if envelope is None:
            return self._open_sampled_scope(traceparent)
        return Scope(self._service or self.service, envelope, self.faults_enabled)

    def open_field_scope(
        self, own: bytes, metadata: Callable[[], Iterable[Tuple[str, Any]]], other: Optional[Scope], start_us: int, start_ns: int
    ) -> Optional[Scope]:
        """``open_scope`` for a gRPC request whose envelope is in its message, which takes precedence over its metadata.

        ``start_us`` (since the epoch) and ``start_ns`` (by ``perf_counter_ns``): when the request began.
        ``other``: the scope opened for its metadata. It is abandoned, unless it was sampled and this envelope is
        refused.
        """
        try:
            envelope = self.receiver.accept(own, 0, None, metadata)
        except Exception as error:
            envelope = None
            self._warn_once(error)
        if other is not None:
            if envelope is None and other.is_sampled:
                return other
            other.abandon()
        if envelope is None:
            return None
        return Scope(self._service or self.service, envelope, self.faults_enabled, start_us, None, start_ns)

    def _open_bridged_scope(self, request: IncomingRequest) -> Optional[Scope]:
        bridged = extract_bridge(request.traceparent, request.baggage) if MEMBER in request.baggage else None
        if bridged is None:
            return None
        envelope, call = bridged
        scope = self._accept(lambda: self.receiver.accept_bridged(envelope, call, request.attempt))
        if scope is not None:
            scope.destination = self.entry.destination(scope.envelope, request.traceparent)
        return scope

    def _open_sampled_scope(self, traceparent: str) -> Optional[Scope]:
        if not self.entry.sample_one_in:
            return None
        envelope = self.entry.sample(self.trust.settings(), traceparent)
        if envelope is None:
            return None
        scope = Scope(self.service, envelope, self.faults_enabled)
        scope.destination = self.entry.destination(envelope, traceparent)
        scope.is_sampled = True
        return scope

    def _accept(self, accept: Callable[[], Optional[Envelope]]) -> Optional[Scope]:
        try:
            envelope = accept()
        except Exception as error:
            self._warn_once(error)
            return None
        return None if envelope is None else Scope(self.service, envelope, self.faults_enabled)

    def _warn_once(self, error: Exception) -> None:
        # once per code: anybody can send envelopes, and must not be able to fill the log
        code = error.code if isinstance(error, FaultloomError) else type(error).__name__
        if code not in self._warned_codes:
            self._warned_codes.add(code)
            warn(f"{self.service}: refused an envelope: {code} (further ones are not reported)")


def service_name() -> str:
    """``FAULTLOOM_SERVICE``, else the program's name.

    Control characters are replaced: readers do not take a history with one in the name for a tail.
    """
    name = os.environ.get("FAULTLOOM_SERVICE", "")
    if not name:
        name = os.path.basename(sys.argv[0] if getattr(sys, "argv", None) else "")
        if name == "__main__.py":
            name = os.path.basename(os.path.dirname(sys.argv[0]))
        name = name[:-3] if name.endswith(".py") else name
    return truncate_text(name.translate(_NO_CONTROLS), SERVICE_BYTES) or "python"


def parse_peers(text: str) -> Mapping[str, str]:
    """``FAULTLOOM_PEERS``: ``host:port=service,…``. Parts of another form are ignored."""
    pairs = (part.split("=", 1) for part in text.split(",") if "=" in part)
    return {address.strip(): name.strip() for address, name in pairs if address.strip() and name.strip()}


_NO_CONTROLS = {code: "?" for code in (*range(0x20), 0x7F)}
_KEYS = frozenset((GRPC_KEY, TRACEPARENT, BAGGAGE, ATTEMPTS_KEY))


def _text(value: Any) -> str:
    return value.decode("ascii", "replace") if isinstance(value, bytes) else str(value)
