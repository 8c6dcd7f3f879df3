package dev.faultloom.wire;

/**
 * What travels with a request.
 *
 * <pre>
 * u8       version = 1
 * varint   length of the signed part
 * …        signed part: permissions, trace id, run id, expiry, key id, environment, plan
 * 16 B     signature
 * …        hop part, to the end: call id, accept, receive limit, evidence
 * </pre>
 */
public final class Envelope {
    /** Binary metadata of gRPC requests, and trailer of gRPC replies. */
    public static final String GRPC_KEY = "x-faultloom-bin";
    /** HTTP request header, base64url without padding. */
    public static final String HTTP_HEADER = "x-faultloom";
    /** HTTP reply header with a history, base64url without padding. */
    public static final String HISTORY_HEADER = "x-faultloom-history";
    /** HTTP reply header: {@code tail} or {@code gap}. */
    public static final String REPLY_HEADER = "x-faultloom-reply";

    public static final int VERSION = 1;
    public static final int MAX_BYTES = 2048;
    public static final int MAX_HEADER_CHARS = 2731;
    public static final int MAX_EXPIRY_SECONDS = 600;
    public static final int SIGNATURE_BYTES = 16;
    public static final int MAX_KEY_ID_BYTES = 32;
    public static final int MAX_ENVIRONMENT_BYTES = 64;
    /** What is signed begins with these characters. */
    public static final String SIGNATURE_DOMAIN = "faultloom/1\n";

    static final int PERMIT_HISTORY = 1;
    static final int PERMIT_PLAN = 2;
    static final int HAS_RUN = 4;
    static final int PERMIT_BRIDGE = 8;

    public final Signed signed;
    public final Hop hop;
    private final byte[] raw;
    private final int passedOn;

    /** {@code raw} begins with the {@code passedOn} bytes that every further call repeats; it is kept, not copied. */
    public Envelope(Signed signed, Hop hop, byte[] raw, int passedOn) {
        this.signed = signed;
        this.hop = hop;
        this.raw = raw;
        this.passedOn = passedOn;
    }

    /**
     * Parses the outer layers: checks 1 to 4 of the format. Nothing of the result has been believed yet. The array is
     * kept and must not be changed. Errors: oversized, malformed, unsupported_version.
     */
    public static Opened open(byte[] raw) throws WireError {
        return new Opened(raw);
    }

    /** Whether an envelope claims to carry a plan, without checking anything. */
    public static boolean carriesPlan(byte[] raw) {
        Reader r = new Reader(raw, 0, raw.length);
        r.u8();
        r.varint();
        return (r.u8() & PERMIT_PLAN) != 0;
    }

    /** The same request as seen behind a bridge: another call id, and nobody there to take a history. */
    public Envelope bridged(long call) {
        return new Envelope(signed, new Hop(call, Accept.NONE, 0, hop.evidence), raw, passedOn);
    }

    /**
     * Writes the envelope of a further call: what is passed on, then a hop part with the counters as they are now (null:
     * none). Null if it would be too large; then nothing may be sent.
     */
    public byte[] assemble(long call, int accept, long receiveLimit, long[] evidence) {
        int length = passedOn + 9 + Bytes.varintLength(receiveLimit);
        if (evidence != null) {
            for (long n : evidence) {
                length += Bytes.varintLength(n);
            }
        }
        if (length > MAX_BYTES) {
            return null;
        }
        Writer out = new Writer(length).bytes(raw, 0, passedOn).u64(call).u8(accept).varint(receiveLimit);
        if (evidence != null) {
            for (long n : evidence) {
                out.varint(n);
            }
        }
        return out.array();
    }

    /** Joins version byte, signed part and signature: what every call of the request begins with. */
    public static byte[] passedOn(byte[] part, byte[] signature) {
        return new Writer(3 + part.length + SIGNATURE_BYTES)
                .u8(VERSION).varint(part.length).bytes(part).bytes(signature, 0, SIGNATURE_BYTES).toBytes();
    }
}
