"""Warnings of the SDK, on standard error: the application's own logging may not be configured yet."""

from __future__ import annotations

import sys


def warn(text: str) -> None:
    """Writes one line to standard error. Never raises: the stream may be closed."""
    try:
        sys.stderr.write(f"faultloom: {text}\n")
        sys.stderr.flush()
    except Exception:
        pass
