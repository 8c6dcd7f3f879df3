package dev.faultloom.trust;

import dev.faultloom.wire.Envelope;
import dev.faultloom.wire.Text;
import dev.faultloom.wire.UnverifiedEnvelope;
import dev.faultloom.wire.WireError;

/** Verifies the envelopes of incoming requests. Safe for concurrent use. */
public final class Receiver {
    private final TrustSource source;
    private final ReplayCache accepted = new ReplayCache();

    public Receiver(TrustSource source) {
        this.source = source;
    }

    /** A receiver with fixed settings; null: it accepts nothing. */
    public Receiver(TrustSettings settings) {
        this(TrustSource.fixed(settings));
    }

    /** The current settings, or null: this process is inactive. */
    public TrustSettings settings() {
        return source.settings();
    }

    /** {@code keys}, or the reason why this receiver is inactive. */
    public String state() {
        return source.state();
    }

    /** Whether faults may fire at this service now: it has settings, and they do not disable faults. */
    public boolean faultsEnabled() {
        TrustSettings settings = settings();
        return settings != null && settings.faultsEnabled;
    }

    /**
     * Verifies the envelope of a gRPC request. The array is kept.
     *
     * @param now in Unix seconds
     * @param attempt the number in {@code grpc-previous-rpc-attempts}, or 0
     * @return null if the receiver is inactive
     * @throws WireError the reason why the envelope is rejected
     */
    public Envelope accept(byte[] raw, long now, long attempt) throws WireError {
        TrustSettings settings = settings();
        return settings == null ? null : checkReplay(verify(settings, raw, now), attempt, now);
    }

    /** {@link #accept} for the header text of an HTTP request. */
    public Envelope acceptHeader(String text, long now) throws WireError {
        TrustSettings settings = settings();
        return settings == null ? null : checkReplay(verify(settings, decode(text), now), 0, now);
    }

    /** {@link #accept} for the text of a baggage member. {@code call} is the parent id of {@code traceparent}. */
    public Envelope acceptBridged(String text, long call, long now) throws WireError {
        TrustSettings settings = settings();
        return settings == null ? null : checkReplay(verify(settings, decode(text), now).forBridge(call), 0, now);
    }

    private static byte[] decode(String text) throws WireError {
        if (text.length() > Envelope.MAX_HEADER_CHARS) {
            throw WireError.OVERSIZED;
        }
        byte[] raw = Text.decodeBase64(text);
        if (raw == null) {
            throw WireError.MALFORMED;
        }
        return raw;
    }

    private static Envelope verify(TrustSettings settings, byte[] raw, long now) throws WireError {
        UnverifiedEnvelope o = Envelope.decode(raw);
        if (o.isUnsigned()) {
            throw WireError.UNSIGNED;
        }
        Key key = settings.findKey(o);
        if (key == null) {
            throw WireError.UNKNOWN_KEY;
        }
        if (!key.verifies(o)) {
            throw WireError.BAD_SIGNATURE;
        }
        if (!settings.matchesEnvironment(o)) {
            throw WireError.WRONG_ENVIRONMENT;
        }
        if (o.expires <= now) {
            throw WireError.EXPIRED;
        }
        if (o.expires > now + Envelope.MAX_EXPIRY_SECONDS) {
            throw WireError.EXPIRY_TOO_FAR;
        }
        if (o.hasPlan && !key.fault) {
            throw WireError.PLAN_NOT_PERMITTED;
        }
        return o.decodeVerified(key.id, settings.environment);
    }

    private Envelope checkReplay(Envelope e, long attempt, long now) throws WireError {
        if (e.signed.plan != null
                && !accepted.admit(e.signed.traceHigh, e.signed.traceLow, e.hop.call, attempt, e.signed.expires, now)) {
            throw WireError.REPLAYED;
        }
        return e;
    }
}
