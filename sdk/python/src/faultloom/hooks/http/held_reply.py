"""The reply of a server whose body is held back until its history is complete; see ``wsgi`` and ``asgi``."""

from __future__ import annotations

from typing import List, Optional, Sequence, Tuple

from ...scope.scope import Scope
from ...wire.carriers import HEADER_BYTES, HISTORY_HEADER, REPLY_HEADER, allows_tail, encode_tail
from ...wire.envelope import ACCEPT_TAIL, encode_header
from ...wire.history import HISTORY_BYTES, truncate_history

HOLD_BYTES = 32_768

_EVENT_STREAM_TYPES = (
    "text/event-stream", "application/x-ndjson", "application/ndjson", "application/jsonl", "application/json-seq",
    "application/stream+json", "multipart/x-mixed-replace",
)  # fmt: skip

Headers = List[Tuple[str, str]]


class HeldReply:
    """Status, headers and the first part of the body.

    ``request_headers``: names of the request's headers, lower case.
    """

    def __init__(self, scope: Scope, method: str, request_headers: Sequence[str]) -> None:
        self._scope, self._method, self._request_headers = scope, method, request_headers
        self.code = 0
        self.headers: Headers = []
        self.held: List[bytes] = []
        self.held_bytes = 0
        #: a tail is announced
        self.has_tail = False

    def hold(self, data: bytes) -> None:
        self.held.append(data)
        self.held_bytes += len(data)

    def take(self) -> List[bytes]:
        held, self.held, self.held_bytes = self.held, [], 0
        return held

    def is_event_stream(self) -> bool:
        if not self._scope.returns_history:
            return True
        headers = {name.lower(): value for name, value in self.headers}
        kind = headers.get("content-type", "").split(";", 1)[0].strip().lower()
        return kind in _EVENT_STREAM_TYPES or headers.get("x-accel-buffering", "").strip().lower() == "no"

    def _allows_tail(self) -> bool:
        headers = {name.lower(): value.strip().lower() for name, value in self.headers}
        accepts = self._scope.envelope.accept & ACCEPT_TAIL
        return bool(accepts) and allows_tail(self._method, self._request_headers, self.code, headers)

    def head(self, history: Optional[bytes], may_have_tail: bool = True) -> Tuple[Headers, bytes]:
        """The headers to send, with the history of a complete reply or without (None).

        Also returns what follows the held body. ``may_have_tail``: the framing of the reply permits it, and the end of
        the body will be known.
        """
        headers = [(name, value) for name, value in self.headers if name.lower() not in (HISTORY_HEADER, REPLY_HEADER)]
        end = b""
        if self._scope.returns_history:
            if history is None:
                self.has_tail = may_have_tail and not self.is_event_stream() and self._allows_tail()
                headers.append((REPLY_HEADER, "tail" if self.has_tail else "gap"))
            elif len(history) <= HEADER_BYTES:
                headers.append((HISTORY_HEADER, encode_header(history)))
            elif may_have_tail and self._allows_tail():
                self.has_tail = True
                headers.append((REPLY_HEADER, "tail"))
                end = tail_of(history)
            else:
                truncated = truncate_history(history, HEADER_BYTES)
                headers.append((REPLY_HEADER, "gap") if truncated is None else (HISTORY_HEADER, encode_header(truncated)))
            headers = _uncacheable(headers)
        if self.has_tail:
            headers = [(name, value) for name, value in headers if name.lower() != "content-length"]
            if end:
                headers.append(("Content-Length", str(self.held_bytes + len(end))))
        return headers, end


def tail_of(history: Optional[bytes]) -> bytes:
    """The tail with this history; nothing without one: an empty tail would be part of the body."""
    fitting = truncate_history(history, HISTORY_BYTES) if history else None
    return encode_tail(fitting) if fitting else b""


def _uncacheable(headers: Headers) -> Headers:
    """Headers that forbid caches to store one caller's history and proxies to change the bytes.

    Replies vary by our header.
    """
    vary = ", ".join([value for name, value in headers if name.lower() == "vary"] + ["x-faultloom"])
    kept = [(name, value) for name, value in headers if name.lower() not in ("cache-control", "vary")]
    return [*kept, ("Cache-Control", "no-store, no-transform"), ("Vary", vary)]
