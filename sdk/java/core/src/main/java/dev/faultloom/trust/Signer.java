package dev.faultloom.trust;

import dev.faultloom.wire.Accept;
import dev.faultloom.wire.Envelope;
import dev.faultloom.wire.Fault;
import dev.faultloom.wire.HopPart;
import dev.faultloom.wire.Plan;
import dev.faultloom.wire.SignedPart;
import dev.faultloom.wire.WireError;
import java.security.SecureRandom;
import java.util.List;
import java.util.concurrent.ThreadLocalRandom;

/** Creates the envelopes of requests that start at this process. Safe for concurrent use. */
public final class Signer {
    private static final SecureRandom SEEDS = new SecureRandom();

    private final Key key;
    private final String environment;

    public Signer(Key key, String environment) {
        this.key = key;
        this.environment = environment;
    }

    /**
     * A signer with the first suitable key of the settings; null if there is none. Without {@code fault}, a trace key
     * is preferred and a fault key also works.
     */
    public static Signer of(TrustSettings settings, boolean fault) {
        Key key = settings.signingKey(fault);
        if (key == null && !fault) {
            key = settings.signingKey(true);
        }
        return key == null ? null : new Signer(key, settings.environment);
    }

    /** A random nonzero id. It must be unique; it need not be unpredictable. */
    public static long randomId() {
        long id;
        do {
            id = ThreadLocalRandom.current().nextLong();
        } while (id == 0);
        return id;
    }

    /** An envelope with a random trace id and call id that requests a history and carries this plan (null: none). */
    public Envelope sign(List<Fault> plan, long expires) throws WireError {
        return sign(SEEDS.nextLong(), randomId(), null, plan, false, randomId(), expires);
    }

    /**
     * Creates an envelope that requests a history.
     *
     * @param run 16 bytes, or null
     * @param plan null: none; requires a fault key
     * @param bridge whether requests also carry it in {@code traceparent} and {@code baggage}
     * @param call the call id from which all others are derived
     * @param expires Unix seconds, at most 600 s from now
     * @throws WireError plan_not_permitted, envelope_too_large, too_many_faults; malformed for an empty plan
     */
    public Envelope sign(long traceHigh, long traceLow, byte[] run, List<Fault> plan, boolean bridge, long call, long expires)
            throws WireError {
        if (plan != null && !key.fault) {
            throw WireError.PLAN_NOT_PERMITTED;
        }
        SignedPart signed = new SignedPart(true, bridge, traceHigh, traceLow, run, expires, key.id, environment, plan);
        byte[] part = signed.encode();
        byte[] prefix = Envelope.encodeSignedPrefix(part, key.sign(part));
        return new Envelope(signed, new HopPart(call, Accept.NONE, 0, new long[Plan.counterCount(plan)]), prefix, prefix.length);
    }
}
