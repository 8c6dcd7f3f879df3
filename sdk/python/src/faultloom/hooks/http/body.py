"""Reply bodies on the client: cuts off the history after them, also if a proxy has compressed both.

A body in a content coding is decoded for that, and encoded again if the application is to decode it
(``RecodingWindow``).

The start of the tail is certain only at the end of the body, so ``Window`` holds bytes back from the first position
where one could start: the version, flags, a short service name without control characters. Text has no such position.
In binary data, a few more bytes rule most candidates out, and one that is longer than the largest tail is released.
Used for http.client and httpx.
"""

from __future__ import annotations

import re
import zlib
from typing import Any, Callable, Iterable, NamedTuple, Optional, Union

from ...wire.carriers import END_BYTES, HISTORY_HEADER, REPLY_HEADER, cut_tail, last_value, may_have_tail
from ...wire.envelope import decode_header
from ...wire.errors import FaultloomError
from ...wire.history import HEAD_BYTES, HISTORY_BYTES, VERSION, VERSION_2
from ...wire.names import SERVICE_BYTES

HOLD_BYTES = HISTORY_BYTES + END_BYTES
_VERSIONS = re.compile(bytes((ord("["), VERSION, VERSION_2, ord("]"))))
#: flags that the history of an HTTP reply may have: truncated, faults off
_FLAGS = 3

#: content codings that we can decode, so that a reply in them may have a tail
DECODABLE = frozenset(("identity", "gzip", "x-gzip", "deflate"))


def accepts_only_decodable(accept_encoding: str) -> bool:
    """Whether the application's Accept-Encoding permits only codings that we can decode."""
    for part in accept_encoding.lower().split(","):
        coding, _, parameters = part.partition(";")
        coding = coding.strip()
        quality = parameters.replace(" ", "")
        if coding and coding not in DECODABLE and quality not in ("q=0", "q=0.0", "q=0.00", "q=0.000"):
            return False
    return True


class ReplyHistory(NamedTuple):
    """The history according to a reply's headers. ``has_tail``: one after the body, in ``coding``, takes precedence."""

    has_tail: bool
    coding: str
    history: Optional[bytes]


def take_reply_history(status: int, headers: Any, lines_of: Callable[[str], Optional[Iterable[str]]]) -> ReplyHistory:
    """Reads our headers and removes them, so that an application that forwards headers does not forward these.

    ``lines_of``: the values of a header's lines.
    """
    value, marked = last_value(lines_of(HISTORY_HEADER) or ()), last_value(lines_of(REPLY_HEADER) or ())
    for name in (HISTORY_HEADER, REPLY_HEADER):
        if name in headers:
            del headers[name]
    coding = (headers.get("content-encoding") or "").strip().lower()
    history: Optional[bytes] = None
    if value is not None:
        try:
            history = decode_header(value)
        except FaultloomError:
            history = b""
    has_tail = marked == "tail" and may_have_tail(status) and (not coding or coding in DECODABLE)
    return ReplyHistory(has_tail, coding, history)


class Decoder:
    """Decodes gzip (also several members) or deflate (zlib or raw: senders mix them up, the first two bytes distinguish
    them).
    """

    def __init__(self, coding: str) -> None:
        self._gzip = coding in ("gzip", "x-gzip")
        self._is_zlib = True
        self._inner: Any = zlib.decompressobj(31) if self._gzip else None
        self._first = b""
        #: what follows the last member
        self.garbage = b""

    @property
    def window_bits(self) -> int:
        """For an encoder of the same format."""
        return 31 if self._gzip else 15 if self._is_zlib else -15

    def feed(self, data: bytes) -> bytes:
        """Raises zlib.error for invalid bytes. Those after the end are kept in ``garbage``."""
        if self.garbage:
            self.garbage += data
            return b""
        if self._inner is None:
            self._first += data
            if len(self._first) < 2:
                return b""
            data, self._first = self._first, b""
            self._is_zlib = data[0] & 15 == 8 and (data[0] << 8 | data[1]) % 31 == 0
            self._inner = zlib.decompressobj(self.window_bits)
        out = self._inner.decompress(data)
        while self._inner.eof and self._inner.unused_data:
            rest = self._inner.unused_data
            if not self._gzip or not rest.startswith(b"\x1f"):
                self.garbage = rest
                break
            self._inner = zlib.decompressobj(31)
            out += self._inner.decompress(rest)
        return bytes(out)

    def finish(self) -> bytes:
        return b"" if self._inner is None else bytes(self._inner.flush())

    @property
    def is_complete(self) -> bool:
        return self._inner is not None and bool(self._inner.eof)


def decoder_for(coding: str) -> Optional[Decoder]:
    return None if coding in ("", "identity") else Decoder(coding)


class Window:
    """Bytes of a body on their way to the application.

    ``ended`` is called once: with the history or None when the body is complete, with None when it breaks off.
    """

    def __init__(self, decoder: Optional[Decoder], ended: Callable[[Optional[bytes]], None]) -> None:
        self._decoder = decoder
        self._ended: Optional[Callable[[Optional[bytes]], None]] = ended
        self._bytes = bytearray()
        #: bytes before this position certainly belong to the body
        self._safe = 0
        self.is_complete = False

    @property
    def ready(self) -> int:
        """The number of bytes that can be taken now."""
        return len(self._bytes) if self.is_complete else self._safe

    def feed(self, data: bytes) -> None:
        try:
            self._bytes += data if self._decoder is None else self._decoder.feed(data)
        except zlib.error:
            # it has no tail then; only a fault that changes the body gets here, to which any bytes are a body
            self._decoder = None
            self._bytes += data
        end = len(self._bytes)
        while True:
            found = _VERSIONS.search(self._bytes, self._safe)
            if found is None:
                self._safe = end
                return
            at = self._safe = found.start()
            if end - at <= HOLD_BYTES and _could_be_tail(self._bytes, at):
                return
            self._safe += 1

    def take(self, count: int) -> bytes:
        count = min(count, self.ready)
        data = bytes(memoryview(self._bytes)[:count])
        del self._bytes[:count]
        self._safe = max(0, self._safe - count)
        return data

    def take_line(self, limit: int) -> Optional[bytes]:
        """A line of at most ``limit`` bytes. None: more bytes must be fed first."""
        ready = self.ready
        at = self._bytes.find(b"\n", 0, min(ready, limit))
        if at >= 0:
            return self.take(at + 1)
        return self.take(limit) if ready >= limit or self.is_complete else None

    def peek(self, count: int) -> bytes:
        return bytes(self._bytes[: min(count, self.ready)])

    def finish(self) -> None:
        """The body is complete: cuts off the tail, if there is one."""
        if self.is_complete:
            return
        if self._decoder is not None:
            self._bytes += self._decoder.finish()
        # a tail is within the last HOLD_BYTES; most bodies are shorter than that
        at = max(0, len(self._bytes) - HOLD_BYTES)
        end = bytes(memoryview(self._bytes)[at:])
        body, history = cut_tail(end)
        if history is not None:
            del self._bytes[at + len(body) :]
        self.is_complete = True
        self._end(history)

    def abandon(self) -> None:
        """No more bytes will come: those held back belong to the body."""
        self.is_complete = True
        self._end(None)

    def _end(self, history: Optional[bytes]) -> None:
        ended, self._ended = self._ended, None
        if ended is not None:
            ended(history)


class RecodingWindow:
    """A compressed body on its way to an application that decodes it itself, with the interface of ``Window``.

    It is decoded, the tail is cut off, and the rest is encoded again, without compressing it. Therefore the
    application's own decoder reports a body that cannot be decoded. If the application has read nothing when that is
    found, it gets the bytes as they arrived.
    """

    #: no decoder continues after these: they begin a block of a type that does not exist
    INVALID = b"\xff\xff"

    def __init__(self, decoder: Decoder, ended: Callable[[Optional[bytes]], None]) -> None:
        self._decoder = decoder
        self._plain = Window(None, ended)
        self._encoder: Any = None
        self._out = bytearray()
        #: all that arrived; None after the application has read something
        self._received: Optional[bytearray] = bytearray()
        self._passes_on = False
        self.is_complete = False

    @property
    def ready(self) -> int:
        return len(self._out)

    def feed(self, data: bytes) -> None:
        if self._passes_on:
            self._out += data
            return
        if self._received is not None:
            self._received += data
        try:
            self._plain.feed(self._decoder.feed(data))
        except zlib.error:
            self._pass_on()
            return
        self._encode()

    def _encode(self, ends: bool = False) -> None:
        data = self._plain.take(self._plain.ready)
        if not data and not ends:
            return
        if self._encoder is None:
            self._encoder = zlib.compressobj(0, zlib.DEFLATED, self._decoder.window_bits)
        self._out += self._encoder.compress(data)
        self._out += self._encoder.flush(zlib.Z_FINISH if ends else zlib.Z_SYNC_FLUSH)

    def _pass_on(self) -> None:
        """The body cannot be decoded, so it has no tail."""
        self._passes_on = True
        self._break_off()
        if self._received is None:
            self._out += self.INVALID

    def _break_off(self) -> None:
        self._plain.abandon()
        if self._received is not None:
            self._out[:] = self._received
        else:
            self._encode()

    def take(self, count: int) -> bytes:
        data = bytes(memoryview(self._out)[:count])
        del self._out[:count]
        if data:
            self._received = None
        return data

    def take_line(self, limit: int) -> Optional[bytes]:
        at = self._out.find(b"\n", 0, limit)
        if at >= 0:
            return self.take(at + 1)
        return self.take(limit) if self.ready >= limit or self.is_complete else None

    def peek(self, count: int) -> bytes:
        return bytes(self._out[:count])

    def finish(self) -> None:
        if self.is_complete:
            return
        if not self._decoder.is_complete:
            self.abandon()
            return
        self.is_complete = True
        if not self._passes_on:
            self._plain.finish()
            self._encode(ends=True)
            self._out += self._decoder.garbage

    def abandon(self) -> None:
        if self.is_complete:
            return
        self.is_complete = True
        if not self._passes_on:
            try:
                self._plain.feed(self._decoder.finish())
            except zlib.error:
                pass  # what was decoded before remains
            self._break_off()


def window_for(coding: str, recodes: bool, ended: Callable[[Optional[bytes]], None]) -> Union[Window, RecodingWindow]:
    """``recodes``: the application gets the body in its content coding, else decoded."""
    decoder = decoder_for(coding)
    return RecodingWindow(decoder, ended) if recodes and decoder is not None else Window(decoder, ended)


def _could_be_tail(data: bytearray, at: int) -> bool:
    """Whether all bytes from a position on can be a tail or the beginning of one."""
    end = len(data)
    flags_at = at + HEAD_BYTES
    if flags_at < end and data[flags_at] & ~_FLAGS:
        return False
    if flags_at + 1 >= end:
        return True
    length, name_at = data[flags_at + 1], flags_at + 2
    if not 0 < length <= SERVICE_BYTES:
        return False
    return all(byte >= 0x20 and byte != 0x7F for byte in data[name_at : name_at + length])
