package dev.faultloom.agent;

import static java.nio.charset.StandardCharsets.US_ASCII;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import dev.faultloom.wire.Accept;
import dev.faultloom.wire.Envelope;
import dev.faultloom.wire.Text;
import java.net.Socket;
import java.util.List;
import org.junit.jupiter.api.Test;

/** Spring WebFlux on Reactor Netty. */
final class WebFluxTest extends HttpServers {
    WebFluxTest() {
        super("webflux");
    }

    /** The server may begin with the second one inside the end of the first one, on the same thread. */
    @Test
    void requestsOfOneConnectionAreSeparate() throws Exception {
        for (List<Boolean> isTraced : List.of(List.of(false, true), List.of(true, false), List.of(true, true))) {
            StringBuilder requests = new StringBuilder();
            for (boolean one : isTraced) {
                requests.append("GET /x HTTP/1.1\r\nhost: x\r\n");
                if (one) {
                    byte[] envelope = Requests.bytes(Requests.begin(), Accept.NONE, 0);
                    requests.append(Envelope.HTTP_HEADER).append(": ").append(Text.encodeBase64(envelope)).append("\r\n");
                }
                requests.append("\r\n");
            }
            String[] address = address().split(":");
            try (Socket socket = new Socket(address[0], Integer.parseInt(address[1]))) {
                socket.setSoTimeout(20_000);
                socket.getOutputStream().write(requests.toString().getBytes(US_ASCII));
                StringBuilder read = new StringBuilder();
                String[] replies = new String[0];
                while (replies.length < 3) {
                    int next = socket.getInputStream().read();
                    assertTrue(next >= 0, read.toString());
                    replies = read.append((char) next).toString().split("\r\n\r\n/x", -1);
                }
                for (int i = 0; i < 2; i++) {
                    assertEquals(isTraced.get(i), replies[i].contains("x-faultloom-history"), replies[i]);
                }
            }
        }
    }
}
