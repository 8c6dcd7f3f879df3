package dev.faultloom.agent;

import static java.nio.charset.StandardCharsets.UTF_8;

import dev.faultloom.wire.Accept;
import dev.faultloom.wire.Carrier;
import dev.faultloom.wire.Envelope;
import dev.faultloom.wire.Fault;
import dev.faultloom.wire.History;
import dev.faultloom.wire.Segment;
import dev.faultloom.wire.Text;
import java.net.URI;
import java.net.http.HttpClient;
import java.net.http.HttpHeaders;
import java.net.http.HttpRequest;
import java.net.http.HttpResponse;
import java.time.Duration;
import java.util.Arrays;

/** Sends HTTP requests like the tool and decodes the bytes of replies. This process has no hooks. */
final class HttpDriver {
    private static final HttpClient CLIENT = HttpClient.newBuilder().version(HttpClient.Version.HTTP_1_1).build();

    private final HttpClient client;
    private final String base;

    /** A reply. */
    static final class Reply {
        int status;
        HttpHeaders headers;
        byte[] body;
        /** {@code header}, {@code tail}, {@code gap}, or {@code none}. */
        String carrier = "none";
        Segment segment;

        String text() {
            return new String(body, UTF_8);
        }
    }

    HttpDriver(String address) {
        client = CLIENT;
        base = "http://" + address;
    }

    /** A driver over TLS, which trusts this certificate. */
    HttpDriver(String address, Certificate certificate) throws Exception {
        client = HttpClient.newBuilder().version(HttpClient.Version.HTTP_1_1).sslContext(certificate.context()).build();
        base = "https://" + address;
    }

    /** Sends a request with an envelope and these faults. */
    Reply send(String method, String path, String body, Fault... faults) throws Exception {
        Envelope envelope = Requests.begin(faults);
        return send(method, path, body, Requests.bytes(envelope, Accept.TAIL, 0), envelope.hop.call);
    }

    /** {@link #send} for a caller that does not accept tails. */
    Reply sendWithoutTail(String method, String path, String body, Fault... faults) throws Exception {
        Envelope envelope = Requests.begin(faults);
        return send(method, path, body, Requests.bytes(envelope, Accept.NONE, 0), envelope.hop.call);
    }

    /** Sends a request without an envelope. */
    Reply plain(String method, String path, String body) throws Exception {
        return send(method, path, body, null, 0);
    }

    Reply send(String method, String path, String body, byte[] envelope, long call) throws Exception {
        HttpRequest.Builder request = HttpRequest.newBuilder(URI.create(base + path)).timeout(Duration.ofSeconds(60))
                .method(method, body.isEmpty() ? HttpRequest.BodyPublishers.noBody() : HttpRequest.BodyPublishers.ofString(body));
        if (envelope != null) {
            request.header(Envelope.HTTP_HEADER, Text.encodeBase64(envelope));
        }
        HttpResponse<byte[]> response = client.send(request.build(), HttpResponse.BodyHandlers.ofByteArray());
        Reply reply = new Reply();
        reply.status = response.statusCode();
        reply.headers = response.headers();
        reply.body = response.body();
        byte[] history = null;
        String header = reply.headers.firstValue(Envelope.HISTORY_HEADER).orElse(null);
        if (header != null) {
            reply.carrier = "header";
            history = Text.decodeBase64(header);
        } else if (reply.headers.firstValue(Envelope.REPLY_HEADER).isPresent()) {
            reply.carrier = reply.headers.firstValue(Envelope.REPLY_HEADER).get();
            if (reply.carrier.equals("tail")) {
                Carrier.Cut cut = Carrier.cutTail(reply.body, 0, reply.body.length);
                history = Arrays.copyOfRange(reply.body, cut.historyFrom, cut.historyTo);
                reply.body = Arrays.copyOf(reply.body, cut.end);
            }
        }
        if (history != null) {
            History decoded = History.decode(history);
            if (decoded.call != call) {
                throw new AssertionError("the history belongs to another call");
            }
            reply.segment = decoded.segment;
        }
        return reply;
    }
}
