"""The status file: service, SDK version, trust settings and hooked libraries. ``faultloom doctor --target`` reads it.

Never disturbs the application: a folder that cannot be written is ignored.
"""

from __future__ import annotations

import json
import os
import platform
import re
import threading
from typing import Any, Callable, Dict, Optional

_INVALID_IN_NAME = re.compile(r"[^A-Za-z0-9._-]")


class StatusFile:
    """Replaced atomically whenever something changes. Thread-safe."""

    def __init__(self, folder: str, describe: Callable[[], Dict[str, Any]]) -> None:
        """``describe`` returns the entries other than ``libraries`` and the interpreter's; one is ``service``."""
        self._folder = folder
        self._describe = describe
        self._lock = threading.Lock()
        self._libraries: Dict[str, Dict[str, str]] = {}
        self._written_path: Optional[str] = None
        if folder:
            os.register_at_fork(after_in_child=self._reset_after_fork)

    def _reset_after_fork(self) -> None:
        self._lock = threading.Lock()
        self._written_path = None
        self.write()

    def hooked(self, name: str, version: str) -> None:
        """Records that a library is hooked. One with several hooks stays refused once one of them was refused."""
        self._add(name, version, "hooked", "")

    def refused(self, name: str, version: str, reason: str) -> None:
        """Records that a library is not hooked."""
        self._add(name, version, "refused", reason)

    def _add(self, name: str, version: str, state: str, reason: str) -> None:
        with self._lock:
            previous = self._libraries.get(name)
            if previous is not None and previous["state"] == "refused":
                return
            self._libraries[name] = {"name": name, "version": version, "state": state, "reason": reason}
        self.write()

    def write(self) -> None:
        """Writes the file, if a folder is configured. Never raises."""
        if not self._folder:
            return
        try:
            with self._lock:
                self._write()
        except Exception:
            pass

    def _write(self) -> None:
        status = {
            **self._describe(),
            "pid": os.getpid(),
            "sdk": "python",
            "runtime": f"{platform.python_implementation()} {platform.python_version()}",
            "libraries": list(self._libraries.values()),
        }
        name = f"{_INVALID_IN_NAME.sub('_', status['service'])}.{os.getpid()}.json"
        path = os.path.join(self._folder, name)
        temporary = f"{path}.new"
        with open(temporary, "w", encoding="utf-8") as file:
            json.dump(status, file, separators=(",", ":"), ensure_ascii=False)
        os.replace(temporary, path)
        if self._written_path is not None and self._written_path != path:
            # the interpreter had not set the program's name yet when the file was first written
            os.unlink(self._written_path)
        self._written_path = path
