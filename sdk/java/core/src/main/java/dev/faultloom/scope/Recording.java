package dev.faultloom.scope;

import dev.faultloom.wire.Event;
import dev.faultloom.wire.History;
import dev.faultloom.wire.Pool;
import dev.faultloom.wire.Segment;
import dev.faultloom.wire.Writer;
import java.util.Arrays;
import java.util.function.Supplier;

/**
 * What grows while a scope lives. A scope itself stays reachable for as long as the program likes; its recording goes back
 * to the pool with the answer.
 */
final class Recording {
    private static final Pool<Recording> POOL = new Pool<>(Recording::new);
    private static final int MAX_KEPT_BYTES = 64 << 10;
    private static final int MAX_KEPT_CALLS = 1024;

    /** Beyond so many, a text is merely repeated: the search stays short. */
    private static final int MAX_STRINGS = 64;

    /** Left for the end of a history that would become too large to be read. */
    private static final int ROOM = 1024;

    final Writer events = new Writer(512);
    int flags; // of the segment
    private long last; // time of the latest event
    private int count; // events
    private int recorded; // sends that are in events; fewer than sent once there was no room for one
    private final String[] strings = new String[MAX_STRINGS];
    private int stringCount;
    private Sent[] sent = new Sent[8];
    private int sentCount;

    /** One call that was sent. */
    static final class Sent {
        String peer;
        String name; // raw
        long status; // of a reply that has begun
        boolean begun;
        boolean ended;
        Supplier<byte[]> open; // of a stream: the history so far
    }

    static Recording take() {
        return POOL.take();
    }

    void release() {
        if (events.capacity() > MAX_KEPT_BYTES || sent.length > MAX_KEPT_CALLS) {
            return;
        }
        events.truncate(0);
        flags = 0;
        last = 0;
        count = 0;
        recorded = 0;
        Arrays.fill(strings, 0, stringCount, null);
        stringCount = 0;
        for (int i = 0; i < sentCount; i++) {
            sent[i].peer = null;
            sent[i].name = null;
            sent[i].open = null;
        }
        sentCount = 0;
        POOL.give(this);
    }

    int sentCount() {
        return sentCount;
    }

    private void addSent(String peer, String name) {
        if (sentCount == sent.length) {
            sent = Arrays.copyOf(sent, 2 * sentCount);
        }
        Sent s = sent[sentCount];
        if (s == null) {
            s = sent[sentCount] = new Sent();
        }
        sentCount++;
        s.peer = peer;
        s.name = name;
        s.begun = false;
        s.ended = false;
        s.open = null;
    }

    /** The call with that number, from 1. Null if there is none. */
    Sent sent(long number) {
        return number >= 1 && number <= sentCount ? sent[(int) number - 1] : null;
    }

    /** Notes a call, and records that its request is sent. {@code fault}: the index of the one that fires, or -1. */
    void send(int tag, long at, String peer, String name, String recordedName, String recordedPeer, int fault) {
        addSent(peer, name);
        // three bytes are the most that a char becomes
        if (recorded == sentCount - 1 && event(tag, at, 3 * (recordedName.length() + recordedPeer.length()) + 32)) {
            recorded++;
            reference(recordedName);
            reference(recordedPeer);
            if (fault >= 0) {
                events.varint(fault);
            }
        }
    }

    /** Records the end of a call, with the callee's segment (null: none) if there is room for it. */
    void end(int kind, long at, int number, long status, byte[] array, int from, int n, boolean gap) {
        if (number > recorded) {
            flags |= Segment.TRUNCATED;
            return;
        }
        boolean embed = array != null && events.length() + n <= History.MAX_BYTES - ROOM;
        if (array != null && !embed) {
            gap = true;
            flags |= Segment.TRUNCATED;
        }
        if (event(kind | (embed ? Event.CHILD : 0) | (gap ? Event.GAP : 0), at, (embed ? n : 0) + 32)) {
            events.varint(number).varint(status);
            if (embed) {
                events.varint(n).bytes(array, from, n);
            }
        }
    }

    /** Records the answer, for which there is always room. */
    void answer(long at, long status) {
        events.u8(Event.SEND_RESPONSE).varint(Math.max(0, at - last)).varint(status);
    }

    /** Starts an event, unless the history would become unreadable: then it is left out and the segment says so. */
    private boolean event(int tag, long at, int size) {
        if (events.length() + size > History.MAX_BYTES - ROOM || count >= History.MAX_EVENTS - 1) {
            flags |= Segment.TRUNCATED;
            return false;
        }
        count++;
        long dt = Math.max(0, at - last);
        last += dt;
        events.u8(tag).varint(dt);
        return true;
    }

    /** Writes a reference to a text of the segment's table, which it joins if it is new. */
    private void reference(String text) {
        for (int i = 0; i < stringCount; i++) {
            if (strings[i].equals(text)) {
                events.varint(i + 1);
                return;
            }
        }
        if (stringCount < MAX_STRINGS) {
            strings[stringCount++] = text;
        }
        events.u8(0).str(text);
    }
}
