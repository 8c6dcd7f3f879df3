package dev.faultloom.wire;

import java.util.Arrays;

/** Where the events of a segment lie, and how to leave some of them out. */
final class Events {
    private static final int PARTS = 4;

    private final byte[] b;
    private final int first;
    private int count;
    /** By event: where it begins, where what follows tag and time begins, where that ends without a child history, where it ends. */
    private int[] parts = new int[16 * PARTS];
    private long[] times = new long[16];

    /** Reads a segment that fills these bytes; children are not looked into. Error: malformed. */
    Events(byte[] b, int from, int to) throws WireError {
        this.b = b;
        Reader r = new Reader(b, from, to);
        Segment.skipPrefix(r);
        first = r.at();
        int strings = 0;
        while (!r.bad() && r.left() > 0) {
            if (count == times.length) {
                times = Arrays.copyOf(times, 2 * count);
                parts = Arrays.copyOf(parts, 2 * count * PARTS);
            }
            int at = count * PARTS;
            parts[at] = r.at();
            int tag = r.u8();
            times[count++] = r.varint();
            parts[at + 1] = r.at();
            parts[at + 2] = -1;
            switch (tag & Event.KIND) {
                case Event.SEND_REQUEST:
                    strings = skipReference(r, skipReference(r, strings));
                    if ((tag & Event.FAULT) != 0) {
                        r.varint();
                    }
                    break;
                case Event.RECV_RESPONSE:
                case Event.CALL_FAILED:
                    r.varint();
                    r.varint();
                    parts[at + 2] = r.at();
                    if ((tag & Event.CHILD) != 0) {
                        r.take(r.count(History.MAX_BYTES));
                    }
                    break;
                case Event.SEND_RESPONSE:
                    r.varint();
                    break;
                default:
                    throw WireError.MALFORMED;
            }
            parts[at + 3] = r.at();
            if (parts[at + 2] < 0) {
                parts[at + 2] = r.at();
            }
        }
        if (r.bad()) {
            throw WireError.MALFORMED;
        }
    }

    private static int skipReference(Reader r, int strings) {
        if (r.count(strings) > 0) {
            return strings;
        }
        r.skipStr(1, Names.MAX_NAME_BYTES);
        return strings + 1;
    }

    /** Where the first event begins. */
    int first() {
        return first;
    }

    /**
     * Appends the events that begin at {@code from} or behind it without their child histories; if that makes {@code out}
     * longer than {@code limit}, the longest prefix of them with which the SEND_RESPONSE still fits. False if not even that
     * does.
     */
    boolean shorten(Writer out, int from, int limit) {
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
                out.u8(tag & ~Event.CHILD | Event.GAP).varint(times[i]).bytes(b, parts[at + 1], parts[at + 2] - parts[at + 1]);
            } else {
                out.bytes(b, parts[at], parts[at + 3] - parts[at]);
            }
            ends[i] = out.length();
        }
        if (out.length() <= limit) {
            return true;
        }
        int last = count - 1;
        if (last < skip || (b[parts[last * PARTS]] & Event.KIND) != Event.SEND_RESPONSE) {
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
