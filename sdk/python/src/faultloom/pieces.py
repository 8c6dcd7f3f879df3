"""The history of a stream: cut into pieces that ride on its messages, and joined again by the caller.

A caller that ends a stream early still has what happened until then: every reply message takes along what is new, the
trailer takes the rest. Pieces end between events.

    0x81 │ flags: 1 last, 2 truncated │ varint: bytes of the history before this piece │ the next bytes of it
"""

from __future__ import annotations

from typing import Any, Iterable, List, Optional, Tuple

from .carriers import GRPC_KEY, TRAILER_BYTES
from .errors import FaultloomError
from .history import HEAD_BYTES, HISTORY_BYTES, read_prefix, shorten
from .wire import Reader, varint

PIECE = 0x81
LAST, TRUNCATED = 1, 2


def piece(offset: int, data: bytes, flags: int = 0) -> bytes:
    return bytes((PIECE, flags)) + varint(offset) + data


def last_piece(offset: int, head: bytes, events: bytes, truncated: bool = False) -> Optional[bytes]:
    """What a stream's trailer carries; ``head`` is empty if a message took it along. None: not even its frame fits."""
    whole = piece(offset, head + events, LAST | TRUNCATED * truncated)
    if len(whole) <= TRAILER_BYTES:
        return whole
    frame = piece(offset, head, LAST | TRUNCATED)
    fits = shorten(events, TRAILER_BYTES - len(frame))
    return None if fits is None else frame + fits


def _read(data: bytes) -> Optional[Tuple[int, int, bytes]]:
    """Flags, offset and bytes of a piece; None: it is none."""
    r = Reader(data)
    try:
        kind, flags, offset = r.u8(), r.u8(), r.varint()
    except FaultloomError:
        return None
    return (flags, offset, r.rest()) if kind == PIECE and not flags & ~3 else None


class Joiner:
    """Takes the pieces of one stream, in the order in which they come."""

    def __init__(self, call: int) -> None:
        self._call = call
        self._parts: List[bytes] = []
        self._size = 0
        self._open = True
        self._truncated = False
        #: whether the last piece came: the callee has told its end
        self.ended = False

    def add(self, data: bytes) -> None:
        """A piece that does not fit is dropped, with all that follow."""
        read = _read(data) if self._open else None
        if read is None or read[1] != self._size or self._size + len(read[2]) > HISTORY_BYTES:
            self._open = False
            return
        flags, _, rest = read
        self._parts.append(rest)
        self._size += len(rest)
        self._truncated |= bool(flags & TRUNCATED)
        if flags & LAST:
            self._open, self.ended = False, True

    def add_trailer(self, metadata: Optional[Iterable[Any]]) -> None:
        """The piece in a call's trailers; other calls' (passed on by the application) are not taken."""
        for key, value in metadata or ():
            if key == GRPC_KEY and isinstance(value, bytes):
                read = _read(value)
                if read is not None and read[1] == self._size and (self._size or read[2][1:HEAD_BYTES] == self._head_id()):
                    self.add(value)
                    return

    def _head_id(self) -> bytes:
        return self._call.to_bytes(8, "big")

    @property
    def complete(self) -> bool:
        return self.ended and not self._truncated

    def history(self) -> Optional[bytes]:
        """What came so far as a history like any other; None: not even its head did, or it is another call's."""
        data = bytearray(b"".join(self._parts))
        if len(data) <= HEAD_BYTES or data[0] != 1 or data[1:HEAD_BYTES] != self._head_id():
            return None
        try:
            read_prefix(Reader(bytes(data), HEAD_BYTES))
        except FaultloomError:
            return None
        if not self.complete:
            data[HEAD_BYTES] |= 1
        return bytes(data)
