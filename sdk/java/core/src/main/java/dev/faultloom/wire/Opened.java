package dev.faultloom.wire;

import static java.nio.charset.StandardCharsets.UTF_8;

import java.util.Arrays;
import java.util.List;

/** The outer layers of an envelope that nobody has believed yet. */
public final class Opened {
    /** The envelope's bytes. */
    public final byte[] raw;
    /** Where what the signature covers begins in {@link #raw}, and its length. */
    public final int part;
    public final int partLength;
    /** Where the 16 signature bytes begin in {@link #raw}. */
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

    Opened(byte[] raw) throws WireError {
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
        partLength = r.count(Envelope.MAX_BYTES);
        part = r.take(partLength);
        signature = r.take(Envelope.SIGNATURE_BYTES);
        if (r.bad()) {
            throw WireError.MALFORMED;
        }
        Reader s = new Reader(raw, part, part + partLength);
        permissions = s.u8();
        hasPlan = (permissions & Envelope.PERMIT_PLAN) != 0;
        traceHigh = s.u64();
        traceLow = s.u64();
        run = (permissions & Envelope.HAS_RUN) != 0 ? s.take(16) : -1;
        expires = s.u32();
        key = s.skipStr(1, Envelope.MAX_KEY_ID_BYTES);
        keyEnd = s.at();
        environment = s.skipStr(1, Envelope.MAX_ENVIRONMENT_BYTES);
        environmentEnd = s.at();
        plan = s.at();
        if (s.bad() || permissions > 15 || (!hasPlan && s.left() > 0)) {
            throw WireError.MALFORMED;
        }
    }

    /** Whether all signature bytes are zero: nobody signed. */
    public boolean unsigned() {
        return (Bytes.u64(raw, signature) | Bytes.u64(raw, signature + 8)) == 0;
    }

    /** Whether the key id is this one, in UTF-8. */
    public boolean keyIs(byte[] id) {
        return equal(id, key, keyEnd);
    }

    /** Whether the environment is this one, in UTF-8. */
    public boolean environmentIs(byte[] name) {
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

    /** {@link #finish(String, String)} with the texts as the envelope has them. */
    public Envelope finish() throws WireError {
        return finish(new String(raw, key, keyEnd - key, UTF_8), new String(raw, environment, environmentEnd - environment, UTF_8));
    }

    /**
     * Parses plan and hop part: checks 12 and 13. Call it only after the signature was found right. The arguments are key
     * id and environment as the caller has them already. Errors: too_many_faults, unknown_fault, malformed.
     */
    public Envelope finish(String keyId, String environmentName) throws WireError {
        List<Fault> faults = hasPlan ? Plan.decode(raw, plan, part + partLength) : null;
        int passedOn = signature + Envelope.SIGNATURE_BYTES;
        Reader r = new Reader(raw, passedOn, raw.length);
        long call = r.u64();
        int accept = r.u8();
        long limit = r.varint();
        int counters = r.bad() ? 0 : Plan.counters(faults);
        long[] evidence = counters == 0 ? NO_EVIDENCE : new long[counters];
        for (int i = 0; i < counters; i++) {
            evidence[i] = r.varint();
        }
        if (r.bad() || r.left() > 0 || accept > 3) {
            throw WireError.MALFORMED;
        }
        Signed signed = new Signed((permissions & Envelope.PERMIT_HISTORY) != 0, (permissions & Envelope.PERMIT_BRIDGE) != 0,
                traceHigh, traceLow, run < 0 ? null : Arrays.copyOfRange(raw, run, run + 16), expires, keyId,
                environmentName, faults);
        return new Envelope(signed, new Hop(call, accept, limit, evidence), raw, passedOn);
    }

    private static final long[] NO_EVIDENCE = {};
}
