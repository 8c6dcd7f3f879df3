package dev.faultloom.hooks.grpc;

import io.grpc.Channel;
import java.lang.ref.WeakReference;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;

/**
 * Where the callees behind one channel take envelopes, by method:
 *
 * <pre>
 * METADATA ──history says so──▶ FIELD ──history does not, or no answer──▶ METADATA
 *                               FIELD ──answer to a field without history──▶ NEVER
 * </pre>
 */
final class Callees {
    private static final int MAX_METHODS = 1024;

    private enum State { METADATA, FIELD, NEVER }

    private final WeakReference<Channel> channel;
    private final Map<String, State> states = new ConcurrentHashMap<>(); // METADATA also without an entry

    Callees(Channel channel) {
        this.channel = new WeakReference<>(channel);
    }

    boolean areOf(Channel of) {
        return channel.get() == of;
    }

    /** Whether the envelope of a call may go into a field. */
    boolean takeField(String method) {
        return states.get(method) == State.FIELD;
    }

    /** A history came back; {@code takesField}: what it says. */
    void told(String method, boolean takesField) {
        become(method, takesField ? State.FIELD : State.METADATA);
    }

    /** A call with a field came back without a history: something in between does not let it through. */
    void silent(String method) {
        become(method, State.NEVER);
    }

    /** A call with a field has not come back. */
    void lost(String method) {
        become(method, State.METADATA);
    }

    private void become(String method, State next) {
        State now = states.getOrDefault(method, State.METADATA);
        if (now == next || now == State.NEVER) {
            return; // nearly always, without a lock
        }
        synchronized (states) {
            State last = states.get(method);
            if (last == null ? states.size() < MAX_METHODS : last != State.NEVER) {
                states.put(method, next);
            }
        }
    }
}
