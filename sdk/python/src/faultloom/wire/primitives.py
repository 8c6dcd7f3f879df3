"""Primitives of the format: ``u8``, ``varint``, ``str`` (docs/formats/messages.md, "Primitives").

A reader never trusts a length: each one is checked against the available bytes before it is used.
"""

from __future__ import annotations

from typing import Union

from .errors import malformed

Bytes = Union[bytes, bytearray, memoryview]

U64 = (1 << 64) - 1


def encode_varint(value: int) -> bytes:
    """Unsigned LEB128 of ``value`` (0 to 2^64-1)."""
    if value < 128:
        return _SMALL[value]
    if value < 16_384:
        return bytes((value & 127 | 128, value >> 7))
    if value < 2_097_152:
        return bytes((value & 127 | 128, value >> 7 & 127 | 128, value >> 14))
    if value >> 49 and not value >> 56:  # the time of day in microseconds
        low = (value & 127 | 128, value >> 7 & 127 | 128, value >> 14 & 127 | 128, value >> 21 & 127 | 128)
        return bytes((*low, value >> 28 & 127 | 128, value >> 35 & 127 | 128, value >> 42 & 127 | 128, value >> 49))
    out = bytearray()
    while value > 127:
        out.append(value & 127 | 128)
        value >>= 7
    out.append(value)
    return bytes(out)


_SMALL = [bytes((n,)) for n in range(128)]


def encode_string(text: str) -> bytes:
    """A ``str``: length in bytes, then UTF-8. Lone surrogates (from undecodable file names) become ``?``."""
    data = text.encode("utf-8", "replace")
    return encode_varint(len(data)) + data


def truncate_text(text: str, limit: int) -> str:
    """``text`` truncated to at most ``limit`` bytes of UTF-8, at a character boundary."""
    if len(text) * 4 <= limit:
        return text
    data = text.encode("utf-8", "replace")
    return text if len(data) <= limit else data[:limit].decode("utf-8", "ignore")


class Reader:
    """Reads primitives from ``data`` between ``at`` and ``end``. Raises ``malformed`` beyond the end."""

    __slots__ = ("at", "data", "end")

    def __init__(self, data: bytes, at: int = 0, end: int = -1) -> None:
        self.data = data
        self.at = at
        self.end = len(data) if end < 0 else end

    def done(self) -> bool:
        return self.at >= self.end

    def u8(self) -> int:
        at = self.at
        if at >= self.end:
            raise malformed("ends early")
        self.at = at + 1
        return self.data[at]

    def take(self, count: int) -> bytes:
        at = self.at
        if count > self.end - at:
            raise malformed("ends early")
        self.at = at + count
        return self.data[at : at + count]

    def rest(self) -> bytes:
        at, self.at = self.at, self.end
        return self.data[at : self.end]

    def varint(self) -> int:
        at = self.at
        end = self.end
        data = self.data
        if at < end and data[at] < 128:
            self.at = at + 1
            return data[at]
        value = shift = 0
        while at < end:
            byte = data[at]
            at += 1
            if byte < 128:
                if shift == 63 and byte > 1:
                    break
                self.at = at
                return value | byte << shift
            value |= (byte & 127) << shift
            shift += 7
            if shift > 63:
                break
        raise malformed("varint")

    def count(self, limit: int) -> int:
        """A varint that is a count, a length or an index: at most ``limit``."""
        value = self.varint()
        if value > limit:
            raise malformed("exceeds its limit")
        return value

    def string(self, shortest: int, longest: int) -> str:
        length = self.varint()
        if length < shortest or length > longest:
            raise malformed("length of a string")
        at = self.at
        if length > self.end - at:
            raise malformed("ends early")
        self.at = at + length
        try:
            return self.data[at : at + length].decode("utf-8")
        except UnicodeDecodeError:
            raise malformed("not UTF-8") from None
