package dev.faultloom.wire;

import static java.nio.charset.StandardCharsets.ISO_8859_1;
import static java.nio.charset.StandardCharsets.UTF_8;

/**
 * Decodes the primitives of the format. After the first failure all further reads fail and return zeros, so callers
 * check {@link #hasFailed} once, at the end.
 */
public final class Reader {
    private final byte[] bytes;
    private int at;
    private int end;
    private boolean failed;

    /** Reads {@code bytes} from {@code from} up to, not including, {@code to}. */
    public Reader(byte[] bytes, int from, int to) {
        this.bytes = bytes;
        this.at = from;
        this.end = to;
    }

    /** Whether a read has failed. */
    public boolean hasFailed() {
        return failed;
    }

    /** Makes this and all further reads fail. */
    public void fail() {
        failed = true;
        end = at;
    }

    /** The position of the next byte in the array. */
    public int position() {
        return at;
    }

    /** The number of unread bytes. */
    public int remaining() {
        return end - at;
    }

    /** Skips {@code n} bytes and returns the position of the first. */
    public int skip(int n) {
        if (n < 0 || n > end - at) {
            fail();
            return at;
        }
        int from = at;
        at += n;
        return from;
    }

    /** One byte, 0..255. */
    public int u8() {
        if (at >= end) {
            fail();
            return 0;
        }
        return bytes[at++] & 0xFF;
    }

    /** Four bytes, big endian, unsigned. */
    public long u32() {
        int from = skip(4);
        return failed ? 0 : Bytes.u32(bytes, from);
    }

    /** Eight bytes, big endian. */
    public long u64() {
        int from = skip(8);
        return failed ? 0 : Bytes.u64(bytes, from);
    }

    /** Unsigned LEB128 of at most 10 bytes, below 2^64. */
    public long varint() {
        if (at < end && bytes[at] >= 0) {
            return bytes[at++];
        }
        long value = 0;
        for (int shift = 0; shift < 70; shift += 7) {
            int b = u8();
            if (failed || (shift == 63 && b > 1)) {
                break;
            }
            value |= (long) (b & 0x7F) << shift;
            if (b < 0x80) {
                return value;
            }
        }
        fail();
        return 0;
    }

    /** A varint of at most {@code max}. */
    public int count(int max) {
        long n = varint();
        if (Long.compareUnsigned(n, max) > 0) {
            fail();
            return 0;
        }
        return (int) n;
    }

    /** A length of {@code min} to {@code max} bytes and a string in UTF-8. */
    public String string(int min, int max) {
        int from = skipString(min, max);
        if (failed) {
            return "";
        }
        // the common case: ASCII needs no decoding
        return new String(bytes, from, at - from, Text.isAscii(bytes, from, at) ? ISO_8859_1 : UTF_8);
    }

    /** Skips and validates a string. Returns its position; it ends at {@link #position}. */
    int skipString(int min, int max) {
        int n = count(max);
        if (n < min) {
            fail();
            return at;
        }
        int from = skip(n);
        if (!failed && !Text.isAscii(bytes, from, at) && !Text.isUtf8(bytes, from, at)) {
            fail();
        }
        return from;
    }
}
