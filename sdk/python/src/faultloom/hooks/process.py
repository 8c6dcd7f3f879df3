"""The ``Process`` that all hooks share."""

from __future__ import annotations

import os
import threading
from typing import Optional

from ..entry.sampler import Sampler
from ..scope.process import Process

_process: Optional[Process] = None
_lock = threading.Lock()


def new_process() -> Process:
    """A ``Process`` with the settings of the environment."""
    return Process(os.environ, Sampler(os.environ))


def this_process() -> Process:
    """The process-wide one, created on first use: importing the package reads no settings."""
    global _process
    if _process is None:
        with _lock:
            if _process is None:
                _process = new_process()
    return _process
