package dev.faultloom.scope;

import dev.faultloom.wire.Bridge;
import dev.faultloom.wire.Envelope;
import dev.faultloom.wire.Fault;
import dev.faultloom.wire.Text;

/**
 * A call that a scope is about to send: its number, the fault that fires, and the envelope that the request carries.
 */
public final class OutgoingCall {
    /** From 1, in the order in which the scope sends. */
    public final int number;
    public final long id;
    /** Index of the fault that fires, or -1. */
    public final int faultIndex;
    /** The fault that fires, or null. */
    public final Fault fault;
    /** The envelope that the request must carry, or null: it would be too large, so the request carries none. */
    public final byte[] envelope;
    private final Envelope received;

    OutgoingCall(int number, long id, int faultIndex, Fault fault, byte[] envelope, Envelope received) {
        this.number = number;
        this.id = id;
        this.faultIndex = faultIndex;
        this.fault = fault;
        this.envelope = envelope;
        this.received = received;
    }

    /** The value of the HTTP request header, or null: no envelope. */
    public String header() {
        return envelope == null ? null : Text.encodeBase64(envelope);
    }

    /** Whether the request also carries {@code traceparent} and {@code baggage}. */
    public boolean isBridged() {
        return envelope != null && received.signed.bridge;
    }

    /**
     * The new value of {@code traceparent}. Only if {@link #isBridged}. {@code present}: the request's own value, or
     * null.
     */
    public String traceparent(String present) {
        return Bridge.traceparent(present, received, id);
    }

    /**
     * The new value of {@code baggage}, or null: remove the header. Only if {@link #isBridged}.
     *
     * @param present the request's own value, or null
     */
    public String baggage(String present) {
        return Bridge.baggage(present, envelope);
    }
}
