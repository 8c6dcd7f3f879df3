package dev.faultloom.wire;

/** What a reply brings back: {@code u8 version = 1}, 8 B call id, segment to the end. */
public final class History {
    public static final int MAX_BYTES = 4 << 20;
    public static final int MAX_DEPTH = 64;
    public static final int MAX_EVENTS = 100_000;
    /** Version and call id. */
    public static final int HEAD_BYTES = 9;

    /** Id of the call that it answers. */
    public final long call;
    public final Segment segment;

    private History(long call, Segment segment) {
        this.call = call;
        this.segment = segment;
    }

    /** Reads a whole history. Errors: malformed, unsupported_version. */
    public static History decode(byte[] b) throws WireError {
        return decode(b, 0, b.length);
    }

    /** Reads the history that lies in these bytes. Errors: malformed, unsupported_version. */
    public static History decode(byte[] b, int from, int to) throws WireError {
        long call = callOf(b, from, to);
        return new History(call, Segment.decode(b, from + HEAD_BYTES, to));
    }

    /**
     * Checks size, version and head and returns the call id; the segment, {@link #HEAD_BYTES} further on, is not looked
     * at. Errors: malformed, unsupported_version.
     */
    public static long callOf(byte[] b, int from, int to) throws WireError {
        if (to <= from || to - from > MAX_BYTES) {
            throw WireError.MALFORMED;
        }
        if (b[from] != Envelope.VERSION) {
            throw WireError.UNSUPPORTED_VERSION;
        }
        if (to - from < HEAD_BYTES) {
            throw WireError.MALFORMED;
        }
        return Bytes.u64(b, from + 1);
    }

    /** Whether the service of this history takes envelopes in a field of the answered method's requests. */
    public static boolean takesField(byte[] b, int from, int to) {
        return to - from > HEAD_BYTES && b[from] == Envelope.VERSION && (b[from + HEAD_BYTES] & Segment.TAKES_FIELD) != 0;
    }

    /**
     * Cuts a history to at most {@code limit} bytes: first all child histories go, then the last events before the
     * SEND_RESPONSE. Null if not even its frame fits. Errors: those of a history that cannot be read.
     */
    public static byte[] truncate(byte[] history, int limit) throws WireError {
        if (history.length <= limit) {
            return history;
        }
        callOf(history, 0, history.length);
        Events events = new Events(history, HEAD_BYTES, history.length);
        Writer out = new Writer(Math.max(64, limit)).bytes(history, 0, events.first());
        out.array()[HEAD_BYTES] |= Segment.TRUNCATED;
        return events.shorten(out, 0, limit) ? out.toBytes() : null;
    }
}
