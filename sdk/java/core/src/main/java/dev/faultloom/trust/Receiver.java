package dev.faultloom.trust;

import dev.faultloom.wire.Envelope;
import dev.faultloom.wire.Opened;
import dev.faultloom.wire.Text;
import dev.faultloom.wire.WireError;

/** Runs the acceptance checks. Safe for concurrent use. */
public final class Receiver {
    private final TrustSource source;
    private final Seen seen = new Seen();

    public Receiver(TrustSource source) {
        this.source = source;
    }

    /** A receiver with settings that stay; null makes it deaf. */
    public Receiver(TrustSettings settings) {
        this(TrustSource.fixed(settings));
    }

    /** The settings as they are now, or null: deaf. */
    public TrustSettings settings() {
        return source.settings();
    }

    /** {@code keys}, or why this receiver is deaf. */
    public String state() {
        return source.state();
    }

    /** Whether faults may fire at this service now. */
    public boolean faultsOn() {
        TrustSettings settings = settings();
        return settings != null && settings.faults;
    }

    /**
     * Judges the envelope of a gRPC request, whose array is kept.
     *
     * @param now in unix seconds
     * @param attempt the number in {@code grpc-previous-rpc-attempts}, or 0
     * @return null if the receiver is deaf
     * @throws WireError why the envelope is refused
     */
    public Envelope accept(byte[] raw, long now, long attempt) throws WireError {
        TrustSettings settings = settings();
        return settings == null ? null : remember(checked(settings, raw, now), attempt, now);
    }

    /** Judges the text of the header of an HTTP request; see {@link #accept}. */
    public Envelope acceptHeader(String text, long now) throws WireError {
        TrustSettings settings = settings();
        return settings == null ? null : remember(checked(settings, bytes(text), now), 0, now);
    }

    /** Judges the text of an envelope that came in baggage, for the call that {@code traceparent} named. */
    public Envelope acceptBridged(String text, long call, long now) throws WireError {
        TrustSettings settings = settings();
        return settings == null ? null : remember(checked(settings, bytes(text), now).bridged(call), 0, now);
    }

    private static byte[] bytes(String text) throws WireError {
        if (text.length() > Envelope.MAX_HEADER_CHARS) {
            throw WireError.OVERSIZED;
        }
        byte[] raw = Text.unbase64(text);
        if (raw == null) {
            throw WireError.MALFORMED;
        }
        return raw;
    }

    private static Envelope checked(TrustSettings settings, byte[] raw, long now) throws WireError {
        Opened o = Envelope.open(raw);
        if (o.unsigned()) {
            throw WireError.UNSIGNED;
        }
        Key key = settings.keyOf(o);
        if (key == null) {
            throw WireError.UNKNOWN_KEY;
        }
        if (!key.signed(o)) {
            throw WireError.BAD_SIGNATURE;
        }
        if (!settings.environmentOf(o)) {
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
        return o.finish(key.id, settings.environment);
    }

    private Envelope remember(Envelope e, long attempt, long now) throws WireError {
        if (e.signed.plan != null
                && !seen.admit(e.signed.traceHigh, e.signed.traceLow, e.hop.call, attempt, e.signed.expires, now)) {
            throw WireError.REPLAYED;
        }
        return e;
    }
}
