package dev.faultloom.scope;

import dev.faultloom.wire.Bridge;
import dev.faultloom.wire.Envelope;
import dev.faultloom.wire.Fault;
import dev.faultloom.wire.Text;

/** What to do about one send. */
public final class Call {
    /** From 1, in the order in which the scope sends. */
    public final int number;
    public final long id;
    /** Index of the fault that fires, or -1. */
    public final int faultIndex;
    /** The fault that fires, or null. */
    public final Fault fault;
    /** What the request must carry, or null: it would be too large, send nothing. */
    public final byte[] envelope;
    private final Envelope of;

    Call(int number, long id, int faultIndex, Fault fault, byte[] envelope, Envelope of) {
        this.number = number;
        this.id = id;
        this.faultIndex = faultIndex;
        this.fault = fault;
        this.envelope = envelope;
        this.of = of;
    }

    /** The envelope as an HTTP header has it, or null. */
    public String header() {
        return envelope == null ? null : Text.base64(envelope);
    }

    /** Whether the request also carries {@code traceparent} and {@code baggage}. */
    public boolean bridged() {
        return envelope != null && of.signed.bridge;
    }

    /** What {@code traceparent} becomes; {@code present}: the request's own, or null. Call it only if {@link #bridged}. */
    public String traceparent(String present) {
        return Bridge.traceparent(present, of, id);
    }

    /** What {@code baggage} becomes, null: none; {@code present}: the request's own, or null. Call it only if {@link #bridged}. */
    public String baggage(String present) {
        return Bridge.baggage(present, envelope);
    }
}
