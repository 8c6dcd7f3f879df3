package dev.faultloom.agent;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import dev.faultloom.wire.Fault;
import dev.faultloom.wire.FaultKind;
import java.util.List;
import org.junit.jupiter.api.AfterAll;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

/** Every HTTP client over TLS. */
final class HttpClientsTlsTest {
    private static Peer back;
    private static Peer front;
    private static HttpDriver driver;

    @BeforeAll
    static void start() throws Exception {
        String[] options = Certificate.create().options();
        back = Peer.traced("back").option(options).start("tomcat-tls");
        front = Peer.traced("front").option(options).with("FAULTLOOM_PEERS", back.address("tomcat-tls") + "=back").start("http");
        driver = new HttpDriver(front.address("http"));
    }

    @AfterAll
    static void stop() throws Exception {
        front.close();
        back.close();
    }

    private static String call(String client, String path) {
        return "http " + client + " GET https://" + back.address("tomcat-tls") + path;
    }

    @ParameterizedTest
    @ValueSource(strings = {"jdk", "jdk-async", "jdk-stream", "okhttp", "okhttp-async", "url", "url-connect", "webclient", "webclient-flux"})
    void historyReturnsAndFaultsReachTheCaller(String client) throws Exception {
        for (String path : new String[] {"/x", "/binary/200000", "/flushed/9000", "/status/404"}) {
            String plain = driver.plain("POST", "/run", call(client, path)).text();
            HttpDriver.Reply reply = driver.send("POST", "/run", call(client, path));
            assertEquals(plain, reply.text(), path);
            assertTrue(plain.startsWith(path.startsWith("/status") ? "404 " : "200 "), plain);
            String recorded = path.replaceFirst("/[0-9]+$", "/{id}");
            assertEquals(List.of("GET " + recorded + " > back: replied " + plain.substring(0, 3) + " child back"), Calls.of(reply.segment), path);
        }
        assertFault(client, Fault.of(FaultKind.UNAVAILABLE), "java.net.ConnectException", "failed 14 fault 0");
        assertFault(client, Fault.of(FaultKind.STATUS).arg(503), "503 ", "replied 503 fault 0");
        assertFault(client, Fault.of(FaultKind.DELAY).arg(20), "200 /x", "replied 200 fault 0 child back");
        assertFault(client, Fault.of(FaultKind.LOST_REPLY), "Connection reset", "failed 14 fault 0 child back");
        assertFault(client, Fault.of(FaultKind.CORRUPT_REPLY), "200 /\uFFFD", "replied 200 fault 0 child back");
        assertEquals("200 /x", driver.send("POST", "/run", call(client, "/x")).text(), "healthy again");
    }

    private static void assertFault(String client, Fault fault, String expectedReply, String recorded) throws Exception {
        HttpDriver.Reply reply = driver.send("POST", "/run", call(client, "/x"), fault.callee("back"));
        assertTrue(reply.text().contains(expectedReply), reply.text());
        assertEquals(List.of("GET /x > back: " + recorded), Calls.of(reply.segment));
    }
}
