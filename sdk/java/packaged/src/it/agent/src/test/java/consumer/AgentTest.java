package consumer;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;

import com.sun.net.httpserver.HttpServer;
import java.net.InetAddress;
import java.net.InetSocketAddress;
import java.net.URI;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpResponse;
import java.nio.ByteBuffer;
import java.util.Base64;
import javax.crypto.Mac;
import javax.crypto.spec.SecretKeySpec;
import org.junit.jupiter.api.Test;

/** Does not use the SDK's classes: it encodes the envelope itself, as the format describes. */
class AgentTest {
    private static String envelope() throws Exception {
        ByteBuffer part = ByteBuffer.allocate(29).put((byte) 1).putLong(1).putLong(2).putInt((int) (System.currentTimeMillis() / 1000 + 60));
        part.put(new byte[] {2, 't', '1', 4, 'd', 'e', 'm', 'o'});
        byte[] key = new byte[32];
        for (int i = 0; i < key.length; i++) {
            key[i] = (byte) i;
        }
        Mac mac = Mac.getInstance("HmacSHA256");
        mac.init(new SecretKeySpec(key, "HmacSHA256"));
        mac.update("faultloom/1\n".getBytes("US-ASCII"));
        byte[] signature = mac.doFinal(part.array());
        ByteBuffer whole = ByteBuffer.allocate(2 + 29 + 16 + 10).put((byte) 1).put((byte) 29).put(part.array()).put(signature, 0, 16).putLong(7);
        return Base64.getUrlEncoder().withoutPadding().encodeToString(whole.put((byte) 0).put((byte) 0).array());
    }

    @Test
    void onlyARequestWithAnEnvelopeReturnsAHistory() throws Exception {
        HttpServer server = HttpServer.create(new InetSocketAddress(InetAddress.getLoopbackAddress(), 0), 0);
        server.createContext("/", exchange -> {
            exchange.sendResponseHeaders(200, 2);
            exchange.getResponseBody().write("ok".getBytes("US-ASCII"));
            exchange.close();
        });
        server.start();
        try {
            HttpRequest.Builder request = HttpRequest.newBuilder(URI.create("http://127.0.0.1:" + server.getAddress().getPort() + "/x"));
            HttpClient client = HttpClient.newHttpClient();
            HttpResponse<String> plain = client.send(request.build(), HttpResponse.BodyHandlers.ofString());
            assertEquals("ok", plain.body());
            assertFalse(plain.headers().firstValue("x-faultloom-history").isPresent());
            HttpResponse<String> traced = client.send(request.header("x-faultloom", envelope()).build(), HttpResponse.BodyHandlers.ofString());
            assertEquals("ok", traced.body());
            byte[] history = Base64.getUrlDecoder().decode(traced.headers().firstValue("x-faultloom-history").orElse(""));
            assertTrue(history.length > 9 && history[0] == 1 && history[8] == 7, history.length + " bytes");
        } finally {
            server.stop(0);
        }
    }
}
