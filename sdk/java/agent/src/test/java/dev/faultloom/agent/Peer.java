package dev.faultloom.agent;

import java.io.BufferedReader;
import java.io.File;
import java.io.IOException;
import java.io.InputStreamReader;
import java.io.Writer;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.stream.Collectors;
import java.util.stream.Stream;

/** A service in another process, which exits with the test. */
final class Peer implements AutoCloseable {
    static final Path AGENT = Path.of("target", "faultloom-agent.jar").toAbsolutePath();
    /**
     * {@code FAULTLOOM_TEST_JAVA}: the Java for the services, to test the agent on another version than the tests' own.
     */
    private static final String OTHER_JAVA = System.getenv("FAULTLOOM_TEST_JAVA");

    /** An HTTP server that the services' Java has: small runtimes lack the module of the JDK's server. */
    static final String HTTP = OTHER_JAVA == null ? "http" : "jetty";

    /** Whether the services' Java is one that Spring 6 supports. */
    static final boolean RUNS_SPRING = OTHER_JAVA == null;

    private static final String CLASSES = classPath();

    private final java.lang.Process process;
    private final Path errors;
    private final Map<String, Integer> ports = new HashMap<>();

    /** The options for starting a peer. */
    static final class Plan {
        private final List<String> options = new ArrayList<>();
        private final Map<String, String> variables = new HashMap<>();
        private final List<String> removed = new ArrayList<>();
        private String classPath = CLASSES;
        private Path jar; // null: our own main class
        private String java = OTHER_JAVA != null ? OTHER_JAVA : Path.of(System.getProperty("java.home"), "bin", "java").toString();

        Plan option(String... more) {
            options.addAll(List.of(more));
            return this;
        }

        Plan with(String variable, String value) {
            variables.put(variable, value);
            return this;
        }

        /** Replaces jars on the class path. */
        Plan instead(String others, Path... jars) {
            classPath = Stream.concat(Arrays.stream(jars).map(Path::toString), Arrays.stream(classPath.split(File.pathSeparator))
                    .filter(part -> !part.matches(others))).collect(Collectors.joining(File.pathSeparator));
            return this;
        }

        Plan without(String variable) {
            removed.add(variable);
            return this;
        }

        Plan java(String path) {
            java = path;
            return this;
        }

        /** Starts an executable jar. */
        Plan jar(Path path) {
            jar = path;
            return this;
        }

        Plan agent() {
            return option("-javaagent:" + AGENT);
        }

        Peer start(String... arguments) throws IOException {
            return new Peer(this, arguments);
        }
    }

    /** Options for a peer without the agent. */
    static Plan stock() {
        return new Plan();
    }

    /** Options for a peer with the agent and both keys. */
    static Plan traced(String service) {
        return stock().agent().with("FAULTLOOM_SERVICE", service).with("FAULTLOOM_TRUST", Requests.TRUST).with("FAULTLOOM_WEBFLUX", "on");
    }

    private Peer(Plan plan, String... arguments) throws IOException {
        List<String> command = new ArrayList<>(List.of(
                plan.java, "-XX:TieredStopAtLevel=1", "-Xshare:auto", "-Dsun.net.httpserver.nodelay=true"));
        command.addAll(plan.options);
        command.addAll(plan.jar == null ? List.of("-cp", plan.classPath, "example.peer.Main") : List.of("-jar", plan.jar.toString()));
        command.addAll(Arrays.asList(arguments));
        errors = Files.createTempFile("peer", ".txt");
        ProcessBuilder builder = new ProcessBuilder(command).redirectError(errors.toFile());
        builder.environment().keySet().removeIf(name -> name.startsWith("FAULTLOOM_") || name.equals("JAVA_TOOL_OPTIONS"));
        builder.environment().putAll(plan.variables);
        builder.environment().keySet().removeAll(plan.removed);
        process = builder.start();
        BufferedReader out = new BufferedReader(new InputStreamReader(process.getInputStream()));
        StringBuilder before = new StringBuilder();
        String line = out.readLine();
        while (line != null && !line.startsWith("ready")) {
            before.append(line).append('\n'); // the log of an application
            line = out.readLine();
        }
        if (line == null) {
            throw new IOException("the peer did not start: " + before + stop());
        }
        Thread reader = new Thread(() -> discard(out));
        reader.setDaemon(true);
        reader.start();
        for (String pair : line.substring("ready".length()).trim().split(" ")) {
            int equals = pair.indexOf('=');
            if (equals > 0) {
                ports.put(pair.substring(0, equals), Integer.parseInt(pair.substring(equals + 1)));
            }
        }
    }

    /** Reads the log of an application, which would block when the pipe is full. */
    private static void discard(BufferedReader out) {
        try {
            out.transferTo(Writer.nullWriter());
        } catch (IOException e) {
            // the process has ended
        }
    }

    /** The tests' class path without the SDK. */
    private static String classPath() {
        return Arrays.stream(System.getProperty("java.class.path").split(File.pathSeparator))
                .filter(part -> !part.contains("faultloom") && !part.matches(".*/(core|hooks|agent)/target/classes/?"))
                .filter(part -> !part.matches(".*/(core|hooks)/target/.*"))
                .filter(part -> RUNS_SPRING || !part.contains("/spring-boot-")) // has a plug-in of the logging library
                .collect(Collectors.joining(File.pathSeparator)) + File.pathSeparator + Path.of("target", "test-classes").toAbsolutePath();
    }

    /** {@code host:port} of one of its servers. */
    String address(String server) {
        return "127.0.0.1:" + ports.get(server);
    }

    long pid() {
        return process.pid();
    }

    /** Its standard error so far. */
    String errors() throws IOException {
        return Files.readString(errors);
    }

    /** Stops it and returns its standard error. */
    String stop() throws IOException {
        close();
        return Files.readString(errors);
    }

    @Override
    public void close() throws IOException {
        process.getOutputStream().close();
        try {
            if (!process.waitFor(5, java.util.concurrent.TimeUnit.SECONDS)) {
                process.destroyForcibly().waitFor();
            }
        } catch (InterruptedException e) {
            process.destroyForcibly();
            Thread.currentThread().interrupt();
        }
        errors.toFile().deleteOnExit();
    }
}
