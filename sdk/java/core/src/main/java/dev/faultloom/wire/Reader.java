package dev.faultloom.wire;

import static java.nio.charset.StandardCharsets.ISO_8859_1;
import static java.nio.charset.StandardCharsets.UTF_8;

/**
 * Consumes the primitives of the format. After the first failure every further read fails too and gives zeros, so that
 * callers check {@link #bad} once, at the end.
 */
public final class Reader {
    private final byte[] bytes;
    private int at;
    private int end;
    private boolean bad;

    /** Reads {@code bytes} from {@code from} up to, not including, {@code to}. */
    public Reader(byte[] bytes, int from, int to) {
        this.bytes = bytes;
        this.at = from;
        this.end = to;
    }

    /** Whether something failed so far. */
    public boolean bad() {
        return bad;
    }

    /** Lets everything from here on fail. */
    public void fail() {
        bad = true;
        end = at;
    }

    /** Where the next byte lies in the array. */
    public int at() {
        return at;
    }

    /** How many bytes are left. */
    public int left() {
        return end - at;
    }

    /** Skips so many bytes and returns where they began. */
    public int take(int n) {
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
        int from = take(4);
        return bad ? 0 : Bytes.u32(bytes, from);
    }

    /** Eight bytes, big endian. */
    public long u64() {
        int from = take(8);
        return bad ? 0 : Bytes.u64(bytes, from);
    }

    /** Unsigned LEB128 of at most 10 bytes, below 2^64. */
    public long varint() {
        if (at < end && bytes[at] >= 0) {
            return bytes[at++];
        }
        long value = 0;
        for (int shift = 0; shift < 70; shift += 7) {
            int b = u8();
            if (bad || (shift == 63 && b > 1)) {
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

    /** A varint that may be at most {@code max}. */
    public int count(int max) {
        long n = varint();
        if (Long.compareUnsigned(n, max) > 0) {
            fail();
            return 0;
        }
        return (int) n;
    }

    /** A length and that many bytes of UTF-8, both bounds in bytes. */
    public String str(int min, int max) {
        int from = skipStr(min, max);
        if (bad) {
            return "";
        }
        // ASCII is the usual case and needs no decoding
        return new String(bytes, from, at - from, Text.isAscii(bytes, from, at) ? ISO_8859_1 : UTF_8);
    }

    /** Checks what {@link #str} would read, and returns where it begins; it ends at {@link #at}. */
    int skipStr(int min, int max) {
        int n = count(max);
        if (n < min) {
            fail();
            return at;
        }
        int from = take(n);
        if (!bad && !Text.isAscii(bytes, from, at) && !Text.isUtf8(bytes, from, at)) {
            fail();
        }
        return from;
    }
}
