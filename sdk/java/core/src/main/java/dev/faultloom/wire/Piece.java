package dev.faultloom.wire;

/**
 * One piece of the history of a stream.
 *
 * <pre>
 * u8 0x81   u8 flags: bit 0 last, bit 1 truncated   varint offset   the next bytes of the history, to the end
 * </pre>
 */
public final class Piece {
    static final int MARK = 0x81;
    static final int LAST = 1;
    static final int TRUNCATED = 2;

    private Piece() {}

    /** Whether these bytes begin like a piece and not like a whole history. */
    public static boolean is(byte[] b, int from, int to) {
        return from < to && (b[from] & 0xFF) == MARK;
    }

    /** A piece that is not the last: {@code n} bytes from {@code from}, behind {@code offset} earlier ones. */
    public static byte[] of(int offset, byte[] history, int from, int n) {
        return new Writer(size(offset, n)).u8(MARK).u8(0).varint(offset).bytes(history, from, n).array();
    }

    /** How long a piece with {@code n} bytes of history becomes. */
    public static int size(int offset, int n) {
        return 2 + Bytes.varintLength(offset) + n;
    }

    /**
     * The last piece of a history of which {@code offset} bytes have left before, in at most {@code limit} bytes: if need
     * be without child histories, or with fewer events and the truncated flag. Null if not even the SEND_RESPONSE fits.
     * Errors: those of a history that cannot be read.
     */
    public static byte[] last(byte[] history, int offset, int limit) throws WireError {
        int n = history.length - offset;
        Writer out = new Writer(Math.min(size(offset, n), Math.max(limit, 64))).u8(MARK);
        if (size(offset, n) <= limit) {
            return out.u8(LAST).varint(offset).bytes(history, offset, n).array();
        }
        Events events = new Events(history, History.HEAD_BYTES, history.length);
        out.u8(LAST | TRUNCATED).varint(offset);
        if (offset < events.first()) {
            out.bytes(history, offset, events.first() - offset);
        }
        return events.shorten(out, offset, limit) ? out.toBytes() : null;
    }
}
