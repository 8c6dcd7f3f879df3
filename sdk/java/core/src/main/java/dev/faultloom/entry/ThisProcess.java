package dev.faultloom.entry;

import dev.faultloom.scope.Process;
import dev.faultloom.trust.Receiver;
import dev.faultloom.trust.TrustSource;
import java.util.HashMap;
import java.util.Map;

/** This process, as the {@code FAULTLOOM_…} environment variables describe it. */
public final class ThisProcess {
    private static final Process INSTANCE = fromEnvironment(System.getenv());

    private ThisProcess() {}

    /** This process. The first call reads the environment variables. */
    public static Process get() {
        return INSTANCE;
    }

    /**
     * A process configured by these variables. An invalid value of {@code FAULTLOOM_SAMPLE} or {@code FAULTLOOM_EXPORT}
     * disables sampling, with one line on standard error.
     */
    static Process fromEnvironment(Map<String, String> variables) {
        String service = variables.getOrDefault("FAULTLOOM_SERVICE", "");
        Map<String, String> peers = parsePeers(variables.getOrDefault("FAULTLOOM_PEERS", ""));
        Receiver receiver = new Receiver(TrustSource.fromEnvironment(variables));
        String sample = variables.getOrDefault("FAULTLOOM_SAMPLE", "");
        String export = variables.getOrDefault("FAULTLOOM_EXPORT", "");
        Sampler sampler = sample.isEmpty() ? null : Sampler.parse(sample);
        Endpoint endpoint = export.isEmpty() ? null : Endpoint.parse(export);
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
        return new Process(service.isEmpty() ? programName(System.getProperty("sun.java.command")) : service, peers, receiver, sampler,
                endpoint == null ? null : Exporter.start(endpoint), variables.getOrDefault("FAULTLOOM_BRIDGE", "").equals("on"));
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
}
