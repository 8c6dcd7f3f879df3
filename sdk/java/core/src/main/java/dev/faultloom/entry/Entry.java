package dev.faultloom.entry;

import dev.faultloom.trust.Key;
import dev.faultloom.trust.Signer;
import dev.faultloom.trust.TrustSettings;
import dev.faultloom.wire.Envelope;
import dev.faultloom.wire.Traceparent;
import dev.faultloom.wire.WireError;
import java.util.Map;

/**
 * Entry sampling: traces requests that arrive without an envelope and exports their histories. Safe for concurrent use.
 */
public final class Entry {
    /** Samples and exports nothing. */
    public static final Entry NONE = new Entry(null, null, false);
    private static final int TTL_SECONDS = 60;

    private final Sampler sampler;
    private final Exporter exporter;
    private final boolean bridge;

    /**
     * @param sampler null: samples nothing
     * @param exporter null: exports nothing, and therefore samples nothing
     * @param bridge whether requests also carry {@code traceparent} and {@code baggage}
     */
    public Entry(Sampler sampler, Exporter exporter, boolean bridge) {
        this.sampler = exporter == null ? null : sampler;
        this.exporter = exporter;
        this.bridge = bridge;
    }

    /**
     * Configured by {@code FAULTLOOM_SAMPLE}, {@code FAULTLOOM_EXPORT} and {@code FAULTLOOM_BRIDGE}. An invalid value
     * disables sampling, with one line on standard error.
     */
    public static Entry of(Map<String, String> variables) {
        String sample = variables.getOrDefault("FAULTLOOM_SAMPLE", "");
        String export = variables.getOrDefault("FAULTLOOM_EXPORT", "");
        if (sample.isEmpty() && export.isEmpty()) {
            return NONE;
        }
        Endpoint endpoint = export.isEmpty() ? null : Endpoint.parse(export);
        Sampler sampler = sample.isEmpty() ? null : Sampler.parse(sample);
        String problem = null;
        if (!export.isEmpty() && endpoint == null) {
            problem = "FAULTLOOM_EXPORT is not http://HOST:PORT/PATH or https://…";
        } else if (!sample.isEmpty() && sampler == null) {
            problem = "FAULTLOOM_SAMPLE is not 1/N with N from 1 to 1000000";
        } else if (sampler != null && endpoint == null) {
            problem = "FAULTLOOM_SAMPLE needs FAULTLOOM_EXPORT";
        }
        if (problem != null) {
            System.err.println("faultloom: " + problem + ": sampling is off");
            sampler = null;
        }
        boolean bridge = variables.getOrDefault("FAULTLOOM_BRIDGE", "").equals("on");
        return endpoint == null ? NONE : new Entry(sampler, Exporter.start(endpoint), bridge);
    }

    /** Exports histories that no caller accepts; or null. */
    public Exporter exporter() {
        return exporter;
    }

    /** Whether any request is sampled. */
    public boolean isSampling() {
        return sampler != null;
    }

    /** Decides whether the current request is sampled. */
    public boolean sample() {
        return sampler != null && sampler.sample();
    }

    /**
     * The envelope of a sampled request; null: the settings (null: none) have no trace key. {@code parent} null: none.
     */
    public Envelope sign(TrustSettings settings, Traceparent parent, long now) {
        Key key = settings == null ? null : settings.signingKey(false);
        if (key == null) {
            return null;
        }
        long traceHigh = parent != null ? parent.traceHigh : Signer.randomId();
        long traceLow = parent != null ? parent.traceLow : Signer.randomId();
        long call = parent != null ? parent.parent : Signer.randomId();
        try {
            return new Signer(key, settings.environment)
                    .sign(traceHigh, traceLow, null, null, bridge, call, now + TTL_SECONDS);
        } catch (WireError e) {
            return null; // impossible without a plan
        }
    }
}
