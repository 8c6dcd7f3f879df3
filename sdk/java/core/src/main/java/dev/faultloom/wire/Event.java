package dev.faultloom.wire;

/**
 * A message that a service sent or received, or calls that belonged to no request. Events are in the order in which
 * they happened at their service.
 */
public final class Event {
    public static final int SEND_REQUEST = 1;
    public static final int RECV_RESPONSE = 2;
    public static final int CALL_FAILED = 3;
    public static final int SEND_RESPONSE = 4;
    /** Calls that the service made while the scope was open, and that belonged to no request. Only in version 2. */
    public static final int UNSCOPED_CALLS = 5;
    static final int KIND_MASK = 7;

    /** Tag of SEND_REQUEST: a fault fired. */
    public static final int TAG_FAULT = 8;
    /** Tag of SEND_REQUEST and UNSCOPED_CALLS: HTTP; otherwise gRPC. */
    public static final int TAG_HTTP = 16;
    /** Tag of SEND_REQUEST: the call has the scope of its thread, because its context had none. Only in version 2. */
    public static final int TAG_INHERITED = 32;
    /** Tag of RECV_RESPONSE and CALL_FAILED: a child segment follows. */
    public static final int TAG_CHILD = 8;
    /** Tag of RECV_RESPONSE and CALL_FAILED: no history arrived although the callee may have run. */
    public static final int TAG_GAP = 16;
    /** Tag of RECV_RESPONSE and CALL_FAILED: the call has set up a connection. Only in version 2. */
    public static final int TAG_CONNECTED = 32;

    /** SEND_REQUEST, RECV_RESPONSE, CALL_FAILED, SEND_RESPONSE or UNSCOPED_CALLS. */
    public final int kind;
    /** µs since the segment's start, monotonic, unsigned. */
    public final long atUs;
    /** Number of the call within the segment, from 1; 0 for SEND_RESPONSE and UNSCOPED_CALLS. */
    public final int call;
    /** SEND_REQUEST, UNSCOPED_CALLS: the call's name, else null. */
    public final String name;
    /** SEND_REQUEST, UNSCOPED_CALLS: the callee's name at the caller, else null. */
    public final String peer;
    /** SEND_REQUEST, UNSCOPED_CALLS: HTTP, else gRPC. */
    public final boolean http;
    /** SEND_REQUEST: the call has the scope of its thread, because its context had none. */
    public final boolean inherited;
    /** SEND_REQUEST: index of the fault that fired, -1 for none. */
    public final long fault;
    /** gRPC code or HTTP status, unsigned; CALL_FAILED: always a gRPC code. */
    public final long status;
    /** RECV_RESPONSE, CALL_FAILED: µs spent on a connection of its own, unsigned; 0: none, or unknown. */
    public final long connectUs;
    /** RECV_RESPONSE, CALL_FAILED: no history arrived although the callee may have run. */
    public final boolean gap;
    /** RECV_RESPONSE, CALL_FAILED: the segment of the callee, or null. */
    public final Segment child;
    /** UNSCOPED_CALLS: the number of calls, unsigned. */
    public final long count;
    /** UNSCOPED_CALLS: where the program made them, or empty; else null. */
    public final String site;

    private Event(int kind, long atUs, int call, String name, String peer, boolean http, boolean inherited, long fault,
            long status, long connectUs, boolean gap, Segment child, long count, String site) {
        this.kind = kind;
        this.atUs = atUs;
        this.call = call;
        this.name = name;
        this.peer = peer;
        this.http = http;
        this.inherited = inherited;
        this.fault = fault;
        this.status = status;
        this.connectUs = connectUs;
        this.gap = gap;
        this.child = child;
        this.count = count;
        this.site = site;
    }

    static Event sendRequest(long atUs, int call, String name, String peer, boolean http, boolean inherited, long fault) {
        return new Event(SEND_REQUEST, atUs, call, name, peer, http, inherited, fault, 0, 0, false, null, 0, null);
    }

    static Event callEnd(int kind, long atUs, int call, long status, long connectUs, boolean gap, Segment child) {
        return new Event(kind, atUs, call, null, null, false, false, -1, status, connectUs, gap, child, 0, null);
    }

    static Event sendResponse(long atUs, long status) {
        return new Event(SEND_RESPONSE, atUs, 0, null, null, false, false, -1, status, 0, false, null, 0, null);
    }

    static Event unscopedCalls(long atUs, String name, String peer, boolean http, long count, String site) {
        return new Event(UNSCOPED_CALLS, atUs, 0, name, peer, http, false, -1, 0, 0, false, null, count, site);
    }
}
