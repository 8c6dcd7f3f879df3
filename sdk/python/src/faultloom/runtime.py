"""What one process knows: its service name, names for its peers, its trust settings and the memory against replays."""

from __future__ import annotations

import os
import threading
import time
from typing import Any, Callable, Optional

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


def hold(scope: Scope, seconds: float, wait: Callable[[float], Any] = time.sleep) -> None:
    """Lasts as long as a delay or a hang: until its time is up, or faults are switched off."""
    end = time.monotonic() + seconds
    while True:
        left = end - time.monotonic()
        if left <= 0 or not scope.faults_on():
            return
        wait(min(left, LOOK_SECONDS))


async def hold_async(scope: Scope, seconds: float, wait: Callable[[float], Any]) -> None:
    """As ``hold``; ``wait`` is the event loop's sleep."""
    end = time.monotonic() + seconds
    while True:
        left = end - time.monotonic()
        if left <= 0 or not scope.faults_on():
            return
        await wait(min(left, LOOK_SECONDS))


class Runtime:
    """Settings come from the environment, once; the trust file is read again when it changes."""

    def __init__(self) -> None:
        self.service = service_name()
        self.peers = parse_peers(os.environ.get("FAULTLOOM_PEERS", ""))
        self.trust = TrustSource()
        self.receiver = Receiver(self.trust.get)
        self._told: set[str] = set()

    def peer(self, authority: str) -> str:
        return self.peers.get(authority, authority)

    def faults_on(self) -> bool:
        """Looks at the trust file again (no more often than every 200 ms): the switch also stops requests under way.

        Without trust settings (a file that became invalid) no fault fires either."""
        trust = self.trust.get()
        return trust is not None and trust.faults_on

    def scope_from_bytes(self, data: bytes, attempt: int = 0) -> Optional[Scope]:
        """The scope of a gRPC request, or None if its envelope is refused."""
        try:
            return self._scope(self.receiver.accept(data, attempt))
        except FaultloomError as error:
            self._tell(error)
            return None

    def scope_from_header(self, value: str) -> Optional[Scope]:
        """The scope of an HTTP request, or None if its envelope is refused."""
        try:
            return self._scope(self.receiver.accept_header(value))
        except FaultloomError as error:
            self._tell(error)
            return None

    def _scope(self, envelope: Optional[Envelope]) -> Optional[Scope]:
        return None if envelope is None else Scope(self.service, envelope, self.faults_on)

    def _tell(self, error: FaultloomError) -> None:
        # once per code: strangers may send anything, and a log that they can fill is a fault of its own
        if error.code not in self._told:
            self._told.add(error.code)
            complain(f"{self.service}: an envelope was refused: {error.code} (further ones are not reported)")


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
