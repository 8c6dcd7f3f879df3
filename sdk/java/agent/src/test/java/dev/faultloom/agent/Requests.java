package dev.faultloom.agent;

import dev.faultloom.trust.Signer;
import dev.faultloom.trust.TrustSettings;
import dev.faultloom.wire.Envelope;
import dev.faultloom.wire.Fault;
import dev.faultloom.wire.WireError;
import java.util.List;

/** Envelopes of requests that start at a test. */
final class Requests {
    static final String TRUST = "environment test;key trace t1 " + "01".repeat(32) + ";key fault f1 " + "02".repeat(32) + ";faults on";
    private static final Signer SIGNER = Signer.of(settings(), true);

    private Requests() {}

    private static TrustSettings settings() {
        try {
            return TrustSettings.parse(TRUST);
        } catch (TrustSettings.Invalid e) {
            throw new AssertionError(e);
        }
    }

    /** An envelope with these faults, or without a plan. */
    static Envelope begin(Fault... faults) throws WireError {
        return SIGNER.sign(faults.length == 0 ? null : List.of(faults), System.currentTimeMillis() / 1000 + 60);
    }

    /** An envelope with these faults that is also carried in baggage. */
    static Envelope beginBridged(Fault... faults) throws WireError {
        return SIGNER.sign(Signer.randomId(), Signer.randomId(), null, List.of(faults), true, Signer.randomId(), System.currentTimeMillis() / 1000 + 60);
    }

    /** The encoded envelope of the first call. */
    static byte[] bytes(Envelope envelope, int accept, long limit) {
        return envelope.assemble(envelope.hop.call, accept, limit, envelope.signed.plan == null ? null : envelope.hop.evidence);
    }
}
