package dev.faultloom.wire;

/** Numbers in byte arrays, big endian. */
public final class Bytes {
    /** An empty array. */
    public static final byte[] NONE = new byte[0];

    private Bytes() {}

    /** Four bytes, big endian, unsigned. */
    public static long u32(byte[] b, int at) {
        return (b[at] & 0xFFL) << 24 | (b[at + 1] & 0xFFL) << 16 | (b[at + 2] & 0xFFL) << 8 | (b[at + 3] & 0xFFL);
    }

    /** Eight bytes, big endian. */
    public static long u64(byte[] b, int at) {
        return u32(b, at) << 32 | u32(b, at + 4);
    }

    /** The encoded length of a varint. */
    public static int varintLength(long v) {
        int n = 1;
        while ((v >>>= 7) != 0) {
            n++;
        }
        return n;
    }
}
