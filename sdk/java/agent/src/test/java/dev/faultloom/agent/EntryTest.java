package dev.faultloom.agent;

import static java.nio.charset.StandardCharsets.UTF_8;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNotNull;
import static org.junit.jupiter.api.Assertions.assertTrue;

import com.sun.net.httpserver.HttpServer;
import dev.faultloom.wire.Accept;
import dev.faultloom.wire.Envelope;
import dev.faultloom.wire.Fault;
import dev.faultloom.wire.FaultKind;
import java.net.InetAddress;
import java.net.InetSocketAddress;
import java.nio.file.Path;
import java.util.List;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.TimeUnit;
import org.junit.jupiter.api.AfterAll;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

/** Entry sampling, and services in between that only run OpenTelemetry. */
final class EntryTest {
    private static final BlockingQueue<String> EXPORTED = new LinkedBlockingQueue<>();
    private static final String NOWHERE = "grpc nowhere.invalid:1 Run x";
    private static final Fault FAULT = Fault.of(FaultKind.STATUS).arg(5).callee("nowhere.invalid:1");

    private static HttpServer collector;

    @BeforeAll
    static void start() throws Exception {
        collector = HttpServer.create(new InetSocketAddress(InetAddress.getLoopbackAddress(), 0), 0);
        collector.createContext("/v1/traces", exchange -> {
            EXPORTED.add(new String(exchange.getRequestBody().readAllBytes(), UTF_8));
            exchange.sendResponseHeaders(200, -1);
            exchange.close();
        });
        collector.start();
    }

    @AfterAll
    static void stop() {
        collector.stop(0);
    }

    private static Peer.Plan exporting(String service) {
        return Peer.traced(service).with("FAULTLOOM_EXPORT", "http://127.0.0.1:" + collector.getAddress().getPort() + "/v1/traces");
    }

    private static String exported(String service) throws InterruptedException {
        String found;
        do {
            found = EXPORTED.poll(20, TimeUnit.SECONDS);
            assertNotNull(found, "no history of " + service + " was exported");
        } while (!found.contains("\"" + service + "\""));
        return found;
    }

    @ParameterizedTest
    @ValueSource(strings = {"http", "tomcat"})
    void sampledRequestIsExportedOnce(String server) throws Exception {
        try (Peer back = Peer.traced("back-" + server).start("grpc");
                Peer front = exporting("front-" + server).with("FAULTLOOM_SAMPLE", "1/1").start(server)) {
            HttpDriver.Reply reply = new HttpDriver(front.address(server)).plain("POST", "/run", "grpc " + back.address("grpc") + " Run say hello");
            assertEquals("OK hello", reply.text());
            assertEquals("none", reply.carrier);
            String spans = exported("front-" + server);
            assertTrue(spans.contains("\"POST /run\"") && spans.contains("\"/t.T/Run\"") && spans.contains("\"back-" + server + "\""), spans);
            assertEquals(2, spans.split("\"kind\":2", -1).length - 1, spans);
        }
    }

    @Test
    void serviceWithOpenTelemetryOnlyForwardsTheEnvelope() throws Exception {
        Path other = Path.of("target", "test-jars", "opentelemetry-javaagent.jar").toAbsolutePath();
        try (Peer back = exporting("back").start("grpc", "http");
                Peer middle = Peer.stock().option("-javaagent:" + other, "-Dotel.traces.exporter=none", "-Dotel.metrics.exporter=none",
                        "-Dotel.logs.exporter=none").start("grpc", "http");
                Peer front = Peer.traced("front").with("FAULTLOOM_PEERS", middle.address("grpc") + "=middle," + middle.address("http") + "=middle")
                        .start("grpc");
                GrpcDriver driver = new GrpcDriver(front.address("grpc"))) {
            String[][] ways = {
                {"grpc " + middle.address("grpc") + " Run grpc " + back.address("grpc") + " Run " + NOWHERE, "OK OK ", "/t.T/Run > middle: replied 0 gap"},
                {"http jdk POST http://" + middle.address("http") + "/run http jdk POST http://" + back.address("http") + "/run " + NOWHERE, "200 200 ",
                    "POST /run > middle: replied 200 gap"},
            };
            for (String[] way : ways) {
                Envelope envelope = Requests.beginBridged(FAULT);
                GrpcDriver.Reply reply = driver.send("Run", way[0], Requests.bytes(envelope, Accept.FIELD, 4 << 20), envelope.hop.call);
                assertEquals(way[1] + "NOT_FOUND status 5 injected by Faultloom", reply.text());
                assertEquals(List.of(way[2]), Calls.of(reply.segment));
                assertTrue(exported("back").contains("\"faultloom.fault\""));
            }
        }
    }
}
