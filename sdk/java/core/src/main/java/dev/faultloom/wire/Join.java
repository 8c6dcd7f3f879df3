package dev.faultloom.wire;

/** Joins the pieces of one stream's history as they come. Not safe for concurrent use. */
public final class Join {
    private final Writer joined = new Writer(256);
    private boolean last;
    private boolean truncated;
    private boolean broken;

    /**
     * Takes the next piece. The first that does not fit, or is not a piece, is dropped together with all that follow:
     * then the result is false, and the history will be marked.
     */
    public boolean add(byte[] b, int from, int to) {
        if (broken) {
            return false;
        }
        Reader r = new Reader(b, from, to);
        int mark = r.u8();
        int flags = r.u8();
        long offset = r.varint();
        if (r.bad() || last || mark != Piece.MARK || flags > 3 || offset != joined.length()
                || joined.length() + r.left() > History.MAX_BYTES) {
            broken = true;
            return false;
        }
        joined.bytes(b, r.at(), r.left());
        last = (flags & Piece.LAST) != 0;
        truncated |= (flags & Piece.TRUNCATED) != 0;
        return true;
    }

    /** Whether the last piece came and nothing was left out. */
    public boolean complete() {
        return last && !truncated;
    }

    /** Whether any bytes have come. */
    public boolean begun() {
        return joined.length() > 0;
    }

    /**
     * The history so far, a copy, or null if its head is not there or names another call. Its truncated bit is set unless
     * it is complete.
     */
    public byte[] history(long call) {
        try {
            if (History.callOf(joined.array(), 0, joined.length()) != call) {
                return null;
            }
        } catch (WireError e) {
            return null;
        }
        Reader r = new Reader(joined.array(), History.HEAD_BYTES, joined.length());
        Segment.skipPrefix(r);
        if (r.bad()) {
            return null;
        }
        byte[] out = joined.toBytes();
        if (!complete()) {
            out[History.HEAD_BYTES] |= Segment.TRUNCATED;
        }
        return out;
    }
}
