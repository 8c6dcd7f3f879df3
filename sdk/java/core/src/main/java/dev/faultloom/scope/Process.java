package dev.faultloom.scope;

import static java.nio.charset.StandardCharsets.UTF_8;

import dev.faultloom.entry.Entry;
import dev.faultloom.trust.Receiver;
import dev.faultloom.trust.TrustSource;
import dev.faultloom.wire.Bridge;
import dev.faultloom.wire.Envelope;
import dev.faultloom.wire.Headers;
import dev.faultloom.wire.Names;
import dev.faultloom.wire.Text;
import dev.faultloom.wire.Traceparent;
import dev.faultloom.wire.WireError;
import java.util.HashMap;
import java.util.Map;

/** The identity and settings of this service: its name, its peers, its trust settings. Safe for concurrent use. */
public final class Process {
    private final String service;
    private final Map<String, String> peers;
    private final Receiver receiver;
    private final Entry entry;

    /**
     * @param service 1 to 64 bytes; longer names are truncated
     * @param peers maps an address {@code host:port} to a service name
     * @param entry samples and exports requests, see {@link Entry#NONE}
     */
    public Process(String service, Map<String, String> peers, Receiver receiver, Entry entry) {
        // the round trip through bytes replaces lone surrogates by question marks
        this.service = Text.truncate(new String(service.getBytes(UTF_8), UTF_8), Names.MAX_SERVICE_BYTES);
        this.peers = Map.copyOf(peers);
        this.receiver = receiver;
        this.entry = entry;
    }

    /** This process, configured by its environment variables at the first call. */
    public static Process current() {
        return FromEnvironment.PROCESS;
    }

    private static final class FromEnvironment {
        static final Process PROCESS = of(System.getenv());
    }

    /** A process configured by these environment variables. */
    public static Process of(Map<String, String> variables) {
        String service = variables.getOrDefault("FAULTLOOM_SERVICE", "");
        Receiver receiver = new Receiver(TrustSource.environment(variables));
        return new Process(service.isEmpty() ? programName(System.getProperty("sun.java.command")) : service,
                parsePeers(variables.getOrDefault("FAULTLOOM_PEERS", "")), receiver, Entry.of(variables));
    }

    /** The program name in a Java command line: the jar without its suffix, or the simple name of the main class. */
    static String programName(String command) {
        String program = command == null ? "" : command.trim();
        int end = program.indexOf(' ');
        if (end >= 0) {
            program = program.substring(0, end);
        }
        if (program.endsWith(".jar")) {
            program = program.substring(program.lastIndexOf('/') + 1, program.length() - 4);
        } else {
            program = program.substring(Math.max(program.lastIndexOf('.'), program.lastIndexOf('/')) + 1);
        }
        return program.isEmpty() ? "java" : program;
    }

    /** Reads {@code host:port=service,…}. Entries without both parts are ignored. */
    static Map<String, String> parsePeers(String text) {
        Map<String, String> peers = new HashMap<>();
        for (String entry : text.split(",")) {
            int equals = entry.indexOf('=');
            if (equals > 0) {
                String address = entry.substring(0, equals).trim();
                String name = entry.substring(equals + 1).trim();
                if (!address.isEmpty() && !name.isEmpty()) {
                    peers.put(address, name);
                }
            }
        }
        return peers;
    }

    public String service() {
        return service;
    }

    public Receiver receiver() {
        return receiver;
    }

    public Entry entry() {
        return entry;
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
            switch (request.carrier) {
                case GRPC_FIELD:
                    return openGrpc(request.envelope, request.headers);
                case GRPC_METADATA:
                    return request.envelope == null
                            ? openBridged(request.headers) : openGrpc(request.envelope, request.headers);
                default:
                    String text = request.envelopeHeader();
                    return text == null ? openBridged(request.headers) : openHttp(text);
            }
        } catch (WireError e) {
            // the metadata of a request with a field was handled when its headers arrived
            return request.carrier == IncomingRequest.Carrier.GRPC_FIELD ? null : sample(request.headers);
        }
    }

    private Scope openGrpc(byte[] envelope, Headers metadata) throws WireError {
        long attempt = Envelope.claimsPlan(envelope) ? attempt(metadata.get("grpc-previous-rpc-attempts")) : 0;
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
        String text = Bridge.envelope(headers.get(Bridge.BAGGAGE));
        Traceparent parent = text == null ? null : Traceparent.parse(headers.get(Bridge.TRACEPARENT));
        if (parent == null) {
            return sample(headers);
        }
        long nanos = System.nanoTime();
        long us = Scope.wallUs();
        Envelope accepted = receiver.acceptBridged(text, parent.parent, us / 1_000_000);
        return accepted == null ? null : new Scope(this, accepted, nanos, us, new ExportTarget(entry.exporter(), true));
    }

    private Scope sample(Headers headers) {
        if (!entry.sample()) {
            return null;
        }
        long nanos = System.nanoTime();
        long us = Scope.wallUs();
        Traceparent parent = Traceparent.parse(headers.get(Bridge.TRACEPARENT));
        Envelope signed = entry.sign(receiver.settings(), parent, us / 1_000_000);
        ExportTarget target = new ExportTarget(entry.exporter(), parent != null);
        return signed == null ? null : new Scope(this, signed, nanos, us, target);
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
