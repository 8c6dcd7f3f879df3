package dev.faultloom.wire;

import java.util.List;

/** The part of an envelope that the origin of the request encodes and every service forwards unchanged. */
public final class SignedPart {
    /** Replies carry a history. */
    public final boolean history;
    /** Requests also carry the envelope in {@code traceparent} and {@code baggage}. */
    public final boolean bridge;
    /** The trace id's first and last eight bytes. */
    public final long traceHigh;
    public final long traceLow;
    /** The run id's 16 bytes, or null: no run. Read-only. */
    public final byte[] run;
    /** Unix seconds, 32 bits. */
    public final long expires;
    public final String keyId;
    public final String environment;
    /** The faults, unmodifiable, or null: none. */
    public final List<Fault> plan;

    public SignedPart(boolean history, boolean bridge, long traceHigh, long traceLow, byte[] run, long expires, String keyId,
            String environment, List<Fault> plan) {
        this.history = history;
        this.bridge = bridge;
        this.traceHigh = traceHigh;
        this.traceLow = traceLow;
        this.run = run;
        this.expires = expires;
        this.keyId = keyId;
        this.environment = environment;
        this.plan = plan;
    }

    /** The trace id as 32 hex digits. */
    public String trace() {
        return Text.hex(traceHigh, traceLow);
    }

    /** Encodes the part to sign. Errors: envelope_too_large, too_many_faults, malformed for a plan without faults. */
    public byte[] encode() throws WireError {
        Writer out = new Writer(128);
        out.u8((history ? Envelope.PERMIT_HISTORY : 0) | (plan != null ? Envelope.PERMIT_PLAN : 0)
                | (run != null ? Envelope.HAS_RUN : 0) | (bridge ? Envelope.PERMIT_BRIDGE : 0));
        out.u64(traceHigh).u64(traceLow);
        if (run != null) {
            out.bytes(run, 0, 16);
        }
        out.u32(expires).string(keyId).string(environment);
        if (plan != null) {
            Plan.write(out, plan);
        }
        if (out.length() > Envelope.MAX_BYTES) {
            throw WireError.ENVELOPE_TOO_LARGE;
        }
        return out.toBytes();
    }
}
