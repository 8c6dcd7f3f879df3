package dev.faultloom.agent;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNotNull;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertTrue;

import dev.faultloom.wire.Event;
import dev.faultloom.wire.Fault;
import dev.faultloom.wire.Kind;
import io.grpc.Status;
import java.util.List;
import org.junit.jupiter.api.AfterAll;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.Test;

/** Unary gRPC between unchanged applications with the agent. */
final class GrpcTest {
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

    private static String call(String method, String request) {
        return "grpc " + back.address("grpc") + " " + method + " " + request;
    }

    @Test
    void aHistoryOfBothServicesComesBack() throws Exception {
        GrpcDriver.Reply reply = driver.send("Run", call("Run", "say hello"));
        assertEquals("OK hello", reply.text());
        assertEquals("front", reply.segment.service);
        assertEquals(List.of("/t.T/Run > back: replied 0 child back"), Calls.of(reply.segment));
        assertNotNull(reply.field);
        assertNull(reply.trailer);
    }

    @Test
    void aRequestWithoutEnvelopeGetsNothingAdded() throws Exception {
        GrpcDriver.Reply reply = driver.plain("Run", call("Run", "say hello"));
        assertEquals("OK hello", reply.text());
        assertNull(reply.segment);
        assertNull(reply.field);
        assertNull(reply.trailer);
    }

    private void disturbed(Fault fault, String seen, String recorded) throws Exception {
        String script = call("Run", "say hello");
        assertEquals("OK hello", driver.send("Run", script).text(), "healthy");
        GrpcDriver.Reply reply = driver.send("Run", script, fault.callee("back"));
        assertEquals(seen, reply.text());
        assertEquals(List.of("/t.T/Run > back: " + recorded), Calls.of(reply.segment));
        assertEquals("OK hello", driver.send("Run", script).text(), "healthy again");
    }

    @Test
    void unavailable() throws Exception {
        disturbed(Fault.of(Kind.UNAVAILABLE), "UNAVAILABLE io exception", "failed 14 fault 0");
    }

    @Test
    void status() throws Exception {
        disturbed(Fault.of(Kind.STATUS).arg(7), "PERMISSION_DENIED status 7 injected by Faultloom", "replied 7 fault 0");
    }

    @Test
    void deadline() throws Exception {
        disturbed(Fault.of(Kind.DEADLINE), "DEADLINE_EXCEEDED deadline exceeded", "failed 4 fault 0");
    }

    @Test
    void reset() throws Exception {
        disturbed(Fault.of(Kind.RESET), "UNAVAILABLE io exception", "failed 14 fault 0");
    }

    @Test
    void delay() throws Exception {
        long begun = System.nanoTime();
        disturbed(Fault.of(Kind.DELAY).arg(300), "OK hello", "replied 0 fault 0 child back");
        assertTrue(System.nanoTime() - begun >= 300_000_000L);
    }

    @Test
    void hang() throws Exception {
        disturbed(Fault.of(Kind.HANG).arg(200), "DEADLINE_EXCEEDED deadline exceeded", "failed 4 fault 0");
    }

    @Test
    void lostReply() throws Exception {
        disturbed(Fault.of(Kind.LOST_REPLY), "UNAVAILABLE Network closed for unknown reason", "failed 14 fault 0 child back");
    }

    @Test
    void emptyReply() throws Exception {
        disturbed(Fault.of(Kind.EMPTY_REPLY), "OK ", "replied 0 fault 0 child back");
    }

    @Test
    void corruptReply() throws Exception {
        disturbed(Fault.of(Kind.CORRUPT_REPLY), "CANCELLED Failed to read message.", "replied 0 fault 0 child back");
    }

    @Test
    void anErrorBringsItsHistoryInTheTrailer() throws Exception {
        GrpcDriver.Reply reply = driver.send("Fail", "5");
        assertEquals(Status.Code.NOT_FOUND, reply.status.getCode());
        assertEquals("asked for", reply.status.getDescription());
        assertEquals("trailer", reply.trailers.get(io.grpc.Metadata.Key.of("own", io.grpc.Metadata.ASCII_STRING_MARSHALLER)));
        assertNotNull(reply.trailer);
        assertEquals(5, reply.segment.events.get(reply.segment.events.size() - 1).status);
        GrpcDriver.Reply through = driver.send("Run", call("Fail", "5"));
        assertEquals("NOT_FOUND asked for", through.text());
        assertEquals(List.of("/t.T/Fail > back: replied 5 child back"), Calls.of(through.segment));
    }

    @Test
    void aHandlerThatThrowsIsRecorded() throws Exception {
        GrpcDriver.Reply reply = driver.send("Throw", "");
        assertEquals(Status.Code.UNKNOWN, reply.status.getCode());
        assertEquals(driver.plain("Throw", "").status.getDescription(), reply.status.getDescription());
        assertEquals(2, reply.segment.events.get(reply.segment.events.size() - 1).status);
    }

    @Test
    void aHandlerThatThrowsAfterItsAnswerHasAnswered() throws Exception {
        GrpcDriver.Reply reply = driver.send("FailAndThrow", "5");
        assertEquals(Status.Code.NOT_FOUND, reply.status.getCode());
        assertEquals("asked for", reply.status.getDescription());
        assertEquals(5, reply.segment.events.get(reply.segment.events.size() - 1).status);
    }

    @Test
    void messagesUpToTheReceiveLimitArriveAndBringTheirHistory() throws Exception {
        for (int size : new int[] {0, 1, 100_000, (4 << 20) - 10_000, (4 << 20) - 20, (4 << 20) - 5}) {
            GrpcDriver.Reply reply = driver.send("Run", call("Big", Integer.toString(size)));
            assertTrue(reply.text().startsWith("OK"), reply.text());
            assertEquals(List.of("/t.T/Big > back: replied 0 child back"), Calls.of(reply.segment), "size " + size);
        }
    }

    @Test
    void aPeerWithoutSdkIsAGapAndNotDisturbed() throws Exception {
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
    void fiveThousandEventsComeBackInTheField() throws Exception {
        String many = "grpc nowhere.invalid:1 Run x|".repeat(2500);
        Fault nowhere = Fault.of(Kind.STATUS).arg(5).callee("nowhere.invalid:1");
        GrpcDriver.Reply reply = driver.send("Run", call("Run", many), nowhere);
        assertEquals(2500, Calls.child(reply.segment, 1).events.stream().filter(event -> event.kind == Event.SEND_REQUEST).count());
        assertTrue(!Calls.child(reply.segment, 1).truncated);
    }

    @Test
    void whatFollowsAnAnswerBelongsToTheRequest() throws Exception {
        GrpcDriver.Reply reply = driver.send("Run", "twice " + back.address("grpc") + " Big 3");
        assertEquals(2, reply.segment.events.stream().filter(event -> event.kind == Event.SEND_REQUEST).count());
    }
}
