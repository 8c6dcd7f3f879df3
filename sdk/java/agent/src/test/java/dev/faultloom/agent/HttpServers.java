package dev.faultloom.agent;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertTrue;

import dev.faultloom.wire.Fault;
import dev.faultloom.wire.FaultKind;
import java.util.List;
import org.junit.jupiter.api.AfterAll;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.TestInstance;

/** Requirements on every HTTP server. */
@TestInstance(TestInstance.Lifecycle.PER_CLASS)
abstract class HttpServers {
    private static final String CALL = "grpc nowhere.invalid:1 Run x";
    private static final Fault REFUSED = Fault.of(FaultKind.STATUS).arg(5);

    private final String server;
    private Peer peer;
    private HttpDriver driver;

    HttpServers(String server) {
        this.server = server;
    }

    @BeforeAll
    void start() throws Exception {
        if (server.equals("https") || server.endsWith("-tls")) {
            Certificate certificate = Certificate.create();
            peer = Peer.traced("front").option(certificate.options()).start(server);
            driver = new HttpDriver(peer.address(server), certificate);
        } else {
            peer = Peer.traced("front").start(server);
            driver = new HttpDriver(peer.address(server));
        }
    }

    @AfterAll
    void stop() throws Exception {
        peer.close();
    }

    String address() {
        return peer.address(server);
    }

    HttpDriver driver() {
        return driver;
    }

    @Test
    void shortHistoryIsInAHeader() throws Exception {
        HttpDriver.Reply reply = driver.send("POST", "/run?x=1", "say hello");
        assertEquals("hello", reply.text());
        assertEquals("header", reply.carrier);
        assertEquals("front", reply.segment.service);
        assertEquals("POST /run", reply.segment.name);
        assertEquals("no-store, no-transform", reply.headers.firstValue("cache-control").orElse(""));
        assertTrue(reply.headers.allValues("vary").toString().contains("x-faultloom"));
        assertEquals("GET /things/{id}", driver.send("GET", "/things/4711", "").segment.name);
    }

    @Test
    void longHistoryFollowsTheBody() throws Exception {
        HttpDriver.Reply reply = driver.send("POST", "/fan/200", CALL, REFUSED);
        assertEquals("done", reply.text());
        assertEquals("tail", reply.carrier);
        assertEquals(200, Calls.of(reply.segment).size());
        HttpDriver.Reply without = driver.sendWithoutTail("POST", "/fan/200", CALL, REFUSED);
        assertEquals("done", without.text());
        assertEquals("header", without.carrier);
        assertTrue(without.segment.truncated);
    }

    @Test
    void longReplyAnnouncesItsTail() throws Exception {
        for (String path : new String[] {"/big/3000000", "/chunked/100000", "/flushed/20000", "/later/20000"}) {
            HttpDriver.Reply plain = driver.plain("POST", path, CALL);
            HttpDriver.Reply reply = driver.send("POST", path, CALL, REFUSED);
            assertArrayEquals(plain.body, reply.body, path);
            assertEquals("tail", reply.carrier, path);
            assertEquals(path.startsWith("/later") ? 1 : 0, Calls.of(reply.segment).size());
            HttpDriver.Reply without = driver.sendWithoutTail("POST", path, CALL, REFUSED);
            assertArrayEquals(plain.body, without.body, path);
            assertEquals("gap", without.carrier, path);
        }
        assertEquals("gap", driver.send("POST", "/events/20000", "").carrier);
    }

    @Test
    void everyStatusReturnsItsHistory() throws Exception {
        for (int status : new int[] {200, 201, 204, 404, 503}) {
            HttpDriver.Reply plain = driver.plain("GET", "/status/" + status, "");
            HttpDriver.Reply reply = driver.send("GET", "/status/" + status, "");
            assertEquals(status, reply.status);
            assertArrayEquals(plain.body, reply.body);
            assertEquals(status, reply.segment.events.get(0).status);
        }
        assertEquals("header", driver.send("HEAD", "/big/100", "").carrier);
    }

    @Test
    void requestWithoutEnvelopeGetsAnUnchangedReply() throws Exception {
        HttpDriver.Reply reply = driver.plain("POST", "/run", "say hello");
        assertEquals("hello", reply.text());
        assertNull(reply.segment);
        assertEquals("none", reply.carrier);
        assertFalse(reply.headers.map().keySet().stream().anyMatch(name -> name.startsWith("x-faultloom") || name.equals("vary")));
    }

    @Test
    void callsBelongToTheirRequest() throws Exception {
        assertEquals(List.of("/t.T/Run > nowhere.invalid:1: replied 5 fault 0"), Calls.of(driver.send("POST", "/run", CALL, REFUSED).segment));
        assertEquals("NOT_FOUND status 5 injected by Faultloom", driver.send("POST", "/run", CALL, REFUSED).text());
        assertTrue(driver.plain("POST", "/run", CALL).text().startsWith("UNAVAILABLE"));
    }
}
