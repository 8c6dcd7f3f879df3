package dev.faultloom.wire;

import java.util.Arrays;

/** The positions of the events of an encoded segment, for truncating it. */
final class EventIndex {
    private static final int PARTS = 4;

    private final byte[] b;
    private final int firstEvent;
    private int count;
    /** Four positions per event: start, start after tag and time, end without the child history, end. */
    private int[] parts = new int[16 * PARTS];
    private long[] times = new long[16];

    /** Indexes the segment in these bytes, without its children. Error: malformed. */
    EventIndex(byte[] b, int from, int to) throws WireError {
        this.b = b;
        Reader r = new Reader(b, from, to);
        Segment.readPrefix(r);
        firstEvent = r.position();
        int strings = 0;
        while (!r.hasFailed() && r.remaining() > 0) {
            if (count == times.length) {
                times = Arrays.copyOf(times, 2 * count);
                parts = Arrays.copyOf(parts, 2 * count * PARTS);
            }
            int at = count * PARTS;
            parts[at] = r.position();
            int tag = r.u8();
            times[count++] = r.varint();
            parts[at + 1] = r.position();
            parts[at + 2] = -1;
            switch (tag & Event.KIND_MASK) {
                case Event.SEND_REQUEST:
                    strings = skipReference(r, skipReference(r, strings));
                    if ((tag & Event.TAG_FAULT) != 0) {
                        r.varint();
                    }
                    break;
                case Event.RECV_RESPONSE:
                case Event.CALL_FAILED:
                    r.varint();
                    r.varint();
                    if ((tag & Event.TAG_CONNECTED) != 0) {
                        r.varint();
                    }
                    parts[at + 2] = r.position();
                    if ((tag & Event.TAG_CHILD) != 0) {
                        r.skip(r.count(History.MAX_BYTES));
                    }
                    break;
                case Event.SEND_RESPONSE:
                    r.varint();
                    break;
                case Event.UNSCOPED_CALLS:
                    strings = skipReference(r, skipReference(r, strings));
                    r.varint();
                    r.skipString(0, Names.MAX_NAME_BYTES);
                    break;
                default:
                    throw WireError.MALFORMED;
            }
            parts[at + 3] = r.position();
            if (parts[at + 2] < 0) {
                parts[at + 2] = r.position();
            }
        }
        if (r.hasFailed()) {
            throw WireError.MALFORMED;
        }
    }

    private static int skipReference(Reader r, int strings) {
        if (r.count(strings) > 0) {
            return strings;
        }
        r.skipString(1, Names.MAX_NAME_BYTES);
        return strings + 1;
    }

    /** The position of the first event. */
    int firstEvent() {
        return firstEvent;
    }

    /**
     * Appends the events from position {@code from} on, without their child histories. If {@code out} would exceed
     * {@code limit}, appends as many events as leave room for SEND_RESPONSE. False if not even SEND_RESPONSE fits.
     */
    boolean writeTruncated(Writer out, int from, int limit) {
        int skip = 0;
        while (skip < count && parts[skip * PARTS] < from) {
            skip++;
        }
        int head = out.length();
        int[] ends = new int[count];
        for (int i = skip; i < count; i++) {
            int at = i * PARTS;
            int tag = b[parts[at]];
            if (parts[at + 2] < parts[at + 3]) {
                out.u8(tag & ~Event.TAG_CHILD | Event.TAG_GAP).varint(times[i]).bytes(b, parts[at + 1], parts[at + 2] - parts[at + 1]);
            } else {
                out.bytes(b, parts[at], parts[at + 3] - parts[at]);
            }
            ends[i] = out.length();
        }
        if (out.length() <= limit) {
            return true;
        }
        int last = count - 1;
        if (last < skip || (b[parts[last * PARTS]] & Event.KIND_MASK) != Event.SEND_RESPONSE) {
            return false;
        }
        int status = parts[last * PARTS + 1];
        int statusLength = parts[last * PARTS + 3] - status;
        long skipped = times[last];
        for (int kept = last; kept >= skip; kept--) {
            if (kept < last) {
                skipped += times[kept];
            }
            int end = kept > skip ? ends[kept - 1] : head;
            if (end + 1 + Bytes.varintLength(skipped) + statusLength <= limit) {
                out.truncate(end);
                out.u8(Event.SEND_RESPONSE).varint(skipped).bytes(b, status, statusLength);
                return true;
            }
        }
        return false;
    }
}
