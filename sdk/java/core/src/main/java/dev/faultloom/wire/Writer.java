package dev.faultloom.wire;

import static java.nio.charset.StandardCharsets.UTF_8;

import java.util.Arrays;

/** Encodes the primitives of the format into a growing buffer. Not safe for concurrent use. */
public final class Writer {
    private byte[] bytes;
    private int length;

    /** @param capacity of the buffer in bytes before it grows for the first time */
    public Writer(int capacity) {
        bytes = new byte[capacity];
    }

    /** Writes into an existing array, from {@code at} on. */
    Writer(byte[] into, int at) {
        bytes = into;
        length = at;
    }

    private int reserve(int n) {
        int from = length;
        length += n;
        if (length > bytes.length) {
            bytes = Arrays.copyOf(bytes, Math.max(length, 2 * bytes.length));
        }
        return from;
    }

    /** One byte. */
    public Writer u8(int v) {
        int at = reserve(1); // may replace the buffer
        bytes[at] = (byte) v;
        return this;
    }

    /** Four bytes, big endian. */
    public Writer u32(long v) {
        int at = reserve(4);
        bytes[at] = (byte) (v >>> 24);
        bytes[at + 1] = (byte) (v >>> 16);
        bytes[at + 2] = (byte) (v >>> 8);
        bytes[at + 3] = (byte) v;
        return this;
    }

    /** Eight bytes, big endian. */
    public Writer u64(long v) {
        return u32(v >>> 32).u32(v);
    }

    /** Unsigned LEB128. */
    public Writer varint(long v) {
        while ((v & ~0x7FL) != 0) {
            u8((int) v & 0x7F | 0x80);
            v >>>= 7;
        }
        return u8((int) v);
    }

    /** Bytes without a length. */
    public Writer bytes(byte[] b) {
        return bytes(b, 0, b.length);
    }

    /** {@code n} bytes of {@code b} from {@code from}. */
    public Writer bytes(byte[] b, int from, int n) {
        int at = reserve(n);
        System.arraycopy(b, from, bytes, at, n);
        return this;
    }

    /** The length in bytes and the string in UTF-8. */
    public Writer string(String s) {
        int n = s.length();
        int start = length;
        varint(n);
        int at = reserve(n);
        for (int i = 0; i < n; i++) {
            char c = s.charAt(i);
            if (c >= 0x80) { // not ASCII: start again
                length = start;
                byte[] b = s.getBytes(UTF_8);
                return varint(b.length).bytes(b);
            }
            bytes[at + i] = (byte) c;
        }
        return this;
    }

    /** The number of bytes written. */
    public int length() {
        return length;
    }

    /** The size of the buffer in bytes. */
    public int capacity() {
        return bytes.length;
    }

    /** Discards everything after the first {@code n} bytes. */
    public void truncate(int n) {
        length = n;
    }

    /** The buffer itself; its first {@link #length} bytes are valid. Writing may replace it. */
    public byte[] array() {
        return bytes;
    }

    /** A copy of the bytes written. */
    public byte[] toBytes() {
        return Arrays.copyOf(bytes, length);
    }
}
