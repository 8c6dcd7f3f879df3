package dev.faultloom.scope;

import static java.nio.charset.StandardCharsets.UTF_8;

import dev.faultloom.trust.Key;
import dev.faultloom.trust.Receiver;
import dev.faultloom.trust.Signer;
import dev.faultloom.trust.TrustSettings;
import dev.faultloom.wire.Bridge;
import dev.faultloom.wire.BridgedEnvelope;
import dev.faultloom.wire.Carrier;
import dev.faultloom.wire.Envelope;
import dev.faultloom.wire.Headers;
import dev.faultloom.wire.Names;
import dev.faultloom.wire.Text;
import dev.faultloom.wire.Traceparent;
import dev.faultloom.wire.WireError;
import java.util.Map;
import java.util.regex.Pattern;

/** A service: its name, its peers, its trust settings, and how it traces requests. Safe for concurrent use. */
public final class Process {
    /** How long the envelope of a sampled request is valid. */
    private static final int SAMPLED_REQUEST_SECONDS = 60;

    private static final Pattern CONTROL = Pattern.compile("[\\x00-\\x1f\\x7f]");

    private final String service;
    private final Map<String, String> peers;
    private final Receiver receiver;
    private final EntrySampler sampler;
    private final HistorySink exporter;
    private final boolean bridge;

    /** A process that samples and exports nothing. */
    public Process(String service, Map<String, String> peers, Receiver receiver) {
        this(service, peers, receiver, null, null, false);
    }

    /**
     * @param service 1 to 64 bytes; longer names are truncated, control characters replaced by question marks
     * @param peers maps an address {@code host:port} to a service name
     * @param sampler selects the requests without an envelope that are traced; null: none
     * @param exporter gets the histories that no caller accepts; null: they are dropped, and nothing is sampled
     * @param bridge whether sampled requests also carry {@code traceparent} and {@code baggage}
     */
    public Process(String service, Map<String, String> peers, Receiver receiver, EntrySampler sampler, HistorySink exporter,
            boolean bridge) {
        // readers do not take a history with a control character in the name for a tail
        String name = CONTROL.matcher(service).replaceAll("?");
        // the round trip through bytes replaces lone surrogates by question marks
        this.service = Text.truncate(new String(name.getBytes(UTF_8), UTF_8), Names.MAX_SERVICE_BYTES);
        this.peers = Map.copyOf(peers);
        this.receiver = receiver;
        this.sampler = exporter == null ? null : sampler;
        this.exporter = exporter;
        this.bridge = bridge;
    }

    public String service() {
        return service;
    }

    public Receiver receiver() {
        return receiver;
    }

    /** Whether any request is sampled. */
    public boolean isSampling() {
        return sampler != null;
    }

    /** The service name for an authority {@code host:port} in {@code FAULTLOOM_PEERS}, else the authority itself. */
    public String peerName(String authority) {
        return peers.getOrDefault(authority, authority);
    }

    /** Whether this process has no trust settings: it accepts no envelope and starts no trace. */
    public boolean isInactive() {
        return receiver.settings() == null;
    }

    /**
     * Verifies the envelope of a request and begins the scope, or samples a request without a valid envelope. Null if
     * the request is not traced: serve it unchanged.
     */
    public Scope openScope(IncomingRequest request) {
        try {
            switch (request.carrier()) {
                case GRPC_FIELD:
                    return openGrpc(request);
                case GRPC_METADATA:
                    return request.grpcEnvelope() == null ? openBridged(request) : openGrpc(request);
                default:
                    String text = Carrier.lastValue(request.get(Envelope.HTTP_HEADER));
                    return text == null ? openBridged(request) : openHttp(text);
            }
        } catch (WireError e) {
            // the metadata of a request with a field was handled when its headers arrived
            return request.carrier() == IncomingRequest.Carrier.GRPC_FIELD ? null : sample(request);
        }
    }

    private Scope openGrpc(IncomingRequest request) throws WireError {
        byte[] envelope = request.grpcEnvelope();
        long attempt = Envelope.carriesPlan(envelope) ? attempt(request.get("grpc-previous-rpc-attempts")) : 0;
        long nanos = System.nanoTime();
        long us = Scope.wallUs();
        Envelope accepted = receiver.accept(envelope, us / 1_000_000, attempt);
        return accepted == null ? null : new Scope(this, accepted, nanos, us, null);
    }

    private Scope openHttp(String header) throws WireError {
        long nanos = System.nanoTime();
        long us = Scope.wallUs();
        Envelope accepted = receiver.acceptHeader(header, us / 1_000_000);
        return accepted == null ? null : new Scope(this, accepted, nanos, us, null);
    }

    /** Opens a request whose envelope is in {@code baggage}, or samples it. */
    private Scope openBridged(Headers headers) throws WireError {
        if (receiver.settings() == null) {
            return null;
        }
        String baggage = headers.get(Bridge.BAGGAGE);
        BridgedEnvelope bridged = baggage == null ? null : Bridge.extract(headers.get(Bridge.TRACEPARENT), baggage);
        if (bridged == null) {
            return sample(headers);
        }
        long nanos = System.nanoTime();
        long us = Scope.wallUs();
        Envelope accepted = receiver.acceptBridged(bridged.envelope, bridged.call, us / 1_000_000);
        return accepted == null ? null : new Scope(this, accepted, nanos, us, new ExportTarget(exporter, true, false));
    }

    /** Begins a trace here if the sampler selects the request and there is a trace key. */
    private Scope sample(Headers headers) {
        if (sampler == null || !sampler.sample()) {
            return null;
        }
        TrustSettings settings = receiver.settings();
        Key key = settings == null ? null : settings.signingKey(false);
        if (key == null) {
            return null;
        }
        long nanos = System.nanoTime();
        long us = Scope.wallUs();
        Traceparent parent = Traceparent.parse(headers.get(Bridge.TRACEPARENT));
        long traceHigh = parent != null ? parent.traceHigh : Signer.randomId();
        long traceLow = parent != null ? parent.traceLow : Signer.randomId();
        long call = parent != null ? parent.parent : Signer.randomId();
        try {
            Envelope signed = new Signer(key, settings.environment)
                    .sign(traceHigh, traceLow, null, null, bridge, call, us / 1_000_000 + SAMPLED_REQUEST_SECONDS);
            return new Scope(this, signed, nanos, us, new ExportTarget(exporter, parent != null, true));
        } catch (WireError e) {
            return null; // impossible without a plan
        }
    }

    /** Begins the scope of an envelope that was accepted, or signed by this process. */
    public Scope beginScope(Envelope envelope) {
        return beginScope(envelope, Scope.wallUs());
    }

    /** {@link #beginScope(Envelope)} at that wall-clock time, in µs since the Unix epoch. */
    public Scope beginScope(Envelope envelope, long startUs) {
        return new Scope(this, envelope, System.nanoTime(), startUs, null);
    }

    private static long attempt(String text) {
        if (text == null || text.isEmpty()) {
            return 0;
        }
        try {
            return Long.parseUnsignedLong(text);
        } catch (NumberFormatException e) {
            return 0;
        }
    }
}
