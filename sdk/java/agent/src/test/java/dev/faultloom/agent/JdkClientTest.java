package dev.faultloom.agent;

import static java.nio.charset.StandardCharsets.US_ASCII;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;

import dev.faultloom.Faultloom;
import dev.faultloom.scope.CurrentScope;
import dev.faultloom.scope.Process;
import dev.faultloom.scope.Scope;
import dev.faultloom.trust.Receiver;
import dev.faultloom.trust.TrustSettings;
import dev.faultloom.wire.History;
import dev.faultloom.wire.Segment;
import java.io.IOException;
import java.io.InputStream;
import java.net.InetAddress;
import java.net.ServerSocket;
import java.net.Socket;
import java.net.URI;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpResponse;
import java.util.List;
import java.util.Map;
import org.junit.jupiter.api.Test;

/** {@code java.net.http} in this process, without the agent. */
final class JdkClientTest {
    private static final byte[] REPLY = ("HTTP/1.1 200 OK\r\nx-faultloom-reply: tail\r\nx-other: 7\r\n"
            + "content-length: 3100\r\n\r\n").getBytes(US_ASCII);

    /** Replies with headers and closes the connection. */
    private static void serve(ServerSocket server) {
        try {
            while (true) {
                try (Socket socket = server.accept()) {
                    InputStream in = socket.getInputStream();
                    in.read(new byte[8192]);
                    socket.getOutputStream().write(REPLY);
                }
            }
        } catch (IOException e) {
            // the test has ended
        }
    }

    @Test
    @SuppressWarnings("try")
    void aStreamThatBreaksOffAtItsStartFailsWhenItIsRead() throws Exception {
        Process process = new Process("front", Map.of(), new Receiver(TrustSettings.parse("environment demo")));
        HttpClient client = Faultloom.trace(HttpClient.newHttpClient());
        try (ServerSocket server = new ServerSocket(0, 50, InetAddress.getLoopbackAddress())) {
            new Thread(() -> serve(server)).start();
            String peer = "127.0.0.1:" + server.getLocalPort();
            HttpRequest request = HttpRequest.newBuilder(URI.create("http://" + peer + "/x")).build();
            // the order of the library's threads decides whether the send would fail: it does in about 7 of 100 sends
            for (int i = 0; i < 500; i++) {
                Scope scope = process.beginScope(Requests.begin());
                try (CurrentScope.Binding ignored = CurrentScope.bind(scope)) {
                    HttpResponse<InputStream> response = client.send(request, HttpResponse.BodyHandlers.ofInputStream());
                    assertEquals(200, response.statusCode());
                    assertEquals(Map.of("x-other", List.of("7")), response.headers().map());
                    assertThrows(IOException.class, () -> response.body().read());
                    assertThrows(IOException.class, () -> client.send(request, HttpResponse.BodyHandlers.ofString()));
                }
                Segment segment = History.decode(scope.finish(scope.now(), 200, "")).segment;
                String gap = "GET /x > " + peer + ": replied 200 gap";
                assertEquals(List.of(gap, gap), Calls.of(segment));
            }
        }
    }
}
