package dev.faultloom.trust;

import dev.faultloom.wire.Accept;
import dev.faultloom.wire.Envelope;
import dev.faultloom.wire.Fault;
import dev.faultloom.wire.Hop;
import dev.faultloom.wire.Signed;
import dev.faultloom.wire.WireError;
import dev.faultloom.wire.Plan;
import java.security.SecureRandom;
import java.util.List;
import java.util.concurrent.ThreadLocalRandom;

/** Makes the envelopes of requests that begin here. Safe for concurrent use. */
public final class Signer {
    private static final SecureRandom SEEDS = new SecureRandom();

    private final Key key;
    private final String environment;

    public Signer(Key key, String environment) {
        this.key = key;
        this.environment = environment;
    }

    /**
     * A signer with the settings' first key for that purpose; for histories a fault key will do. Null if there is none.
     */
    public static Signer of(TrustSettings settings, boolean fault) {
        Key key = settings.signingKey(fault);
        if (key == null && !fault) {
            key = settings.signingKey(true);
        }
        return key == null ? null : new Signer(key, settings.environment);
    }

    /** A random id that is not zero. It must not repeat; that nobody guesses it is not needed. */
    public static long randomId() {
        long id;
        do {
            id = ThreadLocalRandom.current().nextLong();
        } while (id == 0);
        return id;
    }

    /** An envelope with a random trace id and call id, a history, and that plan (null: none), good until {@code expires}. */
    public Envelope begin(List<Fault> plan, long expires) throws WireError {
        return begin(SEEDS.nextLong(), randomId(), null, plan, false, randomId(), expires);
    }

    /**
     * An envelope with a history.
     *
     * @param run 16 bytes, or null
     * @param plan null: none; needs a fault key
     * @param bridge whether it also travels in {@code traceparent} and {@code baggage}
     * @param call the id from which all others are derived
     * @param expires unix seconds, at most 600 ahead
     * @throws WireError plan_not_permitted, envelope_too_large, too_many_faults; malformed for an empty plan
     */
    public Envelope begin(long traceHigh, long traceLow, byte[] run, List<Fault> plan, boolean bridge, long call, long expires)
            throws WireError {
        if (plan != null && !key.fault) {
            throw WireError.PLAN_NOT_PERMITTED;
        }
        Signed signed = new Signed(true, bridge, traceHigh, traceLow, run, expires, key.id, environment, plan);
        byte[] part = signed.toBytes();
        byte[] passedOn = Envelope.passedOn(part, key.sign(part));
        return new Envelope(signed, new Hop(call, Accept.NONE, 0, new long[Plan.counters(plan)]), passedOn, passedOn.length);
    }
}
