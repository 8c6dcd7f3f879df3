"""The status file: what this SDK is, whether it has keys, which libraries it has hooked. ``faultloom doctor --target`` reads it.

Never in the application's way: a folder that cannot be written is ignored.
"""

from __future__ import annotations

import json
import os
import platform
import re
import threading
from typing import Any, Dict, Optional

_OTHERS = re.compile(r"[^A-Za-z0-9._-]")


class StatusFile:
    """Written anew, by rename, whenever something changes."""

    def __init__(self, folder: str) -> None:
        self._folder = folder
        self._lock = threading.Lock()
        self._libraries: Dict[str, Dict[str, str]] = {}
        self._written: Optional[str] = None
        if folder:
            os.register_at_fork(after_in_child=self._forked)

    def _forked(self) -> None:
        self._lock = threading.Lock()
        self._written = None
        self.write()

    def library(self, name: str, version: str, reason: str = "") -> None:
        """A library was hooked or, with a reason, refused. Of a library with several hooks a refusal is what stays."""
        with self._lock:
            known = self._libraries.get(name)
            if known is not None and known["state"] == "refused":
                return
            state = "refused" if reason else "hooked"
            self._libraries[name] = {"name": name, "version": version, "state": state, "reason": reason}
        self.write()

    def write(self) -> None:
        if not self._folder:
            return
        try:
            with self._lock:
                self._write()
        except Exception:
            pass

    def _write(self) -> None:
        from .runtime import runtime

        status = self._status(runtime())
        name = f"{_OTHERS.sub('_', status['service'])}.{os.getpid()}.json"
        path = os.path.join(self._folder, name)
        temporary = f"{path}.new"
        with open(temporary, "w", encoding="utf-8") as file:
            json.dump(status, file, separators=(",", ":"), ensure_ascii=False)
        os.replace(temporary, path)
        if self._written is not None and self._written != path:
            # the interpreter had not told the program's name yet
            os.unlink(self._written)
        self._written = path

    def _status(self, runtime: Any) -> Dict[str, Any]:
        from . import __version__

        trust = runtime.trust
        return {
            "service": runtime.service,
            "pid": os.getpid(),
            "sdk": "python",
            "version": __version__,
            "runtime": f"{platform.python_implementation()} {platform.python_version()}",
            "trust": "keys" if trust.current is not None else trust.reason,
            "libraries": list(self._libraries.values()),
        }


STATUS = StatusFile(os.environ.get("FAULTLOOM_STATUS", ""))
