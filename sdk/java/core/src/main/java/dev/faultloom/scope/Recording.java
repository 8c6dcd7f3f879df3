package dev.faultloom.scope;

import dev.faultloom.wire.Event;
import dev.faultloom.wire.History;
import dev.faultloom.wire.PieceJoiner;
import dev.faultloom.wire.Pool;
import dev.faultloom.wire.Segment;
import dev.faultloom.wire.Writer;
import java.util.Arrays;

/**
 * The buffers that grow while a scope is unfinished. The application may keep a scope alive indefinitely, so the scope
 * returns its recording to the pool when it finishes.
 */
final class Recording {
    private static final Pool<Recording> POOL = new Pool<>(Recording::new);
    private static final int MAX_POOLED_BYTES = 64 << 10;
    private static final int MAX_POOLED_CALLS = 1024;

    /** The string table stops growing here, to keep the linear search short; further strings are written in full. */
    private static final int MAX_STRINGS = 64;

    /** Reserved at the end of the largest readable history for the final events. */
    private static final int RESERVED_BYTES = 1024;

    final Writer events = new Writer(512);
    int flags; // of the segment
    int version = History.VERSION; // of the history
    private long lastUs; // time of the latest event
    private int eventCount;
    private int recordedSends; // smaller than callCount once a send did not fit
    private final String[] strings = new String[MAX_STRINGS];
    private int stringCount;
    private CallRecord[] calls = new CallRecord[8];
    private int callCount;

    /** The state of one outgoing call. */
    static final class CallRecord {
        String peer;
        String name; // not normalized
        long replyStatus; // if replyStarted
        long connectUs; // spent on a connection of its own
        boolean replyStarted;
        boolean ended;
        boolean isStream;
        PieceJoiner pieces; // of the callee's history, or null: none arrived
    }

    static Recording acquire() {
        return POOL.acquire();
    }

    void release() {
        if (events.capacity() > MAX_POOLED_BYTES || calls.length > MAX_POOLED_CALLS) {
            return;
        }
        events.truncate(0);
        flags = 0;
        version = History.VERSION;
        lastUs = 0;
        eventCount = 0;
        recordedSends = 0;
        Arrays.fill(strings, 0, stringCount, null);
        stringCount = 0;
        for (int i = 0; i < callCount; i++) {
            calls[i].peer = null;
            calls[i].name = null;
            calls[i].pieces = null;
        }
        callCount = 0;
        POOL.release(this);
    }

    int callCount() {
        return callCount;
    }

    private void addCall(String peer, String name) {
        if (callCount == calls.length) {
            calls = Arrays.copyOf(calls, 2 * callCount);
        }
        CallRecord call = calls[callCount];
        if (call == null) {
            call = calls[callCount] = new CallRecord();
        }
        callCount++;
        call.peer = peer;
        call.name = name;
        call.replyStarted = false;
        call.connectUs = 0;
        call.ended = false;
        call.isStream = false;
        call.pieces = null;
    }

    /** The call with that number, from 1, or null. */
    CallRecord call(long number) {
        return number >= 1 && number <= callCount ? calls[(int) number - 1] : null;
    }

    /** Adds a call and records SEND_REQUEST. {@code fault}: the index of the fault that fires, or -1. */
    void recordSend(int tag, long at, String peer, String name, String recordedName, String recordedPeer, int fault) {
        addCall(peer, name);
        // a char takes at most three bytes in UTF-8
        int maxBytes = 3 * (recordedName.length() + recordedPeer.length()) + 32;
        if (recordedSends == callCount - 1 && beginEvent(tag, at, maxBytes)) {
            recordedSends++;
            if ((tag & Event.TAG_INHERITED) != 0) {
                version = History.VERSION_2;
            }
            writeReference(recordedName);
            writeReference(recordedPeer);
            if (fault >= 0) {
                events.varint(fault);
            }
        }
    }

    /** Records the end of a call, with the callee's segment (null: none), of a history of that version, if it fits. */
    void recordEnd(int kind, long at, int number, long status, int childVersion, byte[] array, int from, int n, boolean gap) {
        if (number > recordedSends) {
            flags |= Segment.TRUNCATED;
            return;
        }
        boolean embed = array != null && events.length() + n <= History.MAX_BYTES - RESERVED_BYTES;
        if (array != null && !embed) {
            gap = true;
            flags |= Segment.TRUNCATED;
        }
        long connectUs = call(number).connectUs;
        int tag = kind | (embed ? Event.TAG_CHILD : 0) | (gap ? Event.TAG_GAP : 0) | (connectUs != 0 ? Event.TAG_CONNECTED : 0);
        if (beginEvent(tag, at, (embed ? n : 0) + 42)) {
            events.varint(number).varint(status);
            if (connectUs != 0) {
                version = History.VERSION_2;
                events.varint(connectUs);
            }
            if (embed) {
                events.varint(n).bytes(array, from, n);
                version = Math.max(version, childVersion);
            }
        }
    }

    /** Records UNSCOPED_CALLS: that many equal calls. */
    void recordUnscoped(long at, UnscopedCall call, long count) {
        int tag = Event.UNSCOPED_CALLS | (call.http ? Event.TAG_HTTP : 0);
        if (beginEvent(tag, at, 3 * (call.name.length() + call.peer.length() + call.site.length()) + 32)) {
            version = History.VERSION_2;
            writeReference(call.name);
            writeReference(call.peer);
            events.varint(count).string(call.site);
        }
    }

    /** Records SEND_RESPONSE, which always fits. */
    void recordResponse(long at, long status) {
        events.u8(Event.SEND_RESPONSE).varint(Math.max(0, at - lastUs)).varint(status);
    }

    /**
     * Starts an event. False if the history would become too large to read: the event is left out and the segment is
     * marked.
     */
    private boolean beginEvent(int tag, long at, int maxBytes) {
        if (events.length() + maxBytes > History.MAX_BYTES - RESERVED_BYTES || eventCount >= History.MAX_EVENTS - 1) {
            flags |= Segment.TRUNCATED;
            return false;
        }
        eventCount++;
        long dt = Math.max(0, at - lastUs);
        lastUs += dt;
        events.u8(tag).varint(dt);
        return true;
    }

    /** Writes a reference to a string of the segment's table; a new string is added to the table. */
    private void writeReference(String text) {
        for (int i = 0; i < stringCount; i++) {
            if (strings[i].equals(text)) {
                events.varint(i + 1);
                return;
            }
        }
        if (stringCount < MAX_STRINGS) {
            strings[stringCount++] = text;
        }
        events.u8(0).string(text);
    }
}
