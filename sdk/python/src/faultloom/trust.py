"""Trust settings: who may ask for a history, who may plan faults, and the switch that stops all faults.

``TrustSource`` re-reads the file when it changed, looking no more often than every 200 ms and only when an envelope
arrives. Invalid settings make the SDK deaf, with one line on standard error that never shows a key.
"""

from __future__ import annotations

import os
import re
import sys
import threading
import time
from dataclasses import dataclass, field
from typing import Dict, Mapping, Optional, Tuple

LOOK_SECONDS = 0.2


@dataclass(frozen=True)
class Key:
    id: str
    fault: bool
    secret: bytes = field(repr=False)


@dataclass(frozen=True)
class Trust:
    environment: str
    keys: Mapping[str, Key]
    faults_on: bool = True


class TrustError(ValueError):
    """Settings that do not follow the format; the text names the line, never a key."""

    def __init__(self, line: int, reason: str) -> None:
        super().__init__(f"trust settings, line {line}: {reason}")
        self.line, self.reason = line, reason


_SECRET = re.compile(r"[0-9a-fA-F]{64}")


def parse_trust(text: str) -> Trust:
    """Lines end with a newline or ``;``. Raises TrustError."""
    environment = ""
    keys: Dict[str, Key] = {}
    faults_on = True
    for number, line in enumerate(re.split(r"[\n;]", text), 1):
        words = line.split()
        if not words or words[0].startswith("#"):
            continue
        if words[0] == "environment" and len(words) == 2 and len(words[1].encode()) <= 64:
            environment = words[1]
        elif words in (["faults", "on"], ["faults", "off"]):
            faults_on = words[1] == "on"
        elif words[0] == "key" and len(words) == 4:
            if words[1] not in ("trace", "fault"):
                raise TrustError(number, "a key is for 'trace' or for 'fault'")
            if len(words[2].encode()) > 32:
                raise TrustError(number, "a key id has at most 32 bytes")
            if not _SECRET.fullmatch(words[3]):
                raise TrustError(number, "a key is 64 hex digits")
            keys.setdefault(words[2], Key(words[2], words[1] == "fault", bytes.fromhex(words[3])))
        else:
            raise TrustError(number, "not one of: environment NAME, key trace|fault ID HEX, faults on|off")
    if not environment:
        raise TrustError(0, "no environment is named")
    return Trust(environment, keys, faults_on)


def complain(text: str) -> None:
    """One line on standard error; never raises (the stream may be closed)."""
    try:
        sys.stderr.write(f"faultloom: {text}\n")
        sys.stderr.flush()
    except Exception:
        pass


class TrustSource:
    """The settings of this process: ``FAULTLOOM_TRUST_FILE`` if set, else ``FAULTLOOM_TRUST``, else none."""

    def __init__(self, environ: Optional[Mapping[str, str]] = None) -> None:
        environ = os.environ if environ is None else environ
        self._path = environ.get("FAULTLOOM_TRUST_FILE", "")
        self._seen: Optional[Tuple[int, int]] = None
        self._looked = 0.0
        self._lock = threading.Lock()
        #: what holds now; sends look here for the faults switch without touching the file
        self.current: Optional[Trust] = None
        #: when (by ``time.time``) it holds without another look
        self.since, self.until = float("-inf"), float("inf")
        #: why there are none, if there are none
        self.reason = "no trust settings"
        if self._path:
            self._look()
        elif environ.get("FAULTLOOM_TRUST"):
            self._take(environ["FAULTLOOM_TRUST"])

    @property
    def may_change(self) -> bool:
        """Whether settings may come or go while the process runs."""
        return bool(self._path)

    def get(self) -> Optional[Trust]:
        """The settings, read again if the file changed; None: deaf."""
        if self._path and time.monotonic() - self._looked >= LOOK_SECONDS:
            with self._lock:
                if time.monotonic() - self._looked >= LOOK_SECONDS:
                    self._look()
        return self.current

    def _look(self) -> None:
        self._looked = time.monotonic()
        self.since = time.time()
        self.until = self.since + LOOK_SECONDS
        try:
            stat = os.stat(self._path)
            seen = (stat.st_mtime_ns, stat.st_size)
            if seen == self._seen:
                return
            with open(self._path, encoding="utf-8") as file:
                text = file.read()
        except (OSError, UnicodeDecodeError) as error:
            reason = error.strerror if isinstance(error, OSError) else "not UTF-8"
            self.reason = f"cannot read the trust file ({reason})"
            if self._seen != (-1, -1):
                complain(f"{self.reason}: deaf until it is there")
            self._seen, self.current = (-1, -1), None
            return
        self._seen = seen
        self._take(text)

    def _take(self, text: str) -> None:
        try:
            self.current = parse_trust(text)
        except TrustError as error:
            complain(f"{error}: deaf")
            self.reason = f"line {error.line} of the trust settings: {error.reason}"
            self.current = None
