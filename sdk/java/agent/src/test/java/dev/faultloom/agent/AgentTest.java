package dev.faultloom.agent;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertNotNull;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertTrue;

import dev.faultloom.wire.Fault;
import dev.faultloom.wire.FaultKind;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import java.util.stream.Collectors;
import java.util.stream.Stream;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

/** Start of the agent, other agents, and its reports. */
final class AgentTest {
    private static final Path TEST_JARS = Path.of("target", "test-jars").toAbsolutePath();
    private static final String NOWHERE = "grpc nowhere.invalid:1 Run x";
    private static final Fault FAULT = Fault.of(FaultKind.STATUS).arg(5);

    @TempDir
    Path folder;

    private static void assertWorks(Peer peer) throws Exception {
        try (GrpcDriver driver = new GrpcDriver(peer.address("grpc"))) {
            GrpcDriver.Reply reply = driver.send("Run", "in pool " + NOWHERE, FAULT);
            assertEquals("NOT_FOUND status 5 injected by Faultloom", reply.text());
            assertEquals(List.of("/t.T/Run > nowhere.invalid:1: replied 5 fault 0"), Calls.of(reply.segment));
            assertNotNull(reply.field);
        }
        HttpDriver http = new HttpDriver(peer.address("http"));
        assertEquals("hello", http.plain("POST", "/run", "say hello").text());
        HttpDriver.Reply reply = http.send("POST", "/run", "http jdk-async GET http://nowhere.invalid/x", Fault.of(FaultKind.STATUS).arg(503));
        assertEquals("503 ", reply.text());
        assertEquals(List.of("GET /x > nowhere.invalid:80: replied 503 fault 0"), Calls.of(reply.segment));
    }

    /** Asserts that a peer returns no history and that no fault fires. */
    private static void assertInactive(Peer peer) throws Exception {
        try (GrpcDriver driver = new GrpcDriver(peer.address("grpc"))) {
            GrpcDriver.Reply reply = driver.send("Run", NOWHERE, FAULT);
            assertTrue(reply.text().startsWith("UNAVAILABLE"), reply.text());
            assertNull(reply.segment);
            assertNull(reply.trailer);
        }
        assertEquals("none", new HttpDriver(peer.address("http")).send("POST", "/run", "say hello").carrier);
    }

    private String statusFile() throws IOException {
        try (Stream<Path> files = Files.list(folder)) {
            List<Path> all = files.collect(Collectors.toList());
            assertEquals(1, all.size(), all.toString());
            return Files.readString(all.get(0));
        }
    }

    @Test
    void statusFileListsHookedLibraries() throws Exception {
        try (Peer peer = Peer.traced("one/two").with("FAULTLOOM_STATUS", folder.toString()).start("grpc", "http")) {
            assertWorks(peer);
            assertTrue(Files.exists(folder.resolve("one_two." + peer.pid() + ".json")));
            String status = statusFile();
            assertTrue(status.contains("\"trust\":\"keys\""), status);
            assertTrue(status.contains("{\"name\":\"grpc-java\",\"version\":\"1.83.1\",\"state\":\"hooked\",\"reason\":\"\"}"), status);
            assertTrue(status.contains("\"name\":\"com.sun.net.httpserver\""), status);
        }
    }

    @Test
    void withoutTrustSettingsNothingIsHooked() throws Exception {
        try (Peer peer = Peer.traced("front").without("FAULTLOOM_TRUST").with("FAULTLOOM_STATUS", folder.toString()).start("grpc", "http")) {
            assertInactive(peer);
            String status = statusFile();
            assertTrue(status.contains("\"trust\":\"no trust settings\",\"libraries\":[]"), status);
        }
    }

    @Test
    void envelopesOfOtherKeysAreIgnored() throws Exception {
        String other = "environment test;key fault f1 " + "99".repeat(32) + ";faults on";
        try (Peer peer = Peer.traced("front").with("FAULTLOOM_TRUST", other).start("grpc", "http")) {
            assertInactive(peer);
        }
    }

    @Test
    void trustFileThatAppearsLaterIsUsed() throws Exception {
        Path trust = folder.resolve("trust");
        try (Peer peer = Peer.traced("front").without("FAULTLOOM_TRUST").with("FAULTLOOM_TRUST_FILE", trust.toString()).start("grpc", "http")) {
            assertInactive(peer);
            Files.writeString(trust, Requests.TRUST.replace(';', '\n'));
            long end = System.nanoTime() + 10_000_000_000L;
            try (GrpcDriver driver = new GrpcDriver(peer.address("grpc"))) {
                while (driver.send("Run", "say x").segment == null) {
                    assertTrue(System.nanoTime() < end, "the file was not read");
                    Thread.sleep(20);
                }
            }
            assertWorks(peer);
        }
    }

    @Test
    void secondAgentDoesNothingAndReportsIt() throws Exception {
        Path copy = Files.copy(Peer.AGENT, folder.resolve("copy.jar"));
        try (Peer peer = Peer.traced("front").agent().option("-javaagent:" + copy).start("grpc", "http")) {
            assertWorks(peer);
            String errors = peer.errors();
            assertEquals(2, errors.split("the agent is loaded already; this second one does nothing", -1).length - 1, errors);
        }
    }

    @Test
    void agentWritesNoFilesAndNeedsNoHome() throws Exception {
        Path nowhere = folder.resolve("not-there");
        try (Peer peer = Peer.traced("front").without("HOME").option("-Duser.home=" + nowhere, "-Djava.io.tmpdir=" + nowhere)
                .with("FAULTLOOM_STATUS", nowhere.toString()).start("grpc", "http")) {
            assertWorks(peer);
            assertFalse(peer.errors().contains("faultloom:"), peer.errors());
        }
    }

    @ParameterizedTest
    @ValueSource(booleans = {true, false})
    void worksWithTheOpenTelemetryAgent(boolean first) throws Exception {
        String other = "-javaagent:" + TEST_JARS.resolve("opentelemetry-javaagent.jar");
        Peer.Plan plan = Peer.stock().with("FAULTLOOM_SERVICE", "front").with("FAULTLOOM_TRUST", Requests.TRUST).option(
                "-Dotel.traces.exporter=none", "-Dotel.metrics.exporter=none", "-Dotel.logs.exporter=none");
        plan = first ? plan.agent().option(other) : plan.option(other).agent();
        try (Peer peer = plan.start("grpc", "http", "tomcat")) {
            assertTrue(peer.errors().contains("opentelemetry-javaagent"), "the other agent is not running: " + peer.errors());
            assertWorks(peer);
            HttpDriver.Reply reply = new HttpDriver(peer.address("tomcat")).send("POST", "/run", NOWHERE, FAULT);
            assertEquals(List.of("/t.T/Run > nowhere.invalid:1: replied 5 fault 0"), Calls.of(reply.segment));
        }
    }

    @Test
    void unsupportedVersionIsRefusedByName() throws Exception {
        try (Peer peer = Peer.traced("front").instead(".*/(okhttp|okio)[^/]*", TEST_JARS.resolve("okhttp.jar"), TEST_JARS.resolve("okio.jar"))
                .with("FAULTLOOM_STATUS", folder.toString()).start("grpc", "http")) {
            HttpDriver http = new HttpDriver(peer.address("http"));
            HttpDriver.Reply reply = http.send("POST", "/run", "http okhttp GET http://" + peer.address("http") + "/x", Fault.of(FaultKind.STATUS).arg(503));
            assertEquals("200 /x", reply.text());
            assertEquals(List.of(), Calls.of(reply.segment));
            assertWorks(peer);
            String errors = peer.errors();
            assertTrue(errors.contains("faultloom: okhttp 3.9.1 is not supported"), errors);
            assertTrue(statusFile().contains("{\"name\":\"okhttp\",\"version\":\"3.9.1\",\"state\":\"refused\""), statusFile());
        }
    }

    @Test
    void unsupportedSpringIsRefusedByName() throws Exception {
        Path[] jars = Stream.of("core", "beans", "web", "webflux").map(name -> TEST_JARS.resolve("spring-" + name + ".jar")).toArray(Path[]::new);
        try (Peer peer = Peer.traced("front").instead(".*/spring-(core|beans|web|webflux)-[^/]*", jars)
                .with("FAULTLOOM_STATUS", folder.toString()).start("grpc", "http", "webflux")) {
            HttpDriver webFlux = new HttpDriver(peer.address("webflux"));
            assertEquals("hello", webFlux.plain("POST", "/run", "say hello").text());
            HttpDriver.Reply reply = webFlux.send("POST", "/run", "say hello");
            assertEquals("hello", reply.text());
            assertEquals("none", reply.carrier);
            HttpDriver http = new HttpDriver(peer.address("http"));
            reply = http.send("POST", "/run", "http webclient-text GET http://" + peer.address("webflux") + "/x", Fault.of(FaultKind.STATUS).arg(503));
            assertEquals("/x", reply.text());
            assertEquals(List.of(), Calls.of(reply.segment));
            assertWorks(peer);
            String errors = peer.errors();
            for (String library : List.of("spring-web", "spring-webflux")) {
                assertEquals(2, errors.split("faultloom: " + library + " 5.3.39 is not supported", -1).length, errors);
                assertTrue(statusFile().contains("{\"name\":\"" + library + "\",\"version\":\"5.3.39\",\"state\":\"refused\""), statusFile());
            }
        }
    }
}
