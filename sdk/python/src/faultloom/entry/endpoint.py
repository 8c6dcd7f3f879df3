"""The address of an OpenTelemetry collector."""

from __future__ import annotations

from typing import NamedTuple, Optional
from urllib.parse import urlsplit


class Endpoint(NamedTuple):
    """An HTTP address; ``path`` includes the query."""

    tls: bool
    host: str
    port: int
    path: str


def parse_endpoint(text: str) -> Optional[Endpoint]:
    """Parses ``http://host:port/path`` or ``https://…``. None: invalid."""
    try:
        url = urlsplit(text)
        port = url.port
    except ValueError:
        return None
    if url.scheme not in ("http", "https") or not url.hostname or url.username is not None:
        return None
    if not text.isascii() or any(c <= " " for c in text):
        return None
    tls = url.scheme == "https"
    path = (url.path or "/") + (f"?{url.query}" if url.query else "")
    return Endpoint(tls, url.hostname, port or (443 if tls else 80), path)
