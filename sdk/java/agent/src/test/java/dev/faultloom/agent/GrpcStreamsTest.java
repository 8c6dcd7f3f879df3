package dev.faultloom.agent;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import dev.faultloom.wire.Fault;
import dev.faultloom.wire.FaultKind;
import dev.faultloom.wire.Segment;
import java.util.List;
import java.util.stream.Stream;
import org.junit.jupiter.api.AfterAll;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.Arguments;
import org.junit.jupiter.params.provider.MethodSource;
import org.junit.jupiter.params.provider.ValueSource;

/** gRPC streams between unchanged applications with the agent. */
final class GrpcStreamsTest {
    private static final Fault NOWHERE = Fault.of(FaultKind.STATUS).arg(5).callee("nowhere.invalid:1");
    private static final String CALL = "grpc nowhere.invalid:1 Run x";

    private static Peer back;
    private static Peer stock;
    private static Peer front;
    private static GrpcDriver driver;

    @BeforeAll
    static void start() throws Exception {
        back = Peer.traced("back").start("grpc");
        stock = Peer.stock().start("grpc");
        front = Peer.traced("front").with("FAULTLOOM_PEERS", back.address("grpc") + "=back," + stock.address("grpc") + "=stock").start("grpc");
        driver = new GrpcDriver(front.address("grpc"));
    }

    @AfterAll
    static void stop() throws Exception {
        driver.close();
        front.close();
        stock.close();
        back.close();
    }

    private static String stream(Peer to, String method, String lines) {
        return "stream " + to.address("grpc") + " " + method + " " + lines;
    }

    @ParameterizedTest
    @ValueSource(strings = {"Down", "Up", "Both"})
    void historyOfAStreamIsJoinedFromItsPieces(String method) throws Exception {
        GrpcDriver.Reply reply = driver.send("Run", stream(back, method, "say one|" + CALL + "|say three"), NOWHERE);
        assertEquals("one+NOT_FOUND status 5 injected by Faultloom+three OK", reply.text());
        assertEquals(List.of("/t.T/" + method + " > back: replied 0 child back"), Calls.of(reply.segment));
        Segment child = Calls.child(reply.segment, 1);
        assertEquals(List.of("/t.T/Run > nowhere.invalid:1: replied 5 fault 0"), Calls.of(child));
        assertTrue(!child.truncated);
    }

    @Test
    void failedStreamReturnsItsHistory() throws Exception {
        GrpcDriver.Reply reply = driver.send("Run", stream(back, "Down", CALL + "|fail"), NOWHERE);
        assertEquals("NOT_FOUND status 5 injected by Faultloom ABORTED", reply.text());
        assertEquals(List.of("/t.T/Down > back: replied 10 child back"), Calls.of(reply.segment));
        assertEquals(1, Calls.of(Calls.child(reply.segment, 1)).size());
    }

    @Test
    void canceledStreamReturnsItsHistorySoFar() throws Exception {
        GrpcDriver.Reply reply = driver.send("Run", stream(back, "Down!", CALL + "|say two|in thread sleep 300|say three"), NOWHERE);
        assertTrue(reply.text().endsWith("CANCELLED"), reply.text());
        assertEquals(List.of("/t.T/Down > back: failed 1 child back"), Calls.of(reply.segment));
        assertEquals(1, Calls.of(Calls.child(reply.segment, 1)).size());
        assertTrue(Calls.child(reply.segment, 1).truncated);
    }

    @Test
    void streamThatIsOpenAtTheReplyIsRecordedAsCanceled() throws Exception {
        GrpcDriver.Reply reply = driver.send("Run", stream(back, "Down?", CALL + "|sleep 1000|say three"), NOWHERE);
        assertTrue(reply.text().endsWith("open"), reply.text());
        assertEquals(List.of("/t.T/Down > back: failed 1 child back"), Calls.of(reply.segment));
    }

    @ParameterizedTest
    @ValueSource(strings = {"Down", "Up", "Both"})
    void peerWithoutSdkIsAGapAndUnchanged(String method) throws Exception {
        GrpcDriver.Reply reply = driver.send("Run", stream(stock, method, "say one|say two"));
        assertEquals("one+two OK", reply.text());
        assertEquals(List.of("/t.T/" + method + " > stock: replied 0 gap"), Calls.of(reply.segment));
    }

    static Stream<Arguments> faults() {
        return Stream.of("Down", "Up", "Both").flatMap(method -> Stream.of(
                Arguments.of(method, Fault.of(FaultKind.UNAVAILABLE), " UNAVAILABLE", "failed 14 fault 0"),
                Arguments.of(method, Fault.of(FaultKind.STATUS).arg(7), " PERMISSION_DENIED", "replied 7 fault 0"),
                Arguments.of(method, Fault.of(FaultKind.DEADLINE), " DEADLINE_EXCEEDED", "failed 4 fault 0"),
                Arguments.of(method, Fault.of(FaultKind.RESET), " UNAVAILABLE", "failed 14 fault 0"),
                Arguments.of(method, Fault.of(FaultKind.DELAY).arg(200), "ok OK", "replied 0 fault 0 child back"),
                Arguments.of(method, Fault.of(FaultKind.HANG).arg(200), " DEADLINE_EXCEEDED", "failed 4 fault 0"),
                Arguments.of(method, Fault.of(FaultKind.LOST_REPLY), " UNAVAILABLE", "failed 14 fault 0 child back"),
                Arguments.of(method, Fault.of(FaultKind.EMPTY_REPLY), " OK", "replied 0 fault 0 child back")));
    }

    @ParameterizedTest
    @MethodSource("faults")
    void faultReachesTheCallerAndIsRecorded(String method, Fault fault, String expectedReply, String recorded) throws Exception {
        String script = stream(back, method, "say ok");
        assertEquals("ok OK", driver.send("Run", script).text(), "healthy");
        GrpcDriver.Reply reply = driver.send("Run", script, fault.callee("back"));
        assertEquals(expectedReply, reply.text());
        assertEquals(List.of("/t.T/" + method + " > back: " + recorded), Calls.of(reply.segment));
        assertEquals("ok OK", driver.send("Run", script).text(), "healthy again");
    }
}
