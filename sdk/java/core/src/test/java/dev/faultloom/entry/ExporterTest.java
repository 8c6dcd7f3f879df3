package dev.faultloom.entry;

import static java.nio.charset.StandardCharsets.UTF_8;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNotNull;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertTrue;

import com.sun.net.httpserver.HttpServer;
import dev.faultloom.scope.IncomingRequest;
import dev.faultloom.scope.Process;
import dev.faultloom.scope.Scope;
import dev.faultloom.trust.Receiver;
import dev.faultloom.trust.TrustSettings;
import dev.faultloom.wire.Samples;
import dev.faultloom.wire.Text;
import dev.faultloom.wire.Traceparent;
import java.io.ByteArrayOutputStream;
import java.io.IOException;
import java.io.PrintStream;
import java.net.InetAddress;
import java.net.InetSocketAddress;
import java.net.ServerSocket;
import java.util.HashMap;
import java.util.Map;
import java.util.Random;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.Executors;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.TimeUnit;
import java.util.regex.Pattern;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;

@Timeout(30)
class ExporterTest {
    private static final String TRUST = "environment demo;key trace t1 " + "01".repeat(32);
    private final BlockingQueue<String> bodies = new LinkedBlockingQueue<>();
    private final PrintStream stderr = System.err;
    private final ByteArrayOutputStream output = new ByteArrayOutputStream();
    private volatile int status = 200;
    private HttpServer server;

    @BeforeEach
    void collect() throws IOException {
        server = HttpServer.create(new InetSocketAddress(InetAddress.getLoopbackAddress(), 0), 0);
        server.createContext("/v1/traces", exchange -> {
            assertEquals("application/json", exchange.getRequestHeaders().getFirst("content-type"));
            bodies.add(new String(exchange.getRequestBody().readAllBytes(), UTF_8));
            exchange.sendResponseHeaders(status, -1);
            exchange.close();
        });
        server.setExecutor(Executors.newCachedThreadPool());
        server.start();
        System.setErr(new PrintStream(output, true));
    }

    @AfterEach
    void stop() {
        System.setErr(stderr);
        server.stop(0);
    }

    private String address() {
        return "http://127.0.0.1:" + server.getAddress().getPort() + "/v1/traces";
    }

    private Process configured(String... more) {
        Map<String, String> variables = new HashMap<>(Map.of("FAULTLOOM_TRUST", TRUST, "FAULTLOOM_SERVICE", "front",
                "FAULTLOOM_SAMPLE", "1/1", "FAULTLOOM_EXPORT", address()));
        for (int i = 0; i < more.length; i += 2) {
            variables.put(more[i], more[i + 1]);
        }
        return ThisProcess.fromEnvironment(variables);
    }

    private String next() throws InterruptedException {
        String body = bodies.poll(10, TimeUnit.SECONDS);
        assertNotNull(body, "nothing was exported");
        return body;
    }

    private static int count(String text, String part) {
        return text.split(Pattern.quote(part), -1).length - 1;
    }

    @Test
    void sampledRequestIsExportedOnceAndItsReplyCarriesNoHistory() throws Exception {
        Exporter exporter = Exporter.to(address());
        Process p = new Process("front", Map.of(), new Receiver(TrustSettings.parse(TRUST)), Sampler.parse("1/1"), exporter, true);
        Scope s = p.openScope(Map.of("traceparent", Traceparent.format(5, 6, 77))::get);
        assertTrue(s.beginHttpCall(false, "b:1", "GET", "/x", true).isBridged());
        assertNull(s.finish(s.now(), 200, "GET /"));
        assertNull(s.finish(s.now(), 200, ""));
        Scope grpc = p.openScope(IncomingRequest.grpc(null, n -> null));
        assertTrue((grpc.envelope().signed.traceHigh | grpc.envelope().signed.traceLow) != 0 && grpc.envelope().hop.call != 0);
        assertNull(grpc.finishLater(1, 0));
        Scope stream = p.openScope(IncomingRequest.grpc(new byte[] {9}, n -> null)); // a rejected envelope is ignored
        assertNull(stream.nextPiece(0, 1 << 20));
        assertNull(stream.lastPiece(1, 0, ""));
        exporter.close(); // sends queued histories
        String body = next();
        assertTrue(body.startsWith("{\"resourceSpans\":[{\"resource\":{\"attributes\":[{\"key\":\"service.name\",\"value\":{\"stringValue\":\"front\"}}]}"), body);
        assertEquals(2, count(body, "\"traceId\":\"" + Text.hex(5, 6) + "\""), "a server span and a client span: " + body);
        assertEquals(1, count(body, "\"parentSpanId\":\"" + Text.hex(77) + "\""), body);
        assertEquals(1, count(body, grpc.envelope().signed.trace()), body);
        assertEquals(1, count(body, stream.envelope().signed.trace()), body);
        assertNull(bodies.poll());
        assertEquals("", output.toString());
    }

    @Test
    void historiesAreExportedInBatches() throws Exception {
        Exporter exporter = Exporter.to(address());
        Random r = new Random(1);
        for (int i = 0; i < Exporter.BATCH_SIZE + 1; i++) {
            exporter.add(i, i, false, Samples.history(r, 5, 1));
        }
        String body = next();
        assertTrue(body.contains(Text.hex(0, 0)) && body.contains(Text.hex(1, 1)));
        exporter.close();
        StringBuilder all = new StringBuilder(body);
        for (String more = bodies.poll(); more != null; more = bodies.poll()) {
            all.append(more);
        }
        for (int i = 0; i < Exporter.BATCH_SIZE + 1; i++) {
            assertTrue(all.indexOf(Text.hex(i, i)) >= 0, i + " is missing");
        }
    }

    @Test
    void droppedHistoriesAreCountedAndReported() throws Exception {
        status = 503;
        Exporter exporter = Exporter.to(address());
        exporter.add(1, 2, false, Samples.history(new Random(1), 5, 0));
        next();
        exporter.close();
        assertEquals("faultloom: 1 histories were not exported\n", output.toString());
    }

    @Test
    void unresponsiveEndpointDelaysNoRequest() throws Exception {
        try (ServerSocket silent = new ServerSocket(0, 1, InetAddress.getLoopbackAddress())) {
            Exporter exporter = Exporter.to("http://127.0.0.1:" + silent.getLocalPort());
            long start = System.nanoTime();
            byte[] history = Samples.history(new Random(1), 5, 0);
            for (int i = 0; i < 10 * Exporter.QUEUE_SIZE; i++) {
                exporter.add(1, 2, false, history);
            }
            assertTrue(System.nanoTime() - start < 1_000_000_000L);
            exporter.close();
            assertTrue(System.nanoTime() - start < 4_000_000_000L, "closing takes at most a second");
        }
    }

    @Test
    void invalidSettingsDisableSamplingWithOneLine() {
        assertNotNull(configured().openScope(n -> null));
        for (String[] wrong : new String[][] {{"FAULTLOOM_SAMPLE", "often"}, {"FAULTLOOM_EXPORT", ""}, {"FAULTLOOM_EXPORT", "collector:4318"},
            {"FAULTLOOM_EXPORT", "http://"}}) {
            output.reset();
            Process p = configured(wrong);
            assertNull(p.openScope(n -> null));
            assertEquals(1, output.toString().lines().count(), output.toString());
        }
        output.reset();
        assertNull(configured("FAULTLOOM_TRUST", "").openScope(n -> null), "inactive");
        assertNull(configured("FAULTLOOM_TRUST", "environment demo;key fault f1 " + "01".repeat(32)).openScope(n -> null), "no trace key");
        assertNull(configured("FAULTLOOM_SAMPLE", "").openScope(n -> null), "not configured");
        assertEquals("", output.toString());
    }
}
