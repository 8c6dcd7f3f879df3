package dev.faultloom.wire;

/** Joins the pieces of a stream's history. Not safe for concurrent use. */
public final class PieceJoiner {
    private final Writer joined = new Writer(256);
    private boolean last;
    private boolean truncated;
    private boolean isVersion2;
    private boolean broken;

    /**
     * Adds the next piece. False: it is malformed or out of order; it and all later pieces are ignored, and the history
     * is marked as truncated.
     */
    public boolean add(byte[] b, int from, int to) {
        if (broken) {
            return false;
        }
        Reader r = new Reader(b, from, to);
        int mark = r.u8();
        int flags = r.u8();
        long offset = r.varint();
        if (r.hasFailed() || last || mark != Piece.MARK || flags > 7 || offset != joined.length()
                || joined.length() + r.remaining() > History.MAX_BYTES) {
            broken = true;
            return false;
        }
        joined.bytes(b, r.position(), r.remaining());
        last = (flags & Piece.LAST) != 0;
        truncated |= (flags & Piece.TRUNCATED) != 0;
        isVersion2 |= (flags & Piece.VERSION_2) != 0;
        return true;
    }

    /** Whether the last piece arrived and nothing was left out. */
    public boolean isComplete() {
        return last && !truncated;
    }

    /**
     * A copy of the history joined so far, or null if its head has not arrived or belongs to another call. It is marked
     * as truncated unless it is complete.
     */
    public byte[] history(long call) {
        try {
            if (History.readCallId(joined.array(), 0, joined.length()) != call) {
                return null;
            }
        } catch (WireError e) {
            return null;
        }
        Reader r = new Reader(joined.array(), History.HEAD_BYTES, joined.length());
        Segment.readPrefix(r);
        if (r.hasFailed()) {
            return null;
        }
        byte[] out = joined.toBytes();
        if (isVersion2) {
            out[0] = History.VERSION_2;
        }
        if (!isComplete()) {
            out[History.HEAD_BYTES] |= Segment.TRUNCATED;
        }
        return out;
    }
}
