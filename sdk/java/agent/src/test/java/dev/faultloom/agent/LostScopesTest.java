package dev.faultloom.agent;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assumptions.assumeTrue;

import dev.faultloom.wire.Fault;
import dev.faultloom.wire.FaultKind;
import dev.faultloom.wire.Segment;
import java.util.List;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CompletionException;
import org.junit.jupiter.api.AfterAll;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.MethodSource;
import org.junit.jupiter.params.provider.ValueSource;

/** Calls on threads that no hook gave a scope: inherited and marked, or counted. */
final class LostScopesTest {
    private static final Fault FAULT = Fault.of(FaultKind.STATUS).arg(5);

    private static Peer peer;
    private static Peer stock;
    private static GrpcDriver driver;
    /** Calls a service without the SDK. */
    private static String call;

    @BeforeAll
    static void start() throws Exception {
        stock = Peer.stock().start("grpc", Peer.HTTP);
        peer = Peer.traced("front").with("FAULTLOOM_PEERS", stock.address("grpc") + "=back," + stock.address(Peer.HTTP) + "=back")
                .start("grpc", Peer.HTTP, "tomcat");
        driver = new GrpcDriver(peer.address("grpc"));
        call = "grpc " + stock.address("grpc") + " Run say x";
    }

    @AfterAll
    static void stop() throws Exception {
        driver.close();
        peer.close();
        stock.close();
    }

    private static Segment traced(String script) throws Exception {
        return driver.send("Run", script).segment;
    }

    /** Sends a traced request that is open until {@link #close}. */
    private static CompletableFuture<Segment> open(String name) throws Exception {
        CompletableFuture<Segment> open = CompletableFuture.supplyAsync(() -> {
            try {
                return traced("open begun-" + name + "\nwait " + name);
            } catch (Exception e) {
                throw new CompletionException(e);
            }
        });
        assertEquals("open", driver.plain("Run", "wait begun-" + name).text());
        return open;
    }

    private static Segment close(CompletableFuture<Segment> open, String name) throws Exception {
        driver.plain("Run", "open " + name);
        return open.get();
    }

    private static void assertCalls(List<String> calls, List<String> unscoped, Segment segment) {
        assertEquals(calls, Calls.of(segment));
        assertEquals(unscoped, Calls.unscoped(segment));
    }

    @Test
    void callsOfAHookedPoolAreNeitherInheritedNorCounted() throws Exception {
        Segment segment = traced("in pool " + call + "\n" + call);
        assertCalls(List.of("/t.T/Run > back: replied 0 gap", "/t.T/Run > back: replied 0 gap"), List.of(), segment);
    }

    @ParameterizedTest
    @ValueSource(strings = {"thread", "thread-subclass"})
    void callOfAStartedThreadIsInherited(String thread) throws Exception {
        GrpcDriver.Reply reply = driver.send("Run", "in " + thread + " " + call, FAULT);
        assertEquals("NOT_FOUND status 5 injected by Faultloom", reply.text());
        assertCalls(List.of("/t.T/Run > back: replied 5 inherited fault 0"), List.of(), reply.segment);
        // through a hooked pool
        assertCalls(List.of("/t.T/Run > back: replied 0 inherited gap"), List.of(), traced("in " + thread + " in pool " + call));
        assertCalls(List.of("/t.T/Run > back: replied 0 inherited gap"), List.of(), traced("in pool in " + thread + " " + call));
    }

    @Test
    void callOfAThreadThatWasStartedBeforeIsCounted() throws Exception {
        GrpcDriver.Reply reply = driver.send("Run", "in outsider " + call + "\nin outsider " + call, FAULT);
        assertEquals("OK x\nOK x", reply.text());
        assertCalls(List.of(), List.of("2 × /t.T/Run > back at GrpcClient.java"), reply.segment);
        assertCalls(List.of(), List.of(), traced("say x"));
    }

    static List<String> httpClients() {
        return HttpClientsTest.clients();
    }

    @ParameterizedTest
    @MethodSource("httpClients")
    void everyHttpClientIsCountedOnce(String client) throws Exception {
        String http = "http " + client + " GET http://" + stock.address(Peer.HTTP) + "/item/17";
        // with okhttp-async the library's thread sends it
        String site = client.equals("okhttp-async") ? "" : client.startsWith("webclient") ? "WebClients.java" : "HttpClients.java";
        assertCalls(List.of(), List.of("1 × GET /item/{id} > back at " + site), traced("in outsider " + http));
        assertCalls(List.of("GET /item/{id} > back: replied 200 inherited gap"), List.of(), traced("in thread " + http));
        assertCalls(List.of("GET /item/{id} > back: replied 200 gap"), List.of(), traced(http));
    }

    /** Reactor Netty's client is not traced on its own, so the trace must say that the call is missing. */
    @Test
    void callOfAClientThatIsNotTracedIsCountedByItsRequest() throws Exception {
        assumeTrue(Peer.RUNS_SPRING);
        String http = "http netty GET http://" + stock.address(Peer.HTTP) + "/item/17";
        assertCalls(List.of(), List.of("1 × GET /item/{id} > back at WebClients.java"), traced(http));
        CompletableFuture<Segment> open = open("netty");
        assertEquals("200 /item/17", driver.plain("Run", http).text());
        assertCalls(List.of(), List.of(), close(open, "netty"));
    }

    @Test
    void workerThatARequestStartedIsInheritedWhileThatIsOpen() throws Exception {
        CompletableFuture<Segment> first = CompletableFuture.supplyAsync(() -> {
            try {
                return traced("in worker " + call + "\nopen worker-begun\nwait worker-end");
            } catch (Exception e) {
                throw new CompletionException(e);
            }
        });
        assertEquals("open", driver.plain("Run", "wait worker-begun").text());
        List<String> counted = List.of("1 × /t.T/Run > back at GrpcClient.java");
        assertCalls(List.of(), counted, traced("in worker " + call)); // the call may belong to either
        String inherited = "/t.T/Run > back: replied 0 inherited gap";
        assertCalls(List.of(inherited, inherited), List.of(), close(first, "worker-end"));
        assertCalls(List.of(), counted, traced("in worker " + call));
    }

    @Test
    void callAfterTheAnswerIsCountedForOthers() throws Exception {
        assertCalls(List.of(), List.of(), traced("in answered " + call));
        assertCalls(List.of(), List.of("1 × /t.T/Run > back at GrpcClient.java"), traced("open answered\nwait called"));
    }

    @Test
    void callsOfAnUntracedRequestAreNotCounted() throws Exception {
        CompletableFuture<Segment> open = open("untraced");
        String script = call + "\nin pool " + call + "\nhttp jdk GET http://" + stock.address(Peer.HTTP) + "/item";
        String result = "OK x\nOK x\n200 /item";
        assertEquals(result, driver.plain("Run", script).text());
        for (String server : List.of(Peer.HTTP, "tomcat")) {
            assertEquals(result, new HttpDriver(peer.address(server)).plain("POST", "/run", script).text());
        }
        assertCalls(List.of(), List.of(), close(open, "untraced"));
    }

    @Test
    void everyOpenRequestCountsTheCall() throws Exception {
        CompletableFuture<Segment> open = open("both");
        List<String> counted = List.of("1 × /t.T/Run > back at GrpcClient.java");
        assertCalls(List.of(), counted, traced("in outsider " + call));
        assertCalls(List.of(), counted, close(open, "both"));
    }
}
