"""The history of a stream: split into pieces that its messages carry, and joined again by the caller.

A caller that ends a stream early has the history until then: every reply message carries what is new, the trailer the
rest. Pieces end between events.

    0x81 │ flags: 1 last, 2 truncated, 4 version 2 │ varint: bytes of the history before it │ the next bytes of it
"""

from __future__ import annotations

from typing import Any, Iterable, List, Optional, Tuple

from .carriers import GRPC_KEY, TRAILER_BYTES
from .errors import FaultloomError
from .history import HEAD_BYTES, HISTORY_BYTES, VERSION, VERSION_2, read_segment_head, split_history, truncate_events
from .primitives import Reader, encode_varint

PIECE = 0x81
LAST, TRUNCATED = 1, 2
#: the history has version 2, although a head that was sent before has version 1
PIECE_VERSION_2 = 4


def encode_piece(offset: int, data: bytes, flags: int = 0, version: int = VERSION) -> bytes:
    """``version``: that of the history now."""
    if version == VERSION_2:
        flags |= PIECE_VERSION_2
    return bytes((PIECE, flags)) + encode_varint(offset) + data


def encode_last_piece(
    offset: int, head: bytes, events: bytes, truncated: bool = False, version: int = VERSION
) -> Optional[bytes]:
    """The piece for a stream's trailer.

    ``head`` is empty if a message has carried it. None: even the frame does not fit.
    """
    whole = encode_piece(offset, head + events, LAST | TRUNCATED * truncated, version)
    if len(whole) <= TRAILER_BYTES:
        return whole
    frame = encode_piece(offset, head, LAST | TRUNCATED, version)
    truncated_events = truncate_events(events, TRAILER_BYTES - len(frame))
    return None if truncated_events is None else frame + truncated_events


def decode_piece(data: bytes) -> Optional[Tuple[int, int, bytes]]:
    """Flags, offset and bytes of a piece. None: not a piece."""
    r = Reader(data)
    try:
        kind, flags, offset = r.u8(), r.u8(), r.varint()
    except FaultloomError:
        return None
    return (flags, offset, r.rest()) if kind == PIECE and not flags & ~7 else None


class PieceJoiner:
    """Joins the pieces of one stream, in the order of arrival."""

    def __init__(self, call: int) -> None:
        self._call = call
        self._parts: List[bytes] = []
        self._size = 0
        self._open = True
        self._truncated = False
        self._is_version_2 = False
        #: the last piece arrived: the callee has finished
        self.is_complete = False

    def add(self, data: bytes) -> None:
        """Adds a piece. One that is out of order is dropped, with all that follow."""
        read = decode_piece(data) if self._open else None
        if read is None or read[1] != self._size or self._size + len(read[2]) > HISTORY_BYTES:
            self._open = False
            return
        flags, _, rest = read
        self._parts.append(rest)
        self._size += len(rest)
        self._truncated |= bool(flags & TRUNCATED)
        self._is_version_2 |= bool(flags & PIECE_VERSION_2)
        if flags & LAST:
            self._open, self.is_complete = False, True

    def add_trailer(self, metadata: Optional[Iterable[Any]]) -> None:
        """Adds the piece in a call's trailers.

        The last value counts: the application may have forwarded earlier ones.
        """
        last: Optional[bytes] = None
        for key, value in metadata or ():
            if key == GRPC_KEY and isinstance(value, bytes):
                last = value
        if last is not None:
            self.add(last)

    @property
    def is_whole(self) -> bool:
        """Whether the history is complete and not truncated."""
        return self.is_complete and not self._truncated

    def history(self) -> Optional[bytes]:
        """The pieces so far as an ordinary history. None: its head has not come, or it belongs to another call."""
        data = bytearray(b"".join(self._parts))
        try:
            head, _ = split_history(bytes(data))
            if head.call != self._call:
                return None
            read_segment_head(Reader(bytes(data), HEAD_BYTES))
        except FaultloomError:
            return None
        if self._is_version_2:
            data[0] = VERSION_2
        if not self.is_whole:
            data[HEAD_BYTES] |= 1
        return bytes(data)
