package dev.faultloom.agent;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNotNull;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertTrue;

import dev.faultloom.wire.Event;
import dev.faultloom.wire.Fault;
import dev.faultloom.wire.FaultKind;
import io.grpc.Status;
import java.util.List;
import org.junit.jupiter.api.AfterAll;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.TestInstance;

/** Requirements on unary gRPC between unchanged applications with the agent, for each transport. */
@TestInstance(TestInstance.Lifecycle.PER_CLASS)
abstract class GrpcCalls {
    private final String netty;
    private Peer back;
    private Peer stock;
    private Peer front;
    private GrpcDriver driver;

    /** {@code netty}: {@code shaded} or {@code unshaded}. */
    GrpcCalls(String netty) {
        this.netty = netty;
    }

    @BeforeAll
    void start() throws Exception {
        String option = "-Dpeer.netty=" + netty;
        back = Peer.traced("back").option(option).start("grpc");
        stock = Peer.stock().option(option).start("grpc");
        front = Peer.traced("front").option(option)
                .with("FAULTLOOM_PEERS", back.address("grpc") + "=back," + stock.address("grpc") + "=stock").start("grpc");
        driver = new GrpcDriver(front.address("grpc"));
    }

    @AfterAll
    void stop() throws Exception {
        driver.close();
        front.close();
        stock.close();
        back.close();
    }

    GrpcDriver driver() {
        return driver;
    }

    Peer back() {
        return back;
    }

    private String call(String method, String request) {
        return "grpc " + back.address("grpc") + " " + method + " " + request;
    }

    @Test
    void historyOfBothServicesReturns() throws Exception {
        GrpcDriver.Reply reply = driver.send("Run", call("Run", "say hello"));
        assertEquals("OK hello", reply.text());
        assertEquals("front", reply.segment.service);
        assertEquals(List.of("/t.T/Run > back: replied 0 child back"), Calls.of(reply.segment));
        assertNotNull(reply.field);
        assertNull(reply.trailer);
    }

    @Test
    void requestWithoutEnvelopeGetsAnUnchangedReply() throws Exception {
        GrpcDriver.Reply reply = driver.plain("Run", call("Run", "say hello"));
        assertEquals("OK hello", reply.text());
        assertNull(reply.segment);
        assertNull(reply.field);
        assertNull(reply.trailer);
    }

    private void assertFault(Fault fault, String expectedReply, String recorded) throws Exception {
        String script = call("Run", "say hello");
        assertEquals("OK hello", driver.send("Run", script).text(), "healthy");
        GrpcDriver.Reply reply = driver.send("Run", script, fault.callee("back"));
        assertEquals(expectedReply, reply.text());
        assertEquals(List.of("/t.T/Run > back: " + recorded), Calls.of(reply.segment));
        assertEquals("OK hello", driver.send("Run", script).text(), "healthy again");
    }

    @Test
    void unavailable() throws Exception {
        assertFault(Fault.of(FaultKind.UNAVAILABLE), "UNAVAILABLE io exception", "failed 14 fault 0");
    }

    @Test
    void status() throws Exception {
        assertFault(Fault.of(FaultKind.STATUS).arg(7), "PERMISSION_DENIED status 7 injected by Faultloom", "replied 7 fault 0");
    }

    @Test
    void deadline() throws Exception {
        assertFault(Fault.of(FaultKind.DEADLINE), "DEADLINE_EXCEEDED deadline exceeded", "failed 4 fault 0");
    }

    @Test
    void reset() throws Exception {
        assertFault(Fault.of(FaultKind.RESET), "UNAVAILABLE io exception", "failed 14 fault 0");
    }

    @Test
    void delay() throws Exception {
        long start = System.nanoTime();
        assertFault(Fault.of(FaultKind.DELAY).arg(300), "OK hello", "replied 0 fault 0 child back");
        assertTrue(System.nanoTime() - start >= 300_000_000L);
    }

    @Test
    void hang() throws Exception {
        assertFault(Fault.of(FaultKind.HANG).arg(200), "DEADLINE_EXCEEDED deadline exceeded", "failed 4 fault 0");
    }

    @Test
    void lostReply() throws Exception {
        assertFault(Fault.of(FaultKind.LOST_REPLY), "UNAVAILABLE Network closed for unknown reason", "failed 14 fault 0 child back");
    }

    @Test
    void emptyReply() throws Exception {
        assertFault(Fault.of(FaultKind.EMPTY_REPLY), "OK ", "replied 0 fault 0 child back");
    }

    @Test
    void corruptReply() throws Exception {
        assertFault(Fault.of(FaultKind.CORRUPT_REPLY), "CANCELLED Failed to read message.", "replied 0 fault 0 child back");
    }

    @Test
    void errorCarriesItsHistoryInTheTrailer() throws Exception {
        GrpcDriver.Reply reply = driver.send("Fail", "5");
        assertEquals(Status.Code.NOT_FOUND, reply.status.getCode());
        assertEquals("requested failure", reply.status.getDescription());
        assertEquals("trailer", reply.trailers.get(io.grpc.Metadata.Key.of("own", io.grpc.Metadata.ASCII_STRING_MARSHALLER)));
        assertNotNull(reply.trailer);
        assertEquals(5, reply.segment.events.get(reply.segment.events.size() - 1).status);
        GrpcDriver.Reply through = driver.send("Run", call("Fail", "5"));
        assertEquals("NOT_FOUND requested failure", through.text());
        assertEquals(List.of("/t.T/Fail > back: replied 5 child back"), Calls.of(through.segment));
    }

    @Test
    void handlerThatThrowsIsRecorded() throws Exception {
        GrpcDriver.Reply reply = driver.send("Throw", "");
        assertEquals(Status.Code.UNKNOWN, reply.status.getCode());
        assertEquals(driver.plain("Throw", "").status.getDescription(), reply.status.getDescription());
        assertEquals(2, reply.segment.events.get(reply.segment.events.size() - 1).status);
    }

    @Test
    void exceptionAfterTheReplyDoesNotChangeTheReply() throws Exception {
        GrpcDriver.Reply reply = driver.send("FailAndThrow", "5");
        assertEquals(Status.Code.NOT_FOUND, reply.status.getCode());
        assertEquals("requested failure", reply.status.getDescription());
        assertEquals(5, reply.segment.events.get(reply.segment.events.size() - 1).status);
    }

    @Test
    void messagesUpToTheReceiveLimitArriveWithTheirHistory() throws Exception {
        for (int size : new int[] {0, 1, 100_000, (4 << 20) - 10_000, (4 << 20) - 20, (4 << 20) - 5}) {
            GrpcDriver.Reply reply = driver.send("Run", call("Big", Integer.toString(size)));
            assertTrue(reply.text().startsWith("OK"), reply.text());
            assertEquals(List.of("/t.T/Big > back: replied 0 child back"), Calls.of(reply.segment), "size " + size);
        }
    }

    @Test
    void peerWithoutSdkIsAGapAndUnchanged() throws Exception {
        for (String size : new String[] {"10", "3000000"}) {
            GrpcDriver.Reply reply = driver.send("Run", "grpc " + stock.address("grpc") + " Big " + size);
            assertTrue(reply.text().startsWith("OK"), reply.text());
            assertEquals(List.of("/t.T/Big > stock: replied 0 gap"), Calls.of(reply.segment));
        }
        GrpcDriver.Reply failed = driver.send("Run", "grpc " + stock.address("grpc") + " Fail 14");
        assertEquals(List.of("/t.T/Fail > stock: replied 14 gap"), Calls.of(failed.segment));
        GrpcDriver.Reply refused = driver.send("Run", "grpc 127.0.0.1:1 Run@2000 x");
        assertEquals(List.of("/t.T/Run > 127.0.0.1:1: failed 14 gap"), Calls.of(refused.segment));
    }

    @Test
    void fiveThousandEventsReturnInTheField() throws Exception {
        String many = "grpc nowhere.invalid:1 Run x|".repeat(2500);
        Fault nowhere = Fault.of(FaultKind.STATUS).arg(5).callee("nowhere.invalid:1");
        GrpcDriver.Reply reply = driver.send("Run", call("Run", many), nowhere);
        assertEquals(2500, Calls.child(reply.segment, 1).events.stream().filter(event -> event.kind == Event.SEND_REQUEST).count());
        assertTrue(!Calls.child(reply.segment, 1).truncated);
    }

    @Test
    void callsFromAReplyCallbackBelongToTheRequest() throws Exception {
        GrpcDriver.Reply reply = driver.send("Run", "twice " + back.address("grpc") + " Big 3");
        assertEquals(2, reply.segment.events.stream().filter(event -> event.kind == Event.SEND_REQUEST).count());
    }
}
