package dev.faultloom.scope;

import dev.faultloom.wire.Pool;
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

    final Writer events = new Writer(512);
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

    void addSent(String peer, String name) {
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

    /** Writes a reference to a text of the segment's table, which it joins if it is new. */
    void reference(String text) {
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
