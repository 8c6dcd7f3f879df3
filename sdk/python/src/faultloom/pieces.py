"""The history of a stream: cut into pieces that ride on its messages, and joined again by the caller.

A caller that ends a stream early still has what happened until then: every reply message takes along what is new, the
trailer takes the rest. Pieces end between events.

    0x81 │ flags: 1 last, 2 truncated │ varint: bytes of the history before this piece │ the next bytes of it
"""

from __future__ import annotations

from typing import List, Optional

from .carriers import TRAILER_BYTES
from .errors import FaultloomError
from .history import HEAD_BYTES, HISTORY_BYTES, read_prefix, shorten
from .wire import Reader, varint

PIECE = 0x81
LAST, TRUNCATED = 1, 2


def piece(offset: int, data: bytes, flags: int = 0) -> bytes:
    return bytes((PIECE, flags)) + varint(offset) + data


def last_piece(offset: int, head: bytes, events: bytes) -> Optional[bytes]:
    """What a stream's trailer carries; ``head`` is empty if a message took it along. None: not even its frame fits."""
    whole = piece(offset, head + events, LAST)
    if len(whole) <= TRAILER_BYTES:
        return whole
    frame = piece(offset, head, LAST | TRUNCATED)
    fits = shorten(events, TRAILER_BYTES - len(frame))
    return None if fits is None else frame + fits


class Joiner:
    """Takes the pieces of one stream, in the order in which they come."""

    def __init__(self) -> None:
        self._parts: List[bytes] = []
        self._size = 0
        self._open = True
        self._truncated = False
        #: whether the last piece came: the callee has told its end
        self.ended = False

    def add(self, data: bytes) -> None:
        """A piece that does not fit is dropped, with all that follow."""
        if not self._open:
            return
        r = Reader(data)
        try:
            kind, flags, offset = r.u8(), r.u8(), r.varint()
        except FaultloomError:
            self._open = False
            return
        rest = r.rest()
        if kind != PIECE or flags & ~3 or offset != self._size or self._size + len(rest) > HISTORY_BYTES:
            self._open = False
            return
        self._parts.append(rest)
        self._size += len(rest)
        self._truncated |= bool(flags & TRUNCATED)
        if flags & LAST:
            self._open, self.ended = False, True

    @property
    def complete(self) -> bool:
        return self.ended and not self._truncated

    def history(self) -> Optional[bytes]:
        """What came so far as a history like any other; None: not even its head did."""
        data = bytearray(b"".join(self._parts))
        if len(data) <= HEAD_BYTES or data[0] != 1:
            return None
        try:
            read_prefix(Reader(bytes(data), HEAD_BYTES))
        except FaultloomError:
            return None
        if not self.complete:
            data[HEAD_BYTES] |= 1
        return bytes(data)
