package dev.faultloom.agent;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import dev.faultloom.wire.Event;
import dev.faultloom.wire.Segment;
import java.io.IOException;
import java.net.InetAddress;
import java.net.ServerSocket;
import java.net.Socket;
import java.net.SocketTimeoutException;
import java.util.ArrayList;
import java.util.List;
import org.junit.jupiter.api.AfterAll;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

/** A call begins when the application makes it: the time to connect is part of it. */
final class ConnectionSetUpTest {
    private static final int DEADLINE_MS = 250;

    private static Peer front;
    private static HttpDriver driver;
    /** Completes no further connections: its queue is full, and the kernel drops requests for others. */
    private static ServerSocket full;
    private static final List<Socket> QUEUED = new ArrayList<>();

    @BeforeAll
    static void start() throws Exception {
        full = new ServerSocket(0, 1, InetAddress.getLoopbackAddress());
        try {
            while (true) {
                Socket socket = new Socket();
                QUEUED.add(socket);
                socket.connect(full.getLocalSocketAddress(), 500);
            }
        } catch (SocketTimeoutException e) {
            // the queue is full
        }
        front = Peer.traced("front").start(Peer.HTTP);
        driver = new HttpDriver(front.address(Peer.HTTP));
    }

    @AfterAll
    static void stop() throws IOException {
        front.close();
        for (Socket socket : QUEUED) {
            socket.close();
        }
        full.close();
    }

    @ParameterizedTest
    @ValueSource(strings = {"jdk", "jdk-async", "okhttp", "okhttp-async", "url", "grpc"})
    void callThatIsGivenUpWhileItConnectsLastsAsLongAsTheDeadline(String client) throws Exception {
        String address = "127.0.0.1:" + full.getLocalPort();
        String script = client.equals("grpc")
                ? "grpc " + address + " Run@" + DEADLINE_MS + " x"
                : "http " + client + " GET http://" + address + "/x@" + DEADLINE_MS;
        Segment segment = driver.send("POST", "/run", script).segment;
        assertEquals(3, segment.events.size());
        Event sent = segment.events.get(0);
        Event failed = segment.events.get(1);
        assertEquals(Event.SEND_REQUEST, sent.kind);
        assertEquals(Event.CALL_FAILED, failed.kind);
        assertEquals(4, failed.status);
        long lastedMs = (failed.atUs - sent.atUs) / 1000;
        // gRPC's deadline began a moment earlier, when the call's options were made
        assertTrue(lastedMs >= DEADLINE_MS / 2, lastedMs + " ms");
    }
}
