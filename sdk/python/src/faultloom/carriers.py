"""How a history rides on a reply: an appended protobuf field, a trailer, a header, or a tail behind an HTTP body.

The field also carries the envelope of a unary gRPC call, to a callee that has said that it takes it there.
"""

from __future__ import annotations

import functools
from typing import Any, Callable, Collection, Iterable, Mapping, Optional, Tuple

from .errors import FaultloomError
from .wire import Reader, varint

GRPC_KEY = "x-faultloom-bin"
ATTEMPTS_KEY = "grpc-previous-rpc-attempts"
REQUEST_HEADER = "x-faultloom"
HISTORY_HEADER = "x-faultloom-history"
REPLY_HEADER = "x-faultloom-reply"
HEADER_BYTES = 768
TRAILER_BYTES = 3072
MAGIC = b"flm\x01"
END_BYTES = 8
_FIELD_TAG = varint(333_000_333 << 3 | 2)
_TAG_BYTES = len(_FIELD_TAG)

_NO_TAIL_REPLY = frozenset(
    ("content-range", "digest", "content-digest", "repr-digest", "content-md5", "trailer", "upgrade")
)
_NO_TAIL_REQUEST = frozenset(("range", "upgrade"))


def attempt_in(metadata: Iterable[Tuple[str, Any]]) -> int:
    """The number of the attempt that a gRPC request is, from 0."""
    return next((attempt_number(value) for key, value in metadata if key == ATTEMPTS_KEY), 0)


def attempt_number(value: Any) -> int:
    text = value.decode("ascii", "replace") if isinstance(value, bytes) else str(value)
    return int(text) if text.isascii() and text.isdigit() and len(text) < 10 else 0


def field(history: bytes) -> bytes:
    """The field to append to a serialized protobuf message."""
    before, behind = field_ends(len(history))
    return b"".join((before, history, behind))


# envelopes are nearly all of one length, and most histories of a few
@functools.lru_cache(maxsize=256)
def field_ends(size: int) -> Tuple[bytes, bytes]:
    """What a field has before and behind its ``size`` bytes."""
    size += END_BYTES
    before = _FIELD_TAG + varint(size)
    return before, (len(before) + size).to_bytes(4, "big") + MAGIC


def field_bytes(history_bytes: int) -> int:
    """How long ``field`` makes a history of that length."""
    size = history_bytes + END_BYTES
    return _TAG_BYTES + len(varint(size)) + size


def _length(data: bytes) -> int:
    """The length named in front of the magic, or -1."""
    if len(data) < END_BYTES or data[-4:] != MAGIC:
        return -1
    return int.from_bytes(data[-8:-4], "big")


def field_cutter(read: Optional[Callable[[bytes], Any]]) -> Callable[[bytes], Tuple[Any, Optional[bytes]]]:
    """What gives the message without the field, as ``read`` reads it, and the history (of a request: the envelope) if there was one."""

    def cut(data: bytes) -> Tuple[Any, Optional[bytes]]:
        content: Optional[bytes] = None
        if data[-4:] == MAGIC:
            length, before, skip = _frame(data[-8:-4])
            at = len(data) - length
            if at >= 0 and data.startswith(before, at):
                data, content = data[:at], data[at + skip : -8]
            else:
                data, content = _cut_other(data)
        return (data if read is None else read(data)), content

    return cut


cut_field = field_cutter(None)


@functools.lru_cache(maxsize=256)
def _frame(named: bytes) -> Tuple[int, bytes, int]:
    """Of a field whose end names this length: the length, what stands before its content, and how long that is.

    Nothing fits a length that no field has whose own length is written in the fewest bytes.
    """
    length = int.from_bytes(named, "big")
    for width in range(1, 6):
        size = length - _TAG_BYTES - width
        if size >= END_BYTES and len(varint(size)) == width:
            return length, _FIELD_TAG + varint(size), _TAG_BYTES + width
    return 1 << 62, b"", 0


def _cut_other(data: bytes) -> Tuple[bytes, Optional[bytes]]:
    """As ``cut_field``, for lengths that are not written in the fewest bytes."""
    length = _length(data)
    at = len(data) - length
    if length < 0 or at < 0 or not data.startswith(_FIELD_TAG, at):
        return data, None
    r = Reader(data, at + _TAG_BYTES)
    try:
        size = r.varint()
    except FaultloomError:
        return data, None
    if size < END_BYTES or size != len(data) - r.at:
        return data, None
    return data[:at], data[r.at : -END_BYTES]


def tail(history: bytes) -> bytes:
    """The bytes to send behind an HTTP body."""
    return history + len(history).to_bytes(4, "big") + MAGIC


def cut_tail(data: bytes) -> Tuple[bytes, Optional[bytes]]:
    """The body without the tail, and the history if there was one."""
    length = _length(data)
    at = len(data) - END_BYTES - length
    if length < 0 or at < 0:
        return data, None
    return data[:at], data[at:-END_BYTES]


def may_have_tail(method: str, request_headers: Collection[str], status: int, headers: Mapping[str, str]) -> bool:
    """Whether a complete reply to a caller that accepts tails may have one. Header names in lower case."""
    return (
        (status == 200 or status >= 400)
        and method != "HEAD"
        and headers.get("content-encoding", "identity") == "identity"
        and _NO_TAIL_REPLY.isdisjoint(headers)
        and _NO_TAIL_REQUEST.isdisjoint(request_headers)
    )


def corrupt(body: bytes) -> bytes:
    """What a corrupt-reply fault makes of a body: its second half is 0xFF."""
    half = len(body) // 2
    return body[:half] + b"\xff" * (len(body) - half)
