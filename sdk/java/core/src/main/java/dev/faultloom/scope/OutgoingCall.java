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

    /** {@link Bridge#inject} for this call. Only if {@link #isBridged}. Both are the request's own values, or null. */
    public Bridge injectBridge(String traceparent, String baggage) {
        return Bridge.inject(
                traceparent, baggage, envelope, received.signed.traceHigh, received.signed.traceLow, id);
    }
}
