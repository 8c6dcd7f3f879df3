"""What one process knows: its service name, names for its peers, its trust settings and the memory against replays."""

from __future__ import annotations

import os
import threading
import time
from typing import Any, Callable, Iterable, Optional, Tuple

from .bridge import BAGGAGE, TRACEPARENT
from .carriers import ATTEMPTS_KEY, GRPC_KEY, attempt_number
from .entry import Entry
from .envelope import Envelope, Receiver
from .errors import FaultloomError
from .names import parse_peers, service_name
from .plan import Fault
from .scope import Scope
from .trust import LOOK_SECONDS, TrustSource, complain

#: longest waits a fault may cause, in milliseconds
WAIT_MS = 30_000


def wait_seconds(fault: Fault) -> float:
    """How long a delay or a hang lasts; a hang without a time lasts as long as one may."""
    milliseconds = fault.arg or (WAIT_MS if fault.kind == "hang" else 0)
    return min(milliseconds, WAIT_MS) / 1000


def hold(scope: Scope, seconds: float, wait: Callable[[float], Any] = time.sleep) -> bool:
    """Lasts as long as a delay or a hang: until its time is up (True), or faults are switched off."""
    end = time.monotonic() + seconds
    while True:
        left = end - time.monotonic()
        if left <= 0 or not scope.faults_on():
            return left <= 0
        wait(min(left, LOOK_SECONDS))


async def hold_async(scope: Scope, seconds: float, wait: Callable[[float], Any]) -> bool:
    """As ``hold``; ``wait`` is the event loop's sleep."""
    end = time.monotonic() + seconds
    while True:
        left = end - time.monotonic()
        if left <= 0 or not scope.faults_on():
            return left <= 0
        await wait(min(left, LOOK_SECONDS))


class Runtime:
    """Settings come from the environment, once; the trust file is read again when it changes."""

    def __init__(self) -> None:
        self._service = ""
        self.peers = parse_peers(os.environ.get("FAULTLOOM_PEERS", ""))
        self.trust = TrustSource()
        self.receiver = Receiver(self.trust.get, source=self.trust)
        self.entry = Entry(os.environ)
        self._told: set[str] = set()

    @property
    def service(self) -> str:
        # late: the interpreter tells the program's name after it has installed us
        if not self._service:
            self._service = service_name()
        return self._service

    def peer(self, authority: str) -> str:
        return self.peers.get(authority, authority)

    def faults_on(self) -> bool:
        """Looks at the trust file again (no more often than every 200 ms): the switch also stops requests under way.

        Without trust settings (a file that became invalid) no fault fires either."""
        trust = self.trust.get()
        return trust is not None and trust.faults_on

    def grpc_scope(self, metadata: Iterable[Tuple[str, Any]]) -> Optional[Scope]:
        """The scope of a gRPC request, None: it has none."""
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
                attempt = attempt_number(value)
        if own is None:
            return self._other_scope(traceparent, baggage, attempt)
        try:
            envelope = self.receiver.accept(own, attempt)
        except Exception as error:
            envelope = None
            self._tell(error)
        return self._drawn_scope(traceparent) if envelope is None else Scope(self._service or self.service, envelope, self.faults_on)

    def field_scope(
        self, own: bytes, metadata: Callable[[], Iterable[Tuple[str, Any]]], other: Optional[Scope], start_us: int, start_ns: int
    ) -> Optional[Scope]:
        """As ``grpc_scope``, for a request that began then and has its envelope in its message, which counts more than its metadata.

        ``other``: the scope that it had by its metadata. It is over, unless this service has drawn it: then it stays if the envelope is refused.
        """
        try:
            envelope = self.receiver.accept(own, 0, None, metadata)
        except Exception as error:
            envelope = None
            self._tell(error)
        if other is not None:
            if envelope is None and other.destination is not None:
                return other
            other.abandon()
        if envelope is None:
            return None
        return Scope(self._service or self.service, envelope, self.faults_on, start_us, None, start_ns)

    def http_scope(self, own: Optional[str], traceparent: str, baggage: str) -> Optional[Scope]:
        """The scope of an HTTP request with these headers, None: it has none."""
        if own is None:
            return self._other_scope(traceparent, baggage, 0)
        text = own
        return self._scope(lambda: self.receiver.accept_header(text)) or self._drawn_scope(traceparent)

    def _other_scope(self, traceparent: str, baggage: str, attempt: int) -> Optional[Scope]:
        bridged = self.entry.bridged(traceparent, baggage) if baggage else None
        if bridged is not None:
            scope = self._scope(lambda: self.receiver.accept_header(bridged.envelope, attempt, bridged.call))
            if scope is not None:
                scope.destination = self.entry.destination(scope.envelope, traceparent)
                return scope
        return self._drawn_scope(traceparent)

    def _drawn_scope(self, traceparent: str) -> Optional[Scope]:
        if not self.entry.one_in:
            return None
        envelope = self.entry.drawn(self.trust.get(), traceparent)
        if envelope is None:
            return None
        scope = Scope(self.service, envelope, self.faults_on)
        scope.destination = self.entry.destination(envelope, traceparent)
        return scope

    def _scope(self, accept: Callable[[], Optional[Envelope]]) -> Optional[Scope]:
        try:
            envelope = accept()
        except Exception as error:
            self._tell(error)
            return None
        return None if envelope is None else Scope(self.service, envelope, self.faults_on)

    def _tell(self, error: Exception) -> None:
        # once per code: strangers may send anything, and a log that they can fill is a fault of its own
        code = error.code if isinstance(error, FaultloomError) else type(error).__name__
        if code not in self._told:
            self._told.add(code)
            complain(f"{self.service}: an envelope was refused: {code} (further ones are not reported)")


_KEYS = frozenset((GRPC_KEY, TRACEPARENT, BAGGAGE, ATTEMPTS_KEY))


def _text(value: Any) -> str:
    return value.decode("ascii", "replace") if isinstance(value, bytes) else str(value)


_runtime: Optional[Runtime] = None
_lock = threading.Lock()


def runtime() -> Runtime:
    """The process's one; made on first use, so that importing the package reads nothing."""
    global _runtime
    if _runtime is None:
        with _lock:
            if _runtime is None:
                _runtime = Runtime()
    return _runtime
