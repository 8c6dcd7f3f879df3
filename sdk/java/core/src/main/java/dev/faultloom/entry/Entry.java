package dev.faultloom.entry;

import dev.faultloom.trust.Key;
import dev.faultloom.trust.Signer;
import dev.faultloom.trust.TrustSettings;
import dev.faultloom.wire.Envelope;
import dev.faultloom.wire.Traceparent;
import dev.faultloom.wire.WireError;
import java.util.Map;

/** Whether and how requests begin at this service by themselves. Safe for concurrent use. */
public final class Entry {
    /** Nothing is drawn and nothing exported. */
    public static final Entry NONE = new Entry(null, null, false);
    private static final int TTL_SECONDS = 60;

    private final Sampler sampler;
    private final Exporter exporter;
    private final boolean bridge;

    /** @param sampler null: nothing is drawn. @param exporter null: nothing is exported, and so nothing drawn */
    public Entry(Sampler sampler, Exporter exporter, boolean bridge) {
        this.sampler = exporter == null ? null : sampler;
        this.exporter = exporter;
        this.bridge = bridge;
    }

    /**
     * What {@code FAULTLOOM_SAMPLE}, {@code FAULTLOOM_EXPORT} and {@code FAULTLOOM_BRIDGE} ask for. What is not understood
     * is off, with one line on standard error.
     */
    public static Entry of(Map<String, String> variables) {
        String sample = variables.getOrDefault("FAULTLOOM_SAMPLE", "");
        String export = variables.getOrDefault("FAULTLOOM_EXPORT", "");
        if (sample.isEmpty() && export.isEmpty()) {
            return NONE;
        }
        Endpoint endpoint = export.isEmpty() ? null : Endpoint.parse(export);
        Sampler sampler = sample.isEmpty() ? null : Sampler.parse(sample);
        String wrong = null;
        if (!export.isEmpty() && endpoint == null) {
            wrong = "FAULTLOOM_EXPORT is not http://HOST:PORT/PATH or https://…";
        } else if (!sample.isEmpty() && sampler == null) {
            wrong = "FAULTLOOM_SAMPLE is not 1/N with N from 1 to 1000000";
        } else if (sampler != null && endpoint == null) {
            wrong = "FAULTLOOM_SAMPLE needs FAULTLOOM_EXPORT";
        }
        if (wrong != null) {
            System.err.println("faultloom: " + wrong + ": sampling is off");
            sampler = null;
        }
        return endpoint == null ? NONE : new Entry(sampler, Exporter.start(endpoint), variables.getOrDefault("FAULTLOOM_BRIDGE", "").equals("on"));
    }

    /** Where histories go that nobody takes away, or null. */
    public Exporter exporter() {
        return exporter;
    }

    /** Whether requests are drawn at all. */
    public boolean draws() {
        return sampler != null;
    }

    /** Whether this request is to be traced. */
    public boolean draw() {
        return sampler != null && sampler.draw();
    }

    /** The envelope of a drawn request, or null: no trace key. {@code settings} null: deaf. {@code parent} null: none. */
    public Envelope begin(TrustSettings settings, Traceparent parent, long now) {
        Key key = settings == null ? null : settings.signingKey(false);
        if (key == null) {
            return null;
        }
        long traceHigh = parent != null ? parent.traceHigh : Signer.randomId();
        long traceLow = parent != null ? parent.traceLow : Signer.randomId();
        long call = parent != null ? parent.parent : Signer.randomId();
        try {
            return new Signer(key, settings.environment).begin(traceHigh, traceLow, null, null, bridge, call, now + TTL_SECONDS);
        } catch (WireError e) {
            return null; // impossible: there is no plan
        }
    }
}
