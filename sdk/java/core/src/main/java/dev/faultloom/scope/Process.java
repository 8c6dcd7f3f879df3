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

/** What a service knows about itself and its surroundings. Safe for concurrent use. */
public final class Process {
    private final String service;
    private final Map<String, String> peers;
    private final Receiver receiver;
    private final Entry entry;

    /**
     * @param service 1 to 64 bytes; longer names are cut
     * @param peers address {@code host:port} to service name
     * @param entry samples and exports, see {@link Entry#NONE}
     */
    public Process(String service, Map<String, String> peers, Receiver receiver, Entry entry) {
        // through bytes and back: what cannot be written in UTF-8 becomes a question mark
        this.service = Text.cut(new String(service.getBytes(UTF_8), UTF_8), Names.MAX_SERVICE_BYTES);
        this.peers = Map.copyOf(peers);
        this.receiver = receiver;
        this.entry = entry;
    }

    /** This process, by its environment variables, as they were at the first use. */
    public static Process current() {
        return OfEnvironment.PROCESS;
    }

    private static final class OfEnvironment {
        static final Process PROCESS = of(System.getenv());
    }

    /** The process that these environment variables describe. */
    public static Process of(Map<String, String> variables) {
        String service = variables.getOrDefault("FAULTLOOM_SERVICE", "");
        Receiver receiver = new Receiver(TrustSource.environment(variables));
        return new Process(service.isEmpty() ? programName(System.getProperty("sun.java.command")) : service,
                parsePeers(variables.getOrDefault("FAULTLOOM_PEERS", "")), receiver, Entry.of(variables));
    }

    /** The name of the program that a Java command line starts: its jar's without ending, or its main class's. */
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

    /** Names an authority {@code host:port}: as {@code FAULTLOOM_PEERS} does, else as it is. */
    public String peer(String authority) {
        return peers.getOrDefault(authority, authority);
    }

    /** Whether this process can never accept an envelope nor start a request: nothing needs to be looked at. */
    public boolean deaf() {
        return receiver.settings() == null;
    }

    /**
     * Begins the scope of a gRPC request, or returns null: then it is to be served as if there were nothing.
     *
     * @param envelope the last value of its {@code x-faultloom-bin}, or null; kept
     * @param metadata its other metadata
     */
    public Scope openGrpc(byte[] envelope, Headers metadata) {
        try {
            if (envelope == null) {
                return openOther(metadata);
            }
            return openOwn(envelope, metadata);
        } catch (WireError e) {
            return sample(metadata);
        }
    }

    /** Begins the scope of a gRPC request whose message brought this envelope, which is kept; null if it is refused. */
    public Scope openField(byte[] envelope, Headers metadata) {
        try {
            return openOwn(envelope, metadata);
        } catch (WireError e) {
            return null;
        }
    }

    private Scope openOwn(byte[] envelope, Headers metadata) throws WireError {
        long attempt = Envelope.carriesPlan(envelope) ? attempt(metadata.get("grpc-previous-rpc-attempts")) : 0;
        long nanos = System.nanoTime();
        long us = Scope.wallUs();
        Envelope accepted = receiver.accept(envelope, us / 1_000_000, attempt);
        return accepted == null ? null : new Scope(this, accepted, nanos, us, null);
    }

    /** Begins the scope of an HTTP request, or returns null: then it is to be served as if there were nothing. */
    public Scope openHttp(Headers request) {
        String header = request.get(Envelope.HTTP_HEADER);
        try {
            if (header == null) {
                return openOther(request);
            }
            long nanos = System.nanoTime();
            long us = Scope.wallUs();
            Envelope accepted = receiver.acceptHeader(header, us / 1_000_000);
            return accepted == null ? null : new Scope(this, accepted, nanos, us, null);
        } catch (WireError e) {
            return sample(request);
        }
    }

    /** A request without the usual carrier: over a bridge, or drawn. */
    private Scope openOther(Headers headers) throws WireError {
        if (receiver.settings() == null) {
            return null;
        }
        String text = Bridge.envelope(headers.get(Bridge.BAGGAGE));
        Traceparent from = text == null ? null : Traceparent.parse(headers.get(Bridge.TRACEPARENT));
        if (from == null) {
            return sample(headers);
        }
        long nanos = System.nanoTime();
        long us = Scope.wallUs();
        Envelope accepted = receiver.acceptBridged(text, from.parent, us / 1_000_000);
        return accepted == null ? null : new Scope(this, accepted, nanos, us, new Export(entry.exporter(), true));
    }

    private Scope sample(Headers headers) {
        if (!entry.draw()) {
            return null;
        }
        long nanos = System.nanoTime();
        long us = Scope.wallUs();
        Traceparent parent = Traceparent.parse(headers.get(Bridge.TRACEPARENT));
        Envelope begun = entry.begin(receiver.settings(), parent, us / 1_000_000);
        return begun == null ? null : new Scope(this, begun, nanos, us, new Export(entry.exporter(), parent != null));
    }

    /** Begins the scope of an envelope that was accepted, or made here. */
    public Scope begin(Envelope envelope) {
        return begin(envelope, Scope.wallUs());
    }

    /** {@link #begin(Envelope)} at that wall-clock time, in µs since the unix epoch. */
    public Scope begin(Envelope envelope, long startUs) {
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
