"""Carriers of histories: an appended protobuf field, a trailer, a header, or a tail after an HTTP body.

The field also carries the envelope of a unary gRPC call, to a callee that has announced that it accepts it there.
"""

from __future__ import annotations

import functools
from typing import Any, Callable, Collection, Iterable, Mapping, Optional, Tuple

from .errors import FaultloomError
from .history import can_begin_tail
from .primitives import Reader, encode_varint

GRPC_KEY = "x-faultloom-bin"
ATTEMPTS_KEY = "grpc-previous-rpc-attempts"
REQUEST_HEADER = "x-faultloom"
HISTORY_HEADER = "x-faultloom-history"
REPLY_HEADER = "x-faultloom-reply"
HEADER_BYTES = 768
TRAILER_BYTES = 3072
MAGIC = b"flm\x01"
END_BYTES = 8
_FIELD_TAG = encode_varint(333_000_333 << 3 | 2)
_TAG_BYTES = len(_FIELD_TAG)

_NO_TAIL_REPLY = frozenset(
    ("content-range", "digest", "content-digest", "repr-digest", "content-md5", "trailer", "upgrade")
)
#: bodies of frames that a parser reads to their ends: gRPC, gRPC-Web, and the streams of Connect
_FRAMED_TYPES = ("application/grpc", "application/connect+")
_NO_TAIL_REQUEST = frozenset(("range", "upgrade"))


def attempt_of(metadata: Iterable[Tuple[str, Any]]) -> int:
    """The number of earlier attempts of a gRPC request, from its metadata."""
    return next((parse_attempt(value) for key, value in metadata if key == ATTEMPTS_KEY), 0)


def parse_attempt(value: Any) -> int:
    text = value.decode("ascii", "replace") if isinstance(value, bytes) else str(value)
    return int(text) if text.isascii() and text.isdigit() and len(text) < 10 else 0


def encode_field(history: bytes) -> bytes:
    """The field to append to a serialized protobuf message."""
    before, after = field_ends(len(history))
    return b"".join((before, history, after))


# nearly all envelopes have the same length, and most histories one of a few
@functools.lru_cache(maxsize=256)
def field_ends(size: int) -> Tuple[bytes, bytes]:
    """The bytes of a field before and after its ``size`` bytes of content."""
    size += END_BYTES
    before = _FIELD_TAG + encode_varint(size)
    return before, (len(before) + size).to_bytes(4, "big") + MAGIC


def field_length(history_bytes: int) -> int:
    """The length of the field for a history of this length."""
    size = history_bytes + END_BYTES
    return _TAG_BYTES + len(encode_varint(size)) + size


def _length(data: bytes) -> int:
    """The length in front of the magic, or -1."""
    if len(data) < END_BYTES or data[-4:] != MAGIC:
        return -1
    return int.from_bytes(data[-8:-4], "big")


def field_cutter(read: Optional[Callable[[bytes], Any]]) -> Callable[[bytes], Tuple[Any, Optional[bytes]]]:
    """A function that returns the message without the field, decoded by ``read``, and the field's content or None."""

    def cut(data: bytes) -> Tuple[Any, Optional[bytes]]:
        content: Optional[bytes] = None
        if data[-4:] == MAGIC:
            length, before, skip = _frame(data[-8:-4])
            at = len(data) - length
            if at >= 0 and data.startswith(before, at):
                data, content = data[:at], data[at + skip : -8]
            else:
                data, content = _cut_field_slow(data)
        return (data if read is None else read(data)), content

    return cut


cut_field = field_cutter(None)


@functools.lru_cache(maxsize=256)
def _frame(length_bytes: bytes) -> Tuple[int, bytes, int]:
    """For the length at the end of a field: the length, the bytes before the content, and their number.

    A length that no minimally encoded field has gives one that no message reaches.
    """
    length = int.from_bytes(length_bytes, "big")
    for width in range(1, 6):
        size = length - _TAG_BYTES - width
        if size >= END_BYTES and len(encode_varint(size)) == width:
            return length, _FIELD_TAG + encode_varint(size), _TAG_BYTES + width
    return 1 << 62, b"", 0


def _cut_field_slow(data: bytes) -> Tuple[bytes, Optional[bytes]]:
    """Like ``cut_field``, for lengths that are not minimally encoded."""
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


def encode_tail(history: bytes) -> bytes:
    """The bytes to send after an HTTP body."""
    return history + len(history).to_bytes(4, "big") + MAGIC


def cut_tail(data: bytes) -> Tuple[bytes, Optional[bytes]]:
    """The body without the tail, and the history or None.

    What does not begin like a history is part of the body, whatever its end looks like.
    """
    length = _length(data)
    at = len(data) - END_BYTES - length
    if length < 0 or at < 0:
        return data, None
    history = data[at:-END_BYTES]
    return (data[:at], history) if can_begin_tail(history) else (data, None)


def last_value(lines: Iterable[str]) -> Optional[str]:
    """The value of one of our headers that may occur more than once: the last member of its last line.

    None without lines. Lines of the same name are one list, which servers and proxies may join with commas (RFC 9110
    §5.3).
    """
    last: Optional[str] = None
    for last in lines:
        pass
    return None if last is None else last.rpartition(",")[2].strip(" \t")


def may_have_tail(status: int) -> bool:
    """Whether a reply with this HTTP status may have a tail. An announcement on any other counts for nothing."""
    return status == 200 or status >= 400


def allows_tail(method: str, request_headers: Collection[str], status: int, headers: Mapping[str, str]) -> bool:
    """Whether a complete reply to a caller that accepts tails may have one. Header names in lower case."""
    return (
        may_have_tail(status)
        and method != "HEAD"
        and headers.get("content-encoding", "identity") == "identity"
        and _NO_TAIL_REPLY.isdisjoint(headers)
        and not headers.get("content-type", "").strip().lower().startswith(_FRAMED_TYPES)
        and _NO_TAIL_REQUEST.isdisjoint(request_headers)
    )


def corrupt_body(body: bytes) -> bytes:
    """The body that a corrupt-reply fault leads to: its second half is replaced by 0xFF."""
    half = len(body) // 2
    return body[:half] + b"\xff" * (len(body) - half)
