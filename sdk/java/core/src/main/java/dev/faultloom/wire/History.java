package dev.faultloom.wire;

/**
 * The history that a reply carries: {@code u8 version}, 8 B call id, segment up to the end. It has version 2 if a
 * segment in it has an event or a flag that version 1 does not have.
 */
public final class History {
    public static final int VERSION = 1;
    /** With inherited calls, calls that belonged to no request, or times for connections. */
    public static final int VERSION_2 = 2;
    public static final int MAX_BYTES = 4 << 20;
    public static final int MAX_DEPTH = 64;
    public static final int MAX_EVENTS = 100_000;
    /** How many events a scope reads of the history of one reply, to count them for its plan. */
    public static final int MAX_COUNTED_EVENTS = 10_000;
    /** Length of version and call id. */
    public static final int HEAD_BYTES = 9;

    /** Id of the call that was answered. */
    public final long call;
    public final Segment segment;

    private History(long call, Segment segment) {
        this.call = call;
        this.segment = segment;
    }

    /** Decodes a history. Errors: malformed, unsupported_version. */
    public static History decode(byte[] b) throws WireError {
        return decode(b, 0, b.length);
    }

    /** Decodes a history in part of an array. Errors: malformed, unsupported_version. */
    public static History decode(byte[] b, int from, int to) throws WireError {
        long call = readCallId(b, from, to);
        return new History(call, Segment.decode(b[from], b, from + HEAD_BYTES, to));
    }

    /**
     * Checks size and version and returns the call id. The segment, which follows after {@link #HEAD_BYTES}, is not
     * decoded. Errors: malformed, unsupported_version.
     */
    public static long readCallId(byte[] b, int from, int to) throws WireError {
        if (to <= from || to - from > MAX_BYTES) {
            throw WireError.MALFORMED;
        }
        if (!isVersion(b[from])) {
            throw WireError.UNSUPPORTED_VERSION;
        }
        if (to - from < HEAD_BYTES) {
            throw WireError.MALFORMED;
        }
        return Bytes.u64(b, from + 1);
    }

    /** Whether this is a version that can be read. */
    public static boolean isVersion(byte version) {
        return version == VERSION || version == VERSION_2;
    }

    /**
     * Whether these bytes can be the history in a tail: small enough, version 1 or 2, a call id, and a segment that can
     * be read up to its events. Readers search for the start of a tail by its first bytes, so flags that HTTP does not
     * use and control characters in the service are excluded.
     */
    static boolean canBeginTail(byte[] b, int from, int to) {
        if (to - from <= HEAD_BYTES || to - from > MAX_BYTES || !isVersion(b[from])
                || (b[from + HEAD_BYTES] & Segment.TAKES_FIELD) != 0) {
            return false;
        }
        Reader r = new Reader(b, from + HEAD_BYTES, to);
        String service = Segment.readPrefix(r).service;
        return !r.hasFailed() && service.chars().noneMatch(c -> c < 0x20 || c == 0x7F);
    }

    /** Whether the service of this history accepts envelopes in a field of further requests of the same method. */
    public static boolean takesField(byte[] b, int from, int to) {
        return to - from > HEAD_BYTES && isVersion(b[from]) && (b[from + HEAD_BYTES] & Segment.TAKES_FIELD) != 0;
    }

    /**
     * Truncates a history to at most {@code limit} bytes: removes all child histories first, then the last events
     * before SEND_RESPONSE. Null if not even the head and SEND_RESPONSE fit. Errors: malformed, unsupported_version.
     */
    public static byte[] truncate(byte[] history, int limit) throws WireError {
        if (history.length <= limit) {
            return history;
        }
        readCallId(history, 0, history.length);
        EventIndex events = new EventIndex(history, HEAD_BYTES, history.length);
        Writer out = new Writer(Math.max(64, limit)).bytes(history, 0, events.firstEvent());
        out.array()[HEAD_BYTES] |= Segment.TRUNCATED;
        return events.writeTruncated(out, 0, limit) ? out.toBytes() : null;
    }
}
