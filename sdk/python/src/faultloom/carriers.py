"""How a history rides on a reply: an appended protobuf field, a trailer, a header, or a tail behind an HTTP body.

The field also carries the envelope of a unary gRPC call, to a callee that has said that it takes it there.
"""

from __future__ import annotations

import functools
from typing import Collection, Mapping, Optional, Tuple

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


def cut_field(data: bytes) -> Tuple[bytes, Optional[bytes]]:
    """The message without the field, and the history (of a request: the envelope) if there was one."""
    size = len(data)
    if size < END_BYTES or data[-4:] != MAGIC:
        return data, None
    at = size - int.from_bytes(data[-8:-4], "big")
    start = at + _TAG_BYTES
    if at < 0 or data[at:start] != _FIELD_TAG:
        return data, None
    # nearly all are shorter than 16 kB; a reader of their one or two bytes costs more than all the rest
    length = data[start] if start < size else 0
    if length < 128:
        start += 1
    elif data[start + 1] < 128:
        length, start = length & 127 | data[start + 1] << 7, start + 2
    else:
        r = Reader(data, start)
        try:
            length, start = r.varint(), r.at
        except FaultloomError:
            return data, None
    if length < END_BYTES or length != size - start:
        return data, None
    return data[:at], data[start:-END_BYTES]


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
