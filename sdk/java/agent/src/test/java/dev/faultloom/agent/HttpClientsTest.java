package dev.faultloom.agent;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;

import dev.faultloom.wire.Fault;
import dev.faultloom.wire.FaultKind;
import dev.faultloom.wire.Segment;
import java.net.ServerSocket;
import java.util.List;
import java.util.stream.Stream;
import org.junit.jupiter.api.AfterAll;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.Arguments;
import org.junit.jupiter.params.provider.MethodSource;
import org.junit.jupiter.params.provider.ValueSource;

/** Requirements on every HTTP client. */
final class HttpClientsTest {
    private static final List<String> CLIENTS = Peer.RUNS_SPRING
            ? List.of("jdk", "jdk-async", "jdk-stream", "okhttp", "okhttp-async", "url", "webclient", "webclient-flux")
            : List.of("jdk", "jdk-async", "jdk-stream", "okhttp", "okhttp-async", "url");

    private static Peer back;
    private static Peer stock;
    private static Peer front;
    private static HttpDriver driver;

    @BeforeAll
    static void start() throws Exception {
        back = Peer.traced("back").start(Peer.HTTP);
        stock = Peer.stock().start(Peer.HTTP);
        front = Peer.traced("front").with("FAULTLOOM_PEERS", back.address(Peer.HTTP) + "=back," + stock.address(Peer.HTTP) + "=stock").start(Peer.HTTP);
        driver = new HttpDriver(front.address(Peer.HTTP));
    }

    @AfterAll
    static void stop() throws Exception {
        front.close();
        stock.close();
        back.close();
    }

    static List<String> clients() {
        return CLIENTS;
    }

    private static String call(Peer to, String client, String path) {
        return "http " + client + " GET http://" + to.address(Peer.HTTP) + path;
    }

    @ParameterizedTest
    @MethodSource("clients")
    void historyReturnsWithEveryCarrier(String client) throws Exception {
        for (String path : new String[] {"/x", "/big/100000", "/binary/200000", "/chunked/70000", "/flushed/9000", "/status/404", "/status/204"}) {
            String plain = driver.plain("POST", "/run", call(back, client, path)).text();
            HttpDriver.Reply reply = driver.send("POST", "/run", call(back, client, path));
            assertEquals(plain, reply.text(), path);
            int status = path.startsWith("/status/") ? Integer.parseInt(path.substring(8)) : 200;
            String recorded = path.replaceFirst("/[0-9]+$", "/{id}");
            assertEquals(List.of("GET " + recorded + " > back: replied " + status + " child back"), Calls.of(reply.segment), path);
        }
    }

    @ParameterizedTest
    @MethodSource("clients")
    void longHistoryFollowsTheBody(String client) throws Exception {
        String script = "http " + client + " POST http://" + back.address(Peer.HTTP) + "/fan/300 grpc nowhere.invalid:1 Run x";
        HttpDriver.Reply reply = driver.send("POST", "/run", script, Fault.of(FaultKind.STATUS).arg(5).callee("nowhere.invalid:1"));
        assertEquals("200 done", reply.text());
        assertEquals(300, Calls.of(Calls.child(reply.segment, 1)).size());
    }

    @ParameterizedTest
    @MethodSource("clients")
    void peerWithoutSdkIsAGapAndUnchanged(String client) throws Exception {
        for (String path : new String[] {"/x", "/big/3000000"}) {
            String plain = driver.plain("POST", "/run", call(stock, client, path)).text();
            HttpDriver.Reply reply = driver.send("POST", "/run", call(stock, client, path));
            assertEquals(plain, reply.text());
            assertTrue(Calls.of(reply.segment).get(0).endsWith("> stock: replied 200 gap"), Calls.of(reply.segment).toString());
        }
    }

    @ParameterizedTest
    @MethodSource("clients")
    void firstCallOnAConnectionHasTheTimeForIt(String client) throws Exception {
        boolean isMeasured = client.startsWith("okhttp"); // the JDK's clients do not expose it
        try (Peer fresh = Peer.traced("fresh").start(Peer.HTTP)) {
            String script = call(fresh, client, "/x") + "\n" + call(fresh, client, "/x");
            List<Long> times = Calls.connectTimes(driver.send("POST", "/run", script).segment);
            assertEquals(2, times.size());
            assertEquals(isMeasured, times.get(0) > 0, times.toString());
            assertEquals(0, times.get(1), times.toString());
        }
    }

    @ParameterizedTest
    @ValueSource(strings = {"okhttp", "okhttp-async"})
    void callThatCannotConnectHasTheTimeForIt(String client) throws Exception {
        int port;
        try (ServerSocket closed = new ServerSocket(0)) {
            port = closed.getLocalPort();
        }
        String script = "http " + client + " GET http://127.0.0.1:" + port + "/x";
        Segment segment = driver.send("POST", "/run", script).segment;
        assertEquals(List.of("GET /x > 127.0.0.1:" + port + ": failed 14 gap"), Calls.of(segment));
        assertTrue(Calls.connectTimes(segment).get(0) > 0);
    }

    @Test
    void listenersOfTheApplicationGetTheSameEvents() throws Exception {
        String plain = driver.plain("POST", "/run", call(stock, "okhttp-events", "/x")).text();
        HttpDriver.Reply reply = driver.send("POST", "/run", call(stock, "okhttp-events", "/x"));
        assertEquals(plain, reply.text());
        assertTrue(plain.contains("connectEnd /127.0.0.1") && plain.contains("callEnd"), plain);
        assertTrue(Calls.connectTimes(reply.segment).get(0) > 0);
    }

    static Stream<Arguments> faults() {
        return CLIENTS.stream().flatMap(client -> Stream.of(
                Arguments.of(client, Fault.of(FaultKind.UNAVAILABLE), "java.net.ConnectException", "failed 14 fault 0"),
                Arguments.of(client, Fault.of(FaultKind.STATUS).arg(503), "503 ", "replied 503 fault 0"),
                Arguments.of(client, Fault.of(FaultKind.STATUS).arg(7), "500 ", "replied 7 fault 0"),
                Arguments.of(client, Fault.of(FaultKind.DEADLINE), "imeout", "failed 4 fault 0"),
                Arguments.of(client, Fault.of(FaultKind.RESET), "Connection reset", "failed 14 fault 0"),
                Arguments.of(client, Fault.of(FaultKind.DELAY).arg(200), "200 /x", "replied 200 fault 0 child back"),
                Arguments.of(client, Fault.of(FaultKind.HANG).arg(200), "imeout", "failed 4 fault 0"),
                Arguments.of(client, Fault.of(FaultKind.LOST_REPLY), "Connection reset", "failed 14 fault 0 child back"),
                Arguments.of(client, Fault.of(FaultKind.EMPTY_REPLY), "200 ", "replied 200 fault 0 child back"),
                Arguments.of(client, Fault.of(FaultKind.CORRUPT_REPLY), "200 /\uFFFD", "replied 200 fault 0 child back")));
    }

    @ParameterizedTest
    @MethodSource("faults")
    void faultReachesTheCallerAndIsRecorded(String client, Fault fault, String expectedReply, String recorded) throws Exception {
        String script = call(back, client, "/x");
        assertEquals("200 /x", driver.send("POST", "/run", script).text(), "healthy");
        HttpDriver.Reply reply = driver.send("POST", "/run", script, fault.callee("back"));
        assertTrue(reply.text().contains(expectedReply), reply.text());
        assertFalse(fault.kind == FaultKind.EMPTY_REPLY && !reply.text().equals("200 "), reply.text());
        assertEquals(List.of("GET /x > back: " + recorded), Calls.of(reply.segment));
        assertEquals("200 /x", driver.send("POST", "/run", script).text(), "healthy again");
    }

    @ParameterizedTest
    @MethodSource("clients")
    void delayEndsAtTheCallersDeadline(String client) throws Exception {
        HttpDriver.Reply reply = driver.send("POST", "/run", call(back, client, "/x@150"), Fault.of(FaultKind.DELAY).arg(20_000).callee("back"));
        assertTrue(reply.text().contains("imeout"), reply.text());
        assertEquals(List.of("GET /x > back: failed 4 fault 0"), Calls.of(reply.segment));
    }
}
