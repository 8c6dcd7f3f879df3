package dev.faultloom.hooks.grpc;

import io.grpc.Channel;
import java.lang.ref.WeakReference;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;

/**
 * Where the callees of one channel accept envelopes, by method:
 *
 * <pre>
 * METADATA ──history announces it──▶ FIELD ──history does not, or call failed──▶ METADATA
 *                                    FIELD ──reply without history──▶ NEVER
 * </pre>
 */
final class FieldSupport {
    private static final int MAX_METHODS = 1024;

    private enum State { METADATA, FIELD, NEVER }

    private final WeakReference<Channel> channel;
    private final Map<String, State> states = new ConcurrentHashMap<>(); // without an entry: METADATA

    FieldSupport(Channel channel) {
        this.channel = new WeakReference<>(channel);
    }

    boolean belongsTo(Channel other) {
        return channel.get() == other;
    }

    /** Whether the envelope of a call may go into a field. */
    boolean acceptsField(String method) {
        return states.get(method) == State.FIELD;
    }

    /** A history arrived. {@code takesField}: it announces that the callee accepts fields. */
    void historyReceived(String method, boolean takesField) {
        setState(method, takesField ? State.FIELD : State.METADATA);
    }

    /** The reply to a field carried no history: an intermediary drops fields. */
    void fieldCallWithoutHistory(String method) {
        setState(method, State.NEVER);
    }

    /** A call with a field ended without a reply. */
    void fieldCallFailed(String method) {
        setState(method, State.METADATA);
    }

    private void setState(String method, State next) {
        State now = states.getOrDefault(method, State.METADATA);
        if (now == next || now == State.NEVER) {
            return; // the common case, without a lock
        }
        synchronized (states) {
            State current = states.get(method);
            if (current == null ? states.size() < MAX_METHODS : current != State.NEVER) {
                states.put(method, next);
            }
        }
    }
}
