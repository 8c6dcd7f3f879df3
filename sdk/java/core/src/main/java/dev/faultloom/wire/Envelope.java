package dev.faultloom.wire;

/**
 * The envelope that a request carries.
 *
 * <pre>
 * u8       version = 1
 * varint   length of the signed part
 * …        signed part: permissions, trace id, run id, expiry, key id, environment, plan
 * 16 B     signature
 * …        hop part, up to the end: call id, accept, receive limit, evidence
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
    /** The input of the signature starts with these characters. */
    public static final String SIGNATURE_DOMAIN = "faultloom/1\n";

    static final int PERMIT_HISTORY = 1;
    static final int PERMIT_PLAN = 2;
    static final int HAS_RUN = 4;
    static final int PERMIT_BRIDGE = 8;

    public final SignedPart signed;
    public final HopPart hop;
    private final byte[] raw;
    private final int prefixLength;

    /**
     * The first {@code prefixLength} bytes of {@code raw} are forwarded with every call. The array is kept, not copied.
     */
    public Envelope(SignedPart signed, HopPart hop, byte[] raw, int prefixLength) {
        this.signed = signed;
        this.hop = hop;
        this.raw = raw;
        this.prefixLength = prefixLength;
    }

    /**
     * Decodes the outer layers: checks 1 to 4 of the format. The result is not verified. The array is kept and must not
     * be changed. Errors: oversized, malformed, unsupported_version.
     */
    public static UnverifiedEnvelope decode(byte[] raw) throws WireError {
        return new UnverifiedEnvelope(raw);
    }

    /** Whether an envelope claims to carry a plan. Verifies nothing. */
    public static boolean carriesPlan(byte[] raw) {
        Reader r = new Reader(raw, 0, raw.length);
        r.u8();
        r.varint();
        return (r.u8() & PERMIT_PLAN) != 0;
    }

    /** This envelope after a bridge: with the call id of {@code traceparent}; no caller accepts a history. */
    public Envelope forBridge(long call) {
        return new Envelope(signed, new HopPart(call, Accept.NONE, 0, hop.evidence), raw, prefixLength);
    }

    /**
     * Encodes the envelope of a call of this service: the forwarded prefix, then a hop part with the current counters
     * (null: none). Null if it would be too large: then the request must not carry an envelope.
     */
    public byte[] assemble(long call, int accept, long receiveLimit, long[] evidence) {
        int length = prefixLength + 9 + Bytes.varintLength(receiveLimit);
        if (evidence != null) {
            for (long n : evidence) {
                length += Bytes.varintLength(n);
            }
        }
        if (length > MAX_BYTES) {
            return null;
        }
        Writer out = new Writer(length).bytes(raw, 0, prefixLength).u64(call).u8(accept).varint(receiveLimit);
        if (evidence != null) {
            for (long n : evidence) {
                out.varint(n);
            }
        }
        return out.array();
    }

    /** Encodes the prefix that every call of the request forwards: version, signed part, signature. */
    public static byte[] encodeSignedPrefix(byte[] part, byte[] signature) {
        return new Writer(3 + part.length + SIGNATURE_BYTES)
                .u8(VERSION).varint(part.length).bytes(part).bytes(signature, 0, SIGNATURE_BYTES).toBytes();
    }
}
