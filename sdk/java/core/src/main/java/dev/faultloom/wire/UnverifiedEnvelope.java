package dev.faultloom.wire;

import static java.nio.charset.StandardCharsets.UTF_8;

import java.util.Arrays;
import java.util.List;

/** The decoded outer layers of an envelope whose signature is not verified yet. */
public final class UnverifiedEnvelope {
    /** The envelope's bytes. */
    public final byte[] raw;
    /** Position of the signed part in {@link #raw}, and its length. */
    public final int signedPart;
    public final int signedPartLength;
    /** Position of the 16 signature bytes in {@link #raw}. */
    public final int signature;
    /** Unix seconds. */
    public final long expires;
    public final boolean hasPlan;

    private final int permissions;
    private final long traceHigh;
    private final long traceLow;
    private final int run;
    private final int key;
    private final int keyEnd;
    private final int environment;
    private final int environmentEnd;
    private final int plan;

    UnverifiedEnvelope(byte[] raw) throws WireError {
        this.raw = raw;
        if (raw.length > Envelope.MAX_BYTES) {
            throw WireError.OVERSIZED;
        }
        if (raw.length == 0) {
            throw WireError.MALFORMED;
        }
        if (raw[0] != Envelope.VERSION) {
            throw WireError.UNSUPPORTED_VERSION;
        }
        Reader r = new Reader(raw, 1, raw.length);
        signedPartLength = r.count(Envelope.MAX_BYTES);
        signedPart = r.skip(signedPartLength);
        signature = r.skip(Envelope.SIGNATURE_BYTES);
        if (r.hasFailed()) {
            throw WireError.MALFORMED;
        }
        Reader s = new Reader(raw, signedPart, signedPart + signedPartLength);
        permissions = s.u8();
        hasPlan = (permissions & Envelope.PERMIT_PLAN) != 0;
        traceHigh = s.u64();
        traceLow = s.u64();
        run = (permissions & Envelope.HAS_RUN) != 0 ? s.skip(16) : -1;
        expires = s.u32();
        key = s.skipString(1, Envelope.MAX_KEY_ID_BYTES);
        keyEnd = s.position();
        environment = s.skipString(1, Envelope.MAX_ENVIRONMENT_BYTES);
        environmentEnd = s.position();
        plan = s.position();
        if (s.hasFailed() || permissions > 15 || (!hasPlan && s.remaining() > 0)) {
            throw WireError.MALFORMED;
        }
    }

    /** Whether all signature bytes are zero. */
    public boolean isUnsigned() {
        return (Bytes.u64(raw, signature) | Bytes.u64(raw, signature + 8)) == 0;
    }

    /** Whether the key id equals {@code id}, in UTF-8. */
    public boolean hasKeyId(byte[] id) {
        return equal(id, key, keyEnd);
    }

    /** Whether the environment equals {@code name}, in UTF-8. */
    public boolean hasEnvironment(byte[] name) {
        return equal(name, environment, environmentEnd);
    }

    private boolean equal(byte[] text, int from, int to) {
        return Arrays.equals(text, 0, text.length, raw, from, to);
    }

    /** The first and last eight bytes of the trace id. */
    public long traceHigh() {
        return traceHigh;
    }

    public long traceLow() {
        return traceLow;
    }

    /** {@link #decodeVerified(String, String)} with new strings for key id and environment. */
    public Envelope decodeVerified() throws WireError {
        return decodeVerified(new String(raw, key, keyEnd - key, UTF_8), new String(raw, environment, environmentEnd - environment, UTF_8));
    }

    /**
     * Decodes plan and hop part: checks 12 and 13. Verify the signature first. The arguments are key id and
     * environment, so that the caller's strings are reused. Errors: too_many_faults, unknown_fault, malformed.
     */
    public Envelope decodeVerified(String keyId, String environmentName) throws WireError {
        List<Fault> faults = hasPlan ? Plan.decode(raw, plan, signedPart + signedPartLength) : null;
        int prefixLength = signature + Envelope.SIGNATURE_BYTES;
        Reader r = new Reader(raw, prefixLength, raw.length);
        long call = r.u64();
        int accept = r.u8();
        long limit = r.varint();
        int counters = r.hasFailed() ? 0 : Plan.counterCount(faults);
        long[] evidence = counters == 0 ? NO_EVIDENCE : new long[counters];
        for (int i = 0; i < counters; i++) {
            evidence[i] = r.varint();
        }
        if (r.hasFailed() || r.remaining() > 0 || accept > 3) {
            throw WireError.MALFORMED;
        }
        SignedPart signed = new SignedPart((permissions & Envelope.PERMIT_HISTORY) != 0, (permissions & Envelope.PERMIT_BRIDGE) != 0,
                traceHigh, traceLow, run < 0 ? null : Arrays.copyOfRange(raw, run, run + 16), expires, keyId,
                environmentName, faults);
        return new Envelope(signed, new HopPart(call, accept, limit, evidence), raw, prefixLength);
    }

    private static final long[] NO_EVIDENCE = {};
}
