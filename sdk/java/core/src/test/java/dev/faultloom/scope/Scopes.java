package dev.faultloom.scope;

import dev.faultloom.trust.Receiver;
import dev.faultloom.trust.TrustSettings;
import dev.faultloom.wire.Envelope;
import dev.faultloom.wire.Fault;
import dev.faultloom.wire.HopPart;
import dev.faultloom.wire.Plan;
import dev.faultloom.wire.SignedPart;
import java.util.List;
import java.util.Map;

/** Scopes for tests, which answer call 7. */
final class Scopes {
    private Scopes() {}

    static Process process(String service) {
        try {
            return new Process(service, Map.of(), new Receiver(TrustSettings.parse("environment demo")));
        } catch (TrustSettings.Invalid e) {
            throw new AssertionError(e);
        }
    }

    static Envelope envelope(int accept, long limit, List<Fault> plan) {
        List<Fault> faults = plan.isEmpty() ? null : plan;
        SignedPart signed = new SignedPart(true, false, 1, 2, null, 3, "k", "demo", faults);
        return new Envelope(signed, new HopPart(7, accept, limit, new long[Plan.counterCount(faults)]), new byte[70], 70);
    }

    static Scope begin(int accept, long limit, Fault... plan) {
        return process("front").beginScope(envelope(accept, limit, List.of(plan)), 1_000_000);
    }
}
