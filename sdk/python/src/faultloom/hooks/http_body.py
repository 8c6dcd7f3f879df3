"""Reply bodies on the client: cutting the history off behind them, undoing an encoding a proxy put around them.

The length of the tail stands at its very end, so the last 4 MiB + 8 bytes of a body may all belong to it. ``Window``
hands on what certainly does not, and keeps the rest until the end. Shared by http.client and httpx.
"""

from __future__ import annotations

import zlib
from typing import Any, Callable, NamedTuple, Optional

from ..carriers import END_BYTES, HISTORY_HEADER, REPLY_HEADER, cut_tail
from ..envelope import from_header
from ..errors import FaultloomError
from ..history import HISTORY_BYTES, split_head

HOLD_BYTES = HISTORY_BYTES + END_BYTES

#: encodings that a reply may arrive in when we announced that it may carry a tail
UNDONE = frozenset(("identity", "gzip", "x-gzip", "deflate"))


def accepts_only_undone(accept_encoding: str) -> bool:
    """Whether nothing in the application's Accept-Encoding lets a proxy use an encoding that we cannot undo."""
    for part in accept_encoding.lower().split(","):
        coding, _, parameters = part.partition(";")
        coding = coding.strip()
        quality = parameters.replace(" ", "")
        if coding and coding not in UNDONE and quality not in ("q=0", "q=0.0", "q=0.00", "q=0.000"):
            return False
    return True


class Carried(NamedTuple):
    """What a reply's headers say about its history. ``tail``: it comes behind the body, in ``coding``."""

    tail: bool
    coding: str
    history: Optional[bytes]


def carried(headers: Any) -> Carried:
    """Reads our headers and removes them: an application that passes headers on must not pass on these."""
    value, marked = headers.get(HISTORY_HEADER), headers.get(REPLY_HEADER)
    for name in (HISTORY_HEADER, REPLY_HEADER):
        if name in headers:
            del headers[name]
    coding = (headers.get("content-encoding") or "").strip().lower()
    history: Optional[bytes] = None
    if value is not None:
        try:
            history = from_header(value)
        except FaultloomError:
            history = b""
    return Carried(marked == "tail" and (not coding or coding in UNDONE), coding, history)


class Decoder:
    """Undoes gzip (also several members) or deflate (zlib or raw, which senders mix up: the first two bytes tell)."""

    def __init__(self, coding: str) -> None:
        self._gzip = coding in ("gzip", "x-gzip")
        self._inner: Any = zlib.decompressobj(31) if self._gzip else None
        self._first = b""

    def feed(self, data: bytes) -> bytes:
        """Raises zlib.error for bytes that are not of the encoding."""
        if self._inner is None:
            self._first += data
            if len(self._first) < 2:
                return b""
            data, self._first = self._first, b""
            is_zlib = data[0] & 15 == 8 and (data[0] << 8 | data[1]) % 31 == 0
            self._inner = zlib.decompressobj(15 if is_zlib else -15)
        out = self._inner.decompress(data)
        while self._gzip and self._inner.eof and self._inner.unused_data:
            rest = self._inner.unused_data
            self._inner = zlib.decompressobj(31)
            out += self._inner.decompress(rest)
        return bytes(out)

    def finish(self) -> bytes:
        return b"" if self._inner is None else bytes(self._inner.flush())


def decoder_for(coding: str) -> Optional[Decoder]:
    return None if coding in ("", "identity") else Decoder(coding)


class Window:
    """Bytes of a body on their way to the application.

    ``ended`` is called once: with the history when the body is complete, with None when it will not be (closed, broken).
    """

    def __init__(self, decoder: Optional[Decoder], ended: Callable[[Optional[bytes]], None]) -> None:
        self._decoder = decoder
        self._ended: Optional[Callable[[Optional[bytes]], None]] = ended
        self._bytes = bytearray()
        self.complete = False

    @property
    def ready(self) -> int:
        """How many bytes may be taken now."""
        return len(self._bytes) if self.complete else max(0, len(self._bytes) - HOLD_BYTES)

    def feed(self, data: bytes) -> None:
        self._bytes += data if self._decoder is None else self._decoder.feed(data)

    def take(self, count: int) -> bytes:
        count = min(count, self.ready)
        data = bytes(memoryview(self._bytes)[:count])
        del self._bytes[:count]
        return data

    def take_line(self, limit: int) -> Optional[bytes]:
        """A line, at most ``limit`` bytes; None: more must be fed first."""
        ready = self.ready
        at = self._bytes.find(b"\n", 0, min(ready, limit))
        if at >= 0:
            return self.take(at + 1)
        return self.take(limit) if ready >= limit or self.complete else None

    def peek(self, count: int) -> bytes:
        return bytes(self._bytes[: min(count, self.ready)])

    def finish(self) -> None:
        """The body is complete: the tail, if there is one, is cut off."""
        if self.complete:
            return
        if self._decoder is not None:
            self._bytes += self._decoder.finish()
        # a tail lies within the last HOLD_BYTES; most bodies are shorter than that altogether
        at = max(0, len(self._bytes) - HOLD_BYTES)
        end = bytes(memoryview(self._bytes)[at:])
        body, history = cut_tail(end)
        if history is not None and _is_history(history):
            del self._bytes[at + len(body) :]
        else:
            history = None
        self.complete = True
        self._tell(history)

    def abandon(self) -> None:
        """No more will come; what is here is all body."""
        self.complete = True
        self._tell(None)

    def _tell(self, history: Optional[bytes]) -> None:
        ended, self._ended = self._ended, None
        if ended is not None:
            ended(history)


def _is_history(data: bytes) -> bool:
    # a body that merely looks as if it had a tail stays whole
    try:
        split_head(data)
        return True
    except FaultloomError:
        return False
