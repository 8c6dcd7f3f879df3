package dev.faultloom.agent;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assumptions.assumeTrue;

import dev.faultloom.wire.Fault;
import dev.faultloom.wire.FaultKind;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import java.util.Optional;
import java.util.stream.Stream;
import org.junit.jupiter.api.AfterAll;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

/** A call on another thread belongs to the request that submitted the task. */
final class ThreadsTest {
    private static Peer peer;
    private static GrpcDriver driver;

    @BeforeAll
    static void start() throws Exception {
        peer = Peer.traced("front").start("grpc");
        driver = new GrpcDriver(peer.address("grpc"));
    }

    @AfterAll
    static void stop() throws Exception {
        driver.close();
        peer.close();
    }

    private static void assertScopeIsKept(GrpcDriver driver, String executor) throws Exception {
        assertCall(driver, executor, "");
    }

    /** {@code mark}: empty, or that the call is inherited. */
    private static void assertCall(GrpcDriver driver, String executor, String mark) throws Exception {
        GrpcDriver.Reply reply = driver.send("Run", "in " + executor + " grpc nowhere.invalid:1 Run x", Fault.of(FaultKind.STATUS).arg(5));
        assertEquals("NOT_FOUND status 5 injected by Faultloom", reply.text());
        assertEquals(List.of("/t.T/Run > nowhere.invalid:1: replied 5" + mark + " fault 0"), Calls.of(reply.segment));
    }

    @ParameterizedTest
    @ValueSource(strings = {"pool", "pool-execute", "invoke-all", "scheduled", "common-pool", "fork", "parallel-stream", "supply-async",
        "supply-async-pool", "then-apply-async", "then-apply", "then-compose-pool"})
    void taskKeepsTheScope(String executor) throws Exception {
        assertScopeIsKept(driver, executor);
    }

    @Test
    void virtualThreadsKeepTheScope() throws Exception {
        Optional<Path> java = newerJava();
        assumeTrue(java.isPresent(), "no Java with virtual threads is installed");
        try (Peer newer = Peer.traced("front").java(java.get().toString()).start("grpc");
                GrpcDriver to = new GrpcDriver(newer.address("grpc"))) {
            assertScopeIsKept(to, "virtual-thread");
            assertScopeIsKept(to, "pool");
            assertCall(to, "thread", " inherited");
        }
    }

    /** A Java of version 21 or newer: the current one, or one installed next to it. */
    private static Optional<Path> newerJava() throws Exception {
        Path own = Path.of(System.getProperty("java.home"));
        try (Stream<Path> homes = Stream.concat(Stream.of(own), Files.list(own.getParent()))) {
            return homes.filter(home -> version(home) >= 21).map(home -> home.resolve("bin/java")).findFirst();
        }
    }

    private static int version(Path home) {
        try {
            String text = Files.readString(home.resolve("release"));
            int at = text.indexOf("JAVA_VERSION=\"") + "JAVA_VERSION=\"".length();
            return Integer.parseInt(text.substring(at).split("[^0-9]", 2)[0]);
        } catch (Exception e) {
            return 0;
        }
    }
}
