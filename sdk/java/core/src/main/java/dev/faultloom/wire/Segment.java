package dev.faultloom.wire;

import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collections;
import java.util.List;

/**
 * The record of one scope: what a service did to answer a call.
 *
 * <pre>
 * u8 flags   str service (1..64)   str name (0..200)   varint start µs   events, up to the end
 * </pre>
 */
public final class Segment {
    /** Flag: events or child histories were left out. */
    public static final int TRUNCATED = 1;
    /** Flag: faults are switched off at this service. */
    public static final int FAULTS_OFF = 2;
    /** Flag: further requests of the method may carry their envelope in a field. */
    public static final int TAKES_FIELD = 4;

    public final boolean truncated;
    public final boolean faultsOff;
    /** The service that recorded it. */
    public final String service;
    /** The call's name at the callee; empty: the same as the caller's. */
    public final String name;
    /** µs since the Unix epoch by this service's clock, unsigned. */
    public final long startUs;
    /** In the order in which they happened; unmodifiable. */
    public final List<Event> events;

    private Segment(int flags, String service, String name, long startUs, List<Event> events) {
        this.truncated = (flags & TRUNCATED) != 0;
        this.faultsOff = (flags & FAULTS_OFF) != 0;
        this.service = service;
        this.name = name;
        this.startUs = startUs;
        this.events = Collections.unmodifiableList(events);
    }

    /** The events that may still be read, of all nested segments together. */
    private static final class Budget {
        /** Of the history. */
        final int version;
        int left;
        /** Reading ends where the budget ends. Otherwise only the segment that exceeds it is left out. */
        final boolean endsReading;
        boolean exceeded;

        Budget(int version, int left, boolean endsReading) {
            this.version = version;
            this.left = left;
            this.endsReading = endsReading;
        }
    }

    /** What a scope reads of the segment that a reply brought. */
    public static final class Counted {
        /** Null: it cannot be read. */
        public final Segment segment;
        /** It has more than {@link History#MAX_COUNTED_EVENTS} events. */
        public final boolean tooLarge;

        private Counted(Segment segment, boolean tooLarge) {
            this.segment = segment;
            this.tooLarge = tooLarge;
        }
    }

    /**
     * Decodes a segment of a history of that version, without its head. Error: malformed. A nested segment that cannot
     * be read, or with which there would be more than {@link History#MAX_EVENTS} events, is left out, and its call has
     * a gap.
     */
    public static Segment decode(int version, byte[] b, int from, int to) throws WireError {
        return decode(b, from, to, 0, new Budget(version, History.MAX_EVENTS, false));
    }

    /** {@link #decode} for a scope that counts the events. */
    public static Counted decodeCounted(int version, byte[] b, int from, int to) {
        Budget budget = new Budget(version, History.MAX_COUNTED_EVENTS, true);
        try {
            return new Counted(decode(b, from, to, 0, budget), false);
        } catch (WireError e) {
            return new Counted(null, budget.exceeded);
        }
    }

    /** A nested segment; null: it is left out. */
    private static Segment decodeChild(byte[] b, int from, int to, int depth, Budget budget) throws WireError {
        int before = budget.left;
        try {
            return decode(b, from, to, depth, budget);
        } catch (WireError e) {
            if (budget.endsReading && budget.exceeded) {
                throw e;
            }
            if (!budget.endsReading) {
                budget.left = before; // events that are left out do not count
            }
            return null;
        }
    }

    /** Encodes the start of a segment, up to its events. */
    public static void writePrefix(Writer out, int flags, String service, String name, long startUs) {
        out.u8(flags).string(service).string(name).varint(startUs);
    }

    /** Reads the start of a segment, up to its events. */
    static Segment readPrefix(Reader r) {
        return readPrefix(r, Collections.emptyList());
    }

    /** The segment gets these events. */
    private static Segment readPrefix(Reader r, List<Event> events) {
        int flags = r.u8();
        if (flags > (TRUNCATED | FAULTS_OFF | TAKES_FIELD)) {
            r.fail();
        }
        String service = r.string(1, Names.MAX_SERVICE_BYTES);
        String name = r.string(0, Names.MAX_NAME_BYTES);
        return new Segment(flags, service, name, r.varint(), events);
    }

    private static Segment decode(byte[] b, int from, int to, int depth, Budget budget) throws WireError {
        if (depth >= History.MAX_DEPTH) {
            throw WireError.MALFORMED;
        }
        Reader r = new Reader(b, from, to);
        List<Event> events = new ArrayList<>();
        Segment segment = readPrefix(r, events);
        List<String> table = new ArrayList<>();
        boolean[] ended = new boolean[8]; // by call number
        List<int[]> nested = new ArrayList<>(); // index of an event, start and end of its segment
        int calls = 0;
        long at = 0;
        boolean hasResponse = false;
        while (!r.hasFailed() && r.remaining() > 0) {
            if (budget.left == 0) {
                budget.exceeded = true;
                throw WireError.MALFORMED;
            }
            budget.left--;
            if (hasResponse) {
                throw WireError.MALFORMED;
            }
            int tag = r.u8();
            long dt = r.varint();
            boolean hasBit5 = (tag & Event.TAG_INHERITED) != 0; // also TAG_CONNECTED
            boolean isVersion2 = budget.version == History.VERSION_2;
            boolean mayHaveBit5 = isVersion2 && (tag & Event.KIND_MASK) <= Event.CALL_FAILED;
            if (tag > 63 || (hasBit5 && !mayHaveBit5) || Long.compareUnsigned(at + dt, at) < 0) {
                throw WireError.MALFORMED;
            }
            at += dt;
            switch (tag & Event.KIND_MASK) {
                case Event.SEND_REQUEST: {
                    if (++calls == ended.length) {
                        ended = Arrays.copyOf(ended, 2 * calls);
                    }
                    String called = reference(r, table);
                    String peer = reference(r, table);
                    long fault = (tag & Event.TAG_FAULT) != 0 ? r.count(Plan.MAX_FAULTS - 1) : -1;
                    events.add(Event.sendRequest(at, calls, called, peer, (tag & Event.TAG_HTTP) != 0, hasBit5, fault));
                    break;
                }
                case Event.RECV_RESPONSE:
                case Event.CALL_FAILED: {
                    int call = r.count(calls);
                    long status = r.varint();
                    long connectUs = hasBit5 ? r.varint() : 0;
                    if (call == 0 || ended[call]) {
                        throw WireError.MALFORMED;
                    }
                    ended[call] = true;
                    if ((tag & Event.TAG_CHILD) != 0) {
                        int start = r.skip(r.count(History.MAX_BYTES));
                        nested.add(new int[] {events.size(), start, r.position()});
                    }
                    boolean gap = (tag & Event.TAG_GAP) != 0;
                    events.add(Event.callEnd(tag & Event.KIND_MASK, at, call, status, connectUs, gap, null));
                    break;
                }
                case Event.SEND_RESPONSE:
                    if (tag != Event.SEND_RESPONSE) {
                        throw WireError.MALFORMED;
                    }
                    events.add(Event.sendResponse(at, r.varint()));
                    hasResponse = true;
                    break;
                case Event.UNSCOPED_CALLS: {
                    if (!isVersion2 || (tag & ~Event.TAG_HTTP) != Event.UNSCOPED_CALLS) {
                        throw WireError.MALFORMED;
                    }
                    String called = reference(r, table);
                    String peer = reference(r, table);
                    long count = r.varint();
                    String site = r.string(0, Names.MAX_NAME_BYTES);
                    events.add(Event.unscopedCalls(at, called, peer, (tag & Event.TAG_HTTP) != 0, count, site));
                    break;
                }
                default:
                    throw WireError.MALFORMED;
            }
        }
        if (r.hasFailed()) {
            throw WireError.MALFORMED;
        }
        // after the segment's own events: however large a nested segment is, they are not left out
        for (int[] n : nested) {
            Segment child = decodeChild(b, n[1], n[2], depth + 1, budget);
            Event e = events.get(n[0]);
            events.set(n[0], Event.callEnd(e.kind, e.atUs, e.call, e.status, e.connectUs, e.gap || child == null, child));
        }
        return segment;
    }

    private static String reference(Reader r, List<String> table) {
        int k = r.count(table.size());
        if (k > 0) {
            return table.get(k - 1);
        }
        String s = r.string(1, Names.MAX_NAME_BYTES);
        table.add(s);
        return s;
    }
}
