package dev.faultloom.agent;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNotNull;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import dev.faultloom.wire.Accept;
import dev.faultloom.wire.Carrier;
import dev.faultloom.wire.Envelope;
import dev.faultloom.wire.Fault;
import dev.faultloom.wire.FaultKind;
import dev.faultloom.wire.Text;
import java.io.IOException;
import java.io.InputStream;
import java.net.URI;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpResponse;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CompletionException;
import org.junit.jupiter.api.AfterAll;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.condition.EnabledIfEnvironmentVariable;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

/** A Spring Boot application on WebFlux and Reactor Netty, started from its executable jar. */
@EnabledIfEnvironmentVariable(named = "FAULTLOOM_SOAK", matches = ".+", disabledReason = "a preview: some requests get no reply")
final class SpringBootWebFluxTest {
    /** Path of a request, its status, and the name. */
    private static final String[][] REQUESTS = {
        {"/product", "200", "/product"},
        {"/product/OLJCESPC7Z?x=1", "200", "/product/{id}"},
        {"/product/special", "200", "/product/special"},
        {"/product/4711/number", "200", "/product/{id}/number"},
        {"/product/p/files/a/b", "200", "/product/{id}/files/{*path}"},
        {"/product/p/parts", "200", "/product/{id}/parts"},
        {"/product/p/operators", "200", "/product/{id}/operators"},
        {"/product/p/broken-at-once", "500", "/product/{id}/broken-at-once"},
        {"/product/p/nothing", "204", "/product/{id}/nothing"},
        {"/product/p/refused", "409", "/product/{id}/refused"},
        {"/product/p/throws", "500", "/product/{id}/throws"},
        {"/function/acme/p", "200", "/function/{tenant}/{id}"},
        {"/nothing/77", "404", "/nothing/{id}"},
    };
    private static final Fault REFUSED = Fault.of(FaultKind.UNAVAILABLE).callee("back");

    @TempDir
    static Path folder;

    private static Peer back;
    private static Peer boot;
    private static HttpDriver driver;

    @BeforeAll
    static void start() throws Exception {
        back = Peer.traced("back").start("webflux");
        Path jar = BootJar.build(folder, List.of("example/boot", "example/boot/reactive"), "example.boot.reactive.ShopApplication",
                "(spring-webmvc|spring-boot-starter-(web|tomcat)-|tomcat|jetty|grpc|junit|byte-buddy).*");
        boot = Peer.traced("front").with("FAULTLOOM_PEERS", back.address("webflux") + "=back").jar(jar)
                .start("--server.port=0", "--server.address=127.0.0.1");
        driver = new HttpDriver(boot.address("boot"));
    }

    @AfterAll
    static void stop() throws Exception {
        boot.close();
        back.close();
    }

    private static String path(String way, String item) {
        return "/call/" + way + "?url=http://" + back.address("webflux") + "/" + item;
    }

    private static String recorded(String item) {
        return "GET /" + item + " > back: replied 200 child back";
    }

    /** Number of calls that {@code way} makes. */
    private static int calls(String way) {
        switch (way) {
            case "parallel":
                return 6;
            case "flat-map":
            case "zip":
            case "retry":
            case "future":
            case "subscribed":
                return 2;
            default:
                return 1;
        }
    }

    @Test
    void nameIsThePatternOfTheHandler() throws Exception {
        for (String[] request : REQUESTS) {
            HttpDriver.Reply plain = driver.plain("GET", request[0], "");
            HttpDriver.Reply reply = driver.send("GET", request[0], "");
            assertEquals(Integer.parseInt(request[1]), plain.status, request[0]);
            assertEquals(plain.status, reply.status, request[0]);
            assertEquals(plain.headers.firstValue("content-type"), reply.headers.firstValue("content-type"), request[0]);
            assertEquals(plain.headers.firstValue("content-length"), reply.headers.firstValue("content-length"), request[0]);
            if (plain.status < 404) { // error replies have the time and a number of the request
                assertEquals(plain.text(), reply.text(), request[0]);
            }
            assertNotNull(reply.segment, request[0]);
            assertEquals("GET " + request[2], reply.segment.name);
            assertEquals(plain.status, reply.segment.events.get(reply.segment.events.size() - 1).status, request[0]);
        }
    }

    @Test
    void streamedRepliesStayAsTheyAre() throws Exception {
        for (String path : new String[] {"/product/p/events", "/product/p/lines"}) {
            HttpDriver.Reply plain = driver.plain("GET", path, "");
            HttpDriver.Reply reply = driver.send("GET", path, "");
            assertEquals(plain.text(), reply.text());
            assertEquals(plain.headers.firstValue("content-type"), reply.headers.firstValue("content-type"), path);
            assertEquals("gap", reply.carrier, path);
        }
    }

    @Test
    void replyThatBreaksOffBreaksOff() throws Exception {
        assertThrows(IOException.class, () -> driver.plain("GET", "/product/p/broken", ""));
        assertThrows(IOException.class, () -> driver.send("GET", "/product/p/broken", ""));
        assertEquals(200, driver.send("GET", "/product/p/parts", "").status);
    }

    @Test
    void firstPartOfASlowReplyIsNotHeldBack() throws Exception {
        byte[] envelope = Requests.bytes(Requests.begin(), Accept.TAIL, 0);
        HttpRequest request = HttpRequest.newBuilder(URI.create("http://" + boot.address("boot") + "/product/p/slow"))
                .header(Envelope.HTTP_HEADER, Text.encodeBase64(envelope)).build();
        HttpResponse<InputStream> response = HttpClient.newBuilder().version(HttpClient.Version.HTTP_1_1).build()
                .send(request, HttpResponse.BodyHandlers.ofInputStream());
        long begin = System.nanoTime();
        assertEquals('p', response.body().read());
        byte[] rest = response.body().readAllBytes();
        // the second part came after the first one was read
        assertTrue(System.nanoTime() - begin > 1_000_000_000L);
        assertEquals('p', rest[0]);
        assertEquals("tail", response.headers().firstValue(Envelope.REPLY_HEADER).orElse(""));
        assertNotNull(Carrier.cutTail(rest, 0, rest.length));
    }

    @Test
    void callThatTheApplicationGivesUpIsCanceled() throws Exception {
        String path = path("timeout", "item");
        assertEquals(List.of(recorded("item")), Calls.of(driver.send("GET", path, "").segment));
        HttpDriver.Reply disturbed = driver.send("GET", path, "", Fault.of(FaultKind.DELAY).arg(20_000).callee("back"));
        assertEquals("too late", disturbed.text());
        assertEquals(List.of("GET /item > back: failed 1 fault 0 gap"), Calls.of(disturbed.segment));
        assertEquals(List.of(recorded("item")), Calls.of(driver.send("GET", path, "").segment));
    }

    @ParameterizedTest
    @ValueSource(strings = {"plain", "flat-map", "zip", "retry", "delayed", "publish-on", "parallel", "shared", "blocking", "shared-blocking",
        "future", "subscribed", "jdk-connector"})
    void callsBelongToTheirRequest(String way) throws Exception {
        List<String> expected = Collections.nCopies(calls(way), recorded("item"));
        HttpDriver.Reply healthy = driver.send("GET", path(way, "item"), "");
        assertEquals(200, healthy.status, healthy.text());
        assertEquals(expected, Calls.of(healthy.segment));
        assertEquals(List.of(), Calls.unscoped(healthy.segment));
        HttpDriver.Reply disturbed = driver.send("GET", path(way, "item"), "", REFUSED);
        assertTrue(Calls.of(disturbed.segment).contains("GET /item > back: failed 14 fault 0"), Calls.of(disturbed.segment).toString());
        assertEquals(expected, Calls.of(driver.send("GET", path(way, "item"), "").segment));
    }

    @ParameterizedTest
    @ValueSource(strings = {"flat-map", "zip", "delayed", "parallel", "shared", "shared-blocking", "future", "jdk-connector"})
    void requestsAtTheSameTimeDoNotMix(String way) throws Exception {
        List<CompletableFuture<Void>> all = new ArrayList<>();
        for (int i = 0; i < 24; i++) {
            String item = "own" + (char) ('a' + i);
            boolean isTraced = i % 4 != 3;
            all.add(CompletableFuture.runAsync(() -> {
                try {
                    if (!isTraced) {
                        assertEquals(200, driver.plain("GET", path(way, item), "").status);
                        return;
                    }
                    HttpDriver.Reply reply = driver.send("GET", path(way, item), "");
                    assertEquals(Collections.nCopies(calls(way), recorded(item)), Calls.of(reply.segment));
                    assertEquals(List.of(), Calls.unscoped(reply.segment));
                } catch (Exception e) {
                    throw new CompletionException(e);
                }
            }));
        }
        for (CompletableFuture<Void> one : all) {
            one.get();
        }
    }
}
