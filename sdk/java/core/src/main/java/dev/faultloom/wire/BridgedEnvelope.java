package dev.faultloom.wire;

/** An envelope that came in {@code baggage}. */
public final class BridgedEnvelope {
    /** The text, which is not verified yet. */
    public final String envelope;
    /** The id of the call that it belongs to: the parent id in {@code traceparent}. */
    public final long call;

    BridgedEnvelope(String envelope, long call) {
        this.envelope = envelope;
        this.call = call;
    }
}
