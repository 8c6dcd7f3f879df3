"""Chunks of HTTP/1.1 (RFC 9112 §7.1): encodes them, and reads those that an application writes itself."""

from __future__ import annotations

#: the longest line with the size of a chunk, and the longest trailer section
_LINE_BYTES_MAX = 8192


def chunk(data: bytes) -> bytes:
    """``data``, which is not empty, as one chunk."""
    return b"%x\r\n%b\r\n" % (len(data), data)


class Chunks:
    """A body in chunks."""

    def __init__(self) -> None:
        self._bytes = bytearray()
        #: bytes of the current chunk that are missing, with the line end after it; 0: a size comes next
        self._left = 0
        #: the last chunk and the trailer section, as they arrived
        self.end = b""
        self._has_ended = False

    @property
    def is_complete(self) -> bool:
        return self._has_ended

    def feed(self, data: bytes) -> bytes:
        """The bytes of the body in ``data``. Raises ValueError for anything other than chunks."""
        if self._has_ended:
            if data:
                raise ValueError("bytes after the last chunk")
            return b""
        self._bytes += data
        out = bytearray()
        while self._bytes and not self._has_ended:
            if self._left:
                part = bytes(self._bytes[: self._left])
                del self._bytes[: len(part)]
                body_bytes = max(0, min(len(part), self._left - 2))
                out += part[:body_bytes]
                if part[body_bytes:] != b"\r\n"[2 - (self._left - body_bytes) :][: len(part) - body_bytes]:
                    raise ValueError("a chunk does not end with a line end")
                self._left -= len(part)
            elif not self._read_size():
                break
        return bytes(out)

    def _read_size(self) -> bool:
        """Reads the line with the size of the next chunk. False: it is incomplete."""
        line_end = self._bytes.find(b"\r\n")
        if line_end < 0:
            if len(self._bytes) > _LINE_BYTES_MAX:
                raise ValueError("the size of a chunk is too long")
            return False
        size = int(bytes(self._bytes[:line_end]).partition(b";")[0].strip(), 16)
        if size < 0:
            raise ValueError("a negative size")
        if size:
            del self._bytes[: line_end + 2]
            self._left = size + 2
            return True
        # without trailers, the line end of the last chunk is followed by another one
        end = line_end if self._bytes.startswith(b"\r\n", line_end + 2) else self._bytes.find(b"\r\n\r\n", line_end + 2)
        if end < 0:
            if len(self._bytes) > _LINE_BYTES_MAX:
                raise ValueError("the trailer section is too long")
            return False
        self.end = bytes(self._bytes[: end + 4])
        if len(self._bytes) > end + 4:
            raise ValueError("bytes after the last chunk")
        self._bytes.clear()
        self._has_ended = True
        return False
