package example.peer;

import java.io.ByteArrayOutputStream;
import java.net.URI;
import java.nio.ByteBuffer;
import java.time.Duration;
import org.springframework.core.io.buffer.DataBuffer;
import org.springframework.core.io.buffer.DataBufferUtils;
import org.springframework.http.HttpHeaders;
import org.springframework.http.HttpMethod;
import org.springframework.http.client.reactive.ReactorClientHttpConnector;
import org.springframework.web.reactive.function.client.ClientResponse;
import org.springframework.web.reactive.function.client.WebClient;
import org.springframework.web.reactive.function.client.WebClientRequestException;
import reactor.core.publisher.Flux;
import reactor.core.publisher.Mono;
import reactor.netty.http.client.HttpClient;

/** Spring's WebClient on Reactor Netty. */
final class WebClients {
    private static final WebClient CLIENT = build(HttpClient.create());

    private WebClients() {}

    private static WebClient build(HttpClient client) {
        return WebClient.builder().clientConnector(new ReactorClientHttpConnector(client))
                .codecs(codecs -> codecs.defaultCodecs().maxInMemorySize(-1)).build();
    }

    static String call(String method, String url, String body) {
        return block(send(method, url, body));
    }

    static String callInParts(String method, String url, String body) {
        return block(request(method, url, body).exchangeToMono(response -> Flux.from(response.body((in, context) -> in.getBody()))
                .reduce(new ByteArrayOutputStream(), WebClients::add)
                .map(bytes -> format(response, bytes.toByteArray()))));
    }

    /** The body of a reply, in a way that older versions have too. */
    static String text(String method, String url, String body) {
        return block(request(method, url, body).retrieve().bodyToMono(String.class));
    }

    /** Reactor Netty's client without Spring. */
    static String netty(String url) {
        return HttpClient.create().get().uri(url).responseSingle((response, body) ->
                body.asString().defaultIfEmpty("").map(text -> response.status().code() + " " + text)).block(Duration.ofSeconds(30));
    }

    /** The call without blocking. */
    static Mono<String> send(String method, String url, String body) {
        return request(method, url, body).exchangeToMono(response ->
                response.bodyToMono(byte[].class).defaultIfEmpty(new byte[0]).map(bytes -> format(response, bytes)));
    }

    private static String block(Mono<String> reply) {
        try {
            return reply.block(Duration.ofSeconds(30));
        } catch (WebClientRequestException e) {
            return e.getCause().toString();
        }
    }

    private static ByteArrayOutputStream add(ByteArrayOutputStream bytes, DataBuffer buffer) {
        ByteBuffer part = ByteBuffer.allocate(buffer.readableByteCount());
        buffer.toByteBuffer(part);
        bytes.writeBytes(part.array());
        DataBufferUtils.release(buffer);
        return bytes;
    }

    private static WebClient.RequestHeadersSpec<?> request(String method, String url, String body) {
        int at = url.lastIndexOf('@');
        WebClient client = at < 0 ? CLIENT : build(HttpClient.create().responseTimeout(Duration.ofMillis(Long.parseLong(url.substring(at + 1)))));
        WebClient.RequestBodySpec request = client.method(HttpMethod.valueOf(method)).uri(URI.create(url.replaceFirst("@[0-9]+$", "")));
        return body.isEmpty() ? request : request.bodyValue(body);
    }

    private static String format(ClientResponse response, byte[] body) {
        HttpHeaders headers = response.headers().asHttpHeaders();
        if (headers.keySet().stream().anyMatch(name -> name.toLowerCase().startsWith("x-faultloom"))) {
            return "unexpected headers: " + headers;
        }
        return HttpClients.text(response.statusCode().value(), body);
    }
}
