"""Trust settings: which keys may request histories, which may plan faults, and the switch that stops all faults.

``TrustSource`` re-reads the file when it has changed. It checks at most every 200 ms, and only when a request needs the
settings. Invalid settings make the SDK ignore all envelopes, with one line on standard error that never contains a key.
"""

from __future__ import annotations

import os
import re
import threading
import time
from dataclasses import dataclass, field
from typing import Dict, Mapping, Optional, Tuple

from ..log import warn
from .signature import signature_of

#: shortest time between two checks of the file
CHECK_SECONDS = 0.2


@dataclass(frozen=True)
class Key:
    """A key: ``fault`` permits plans, not only histories. ``secret`` has 32 bytes."""

    id: str
    fault: bool
    secret: bytes = field(repr=False)

    def sign(self, part: bytes) -> bytes:
        """The 16-byte signature of an envelope's signed part."""
        return signature_of(self.secret, part)


class TrustSettingsError(ValueError):
    """Settings that do not follow the format. The text names the line, never a key."""

    def __init__(self, line: int, reason: str) -> None:
        super().__init__(f"trust settings, line {line}: {reason}")
        self.line, self.reason = line, reason


_SECRET = re.compile(r"[0-9a-fA-F]{64}")


@dataclass(frozen=True)
class TrustSettings:
    """Parsed trust settings."""

    environment: str
    keys: Mapping[str, Key]
    faults_enabled: bool = True

    @staticmethod
    def parse(text: str) -> TrustSettings:
        """Lines end with a newline or ``;``. Raises TrustSettingsError."""
        environment = ""
        keys: Dict[str, Key] = {}
        faults_enabled = True
        for number, line in enumerate(re.split(r"[\n;]", text), 1):
            words = line.split()
            if not words or words[0].startswith("#"):
                continue
            if words[0] == "environment" and len(words) == 2 and len(words[1].encode()) <= 64:
                environment = words[1]
            elif words in (["faults", "on"], ["faults", "off"]):
                faults_enabled = words[1] == "on"
            elif words[0] == "key" and len(words) == 4:
                if words[1] not in ("trace", "fault"):
                    raise TrustSettingsError(number, "a key is for 'trace' or for 'fault'")
                if len(words[2].encode()) > 32:
                    raise TrustSettingsError(number, "a key id has at most 32 bytes")
                if not _SECRET.fullmatch(words[3]):
                    raise TrustSettingsError(number, "a key is 64 hex digits")
                keys.setdefault(words[2], Key(words[2], words[1] == "fault", bytes.fromhex(words[3])))
            else:
                raise TrustSettingsError(number, "not one of: environment NAME, key trace|fault ID HEX, faults on|off")
        if not environment:
            raise TrustSettingsError(0, "no environment is named")
        return TrustSettings(environment, keys, faults_enabled)

    def signing_key(self, fault: bool) -> Optional[Key]:
        """The first fault key or the first trace key."""
        return next((key for key in self.keys.values() if key.fault == fault), None)


class TrustSource:
    """The settings of this process: ``FAULTLOOM_TRUST_FILE`` if set, else ``FAULTLOOM_TRUST``, else none."""

    def __init__(self, environ: Optional[Mapping[str, str]] = None) -> None:
        environ = os.environ if environ is None else environ
        self._path = environ.get("FAULTLOOM_TRUST_FILE", "")
        #: modification time in ns and size of the file that was read; (-1, -1): it could not be read
        self._file_version: Optional[Tuple[int, int]] = None
        self._checked_at = 0.0
        self._lock = threading.Lock()
        #: the settings now; readable without a check of the file
        self.current: Optional[TrustSettings] = None
        #: from when to when (by ``time.time``) ``current`` is valid without a check
        self.since, self.until = float("-inf"), float("inf")
        #: why there are no settings, if there are none
        self.reason = "no trust settings"
        if self._path:
            self._check_file()
        elif environ.get("FAULTLOOM_TRUST"):
            self._parse(environ["FAULTLOOM_TRUST"])

    @property
    def may_change(self) -> bool:
        """Whether settings may appear or disappear while the process runs."""
        return bool(self._path)

    def settings(self) -> Optional[TrustSettings]:
        """The settings, read again if the file has changed. None: envelopes are ignored."""
        if self._path and time.monotonic() - self._checked_at >= CHECK_SECONDS:
            with self._lock:
                if time.monotonic() - self._checked_at >= CHECK_SECONDS:
                    self._check_file()
        return self.current

    def state(self) -> str:
        """``keys``, or the reason why envelopes are ignored."""
        return "keys" if self.current is not None else self.reason

    def _check_file(self) -> None:
        self._checked_at = time.monotonic()
        self.since = time.time()
        self.until = self.since + CHECK_SECONDS
        try:
            stat = os.stat(self._path)
            version = (stat.st_mtime_ns, stat.st_size)
            if version == self._file_version:
                return
            with open(self._path, encoding="utf-8") as file:
                text = file.read()
        except (OSError, UnicodeDecodeError) as error:
            reason = error.strerror if isinstance(error, OSError) else "not UTF-8"
            self.reason = f"cannot read the trust file ({reason})"
            if self._file_version != (-1, -1):
                warn(f"{self.reason}: envelopes are ignored until it can be read")
            self._file_version, self.current = (-1, -1), None
            return
        self._file_version = version
        self._parse(text)

    def _parse(self, text: str) -> None:
        try:
            self.current = TrustSettings.parse(text)
        except TrustSettingsError as error:
            warn(f"{error}: envelopes are ignored")
            self.reason = f"line {error.line} of the trust settings: {error.reason}"
            self.current = None
