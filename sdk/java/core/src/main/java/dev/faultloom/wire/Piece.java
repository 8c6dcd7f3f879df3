package dev.faultloom.wire;

/**
 * A piece of the history of a stream.
 *
 * <pre>
 * u8 0x81   u8 flags: bit 0 last, bit 1 truncated, bit 2 the history has version 2
 * varint offset   the next bytes of the history, up to the end
 * </pre>
 */
public final class Piece {
    static final int MARK = 0x81;
    static final int LAST = 1;
    static final int TRUNCATED = 2;
    /** The history has version 2, although a head that was sent before has version 1. */
    static final int VERSION_2 = 4;

    private Piece() {}

    /** Whether these bytes start like a piece, not like a complete history. */
    public static boolean isPiece(byte[] b, int from, int to) {
        return from < to && (b[from] & 0xFF) == MARK;
    }

    /**
     * Encodes a piece that is not the last: {@code n} bytes from {@code from}, after {@code offset} earlier bytes of a
     * history that has that version now.
     */
    public static byte[] encode(int version, int offset, byte[] history, int from, int n) {
        Writer out = new Writer(encodedLength(offset, n)).u8(MARK).u8(versionFlag(version));
        return out.varint(offset).bytes(history, from, n).array();
    }

    private static int versionFlag(int version) {
        return version == History.VERSION_2 ? VERSION_2 : 0;
    }

    /** The length of a piece with {@code n} bytes of history. */
    public static int encodedLength(int offset, int n) {
        return 2 + Bytes.varintLength(offset) + n;
    }

    /**
     * Encodes the last piece of a history of that version, of which {@code offset} bytes were sent, in at most {@code
     * limit} bytes. If needed, child histories and then events are left out and the piece is marked as truncated. Null
     * if not even SEND_RESPONSE fits. Errors: malformed, unsupported_version.
     */
    public static byte[] encodeLast(int version, byte[] history, int offset, int limit) throws WireError {
        int n = history.length - offset;
        Writer out = new Writer(Math.min(encodedLength(offset, n), Math.max(limit, 64))).u8(MARK);
        if (encodedLength(offset, n) <= limit) {
            return out.u8(LAST | versionFlag(version)).varint(offset).bytes(history, offset, n).array();
        }
        EventIndex events = new EventIndex(history, History.HEAD_BYTES, history.length);
        out.u8(LAST | TRUNCATED | versionFlag(version)).varint(offset);
        if (offset < events.firstEvent()) {
            out.bytes(history, offset, events.firstEvent() - offset);
        }
        return events.writeTruncated(out, offset, limit) ? out.toBytes() : null;
    }
}
