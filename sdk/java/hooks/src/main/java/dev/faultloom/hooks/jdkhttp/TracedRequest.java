package dev.faultloom.hooks.jdkhttp;

import dev.faultloom.hooks.http.HttpCall;
import dev.faultloom.wire.Bridge;
import dev.faultloom.wire.Envelope;
import java.net.URI;
import java.net.http.HttpClient;
import java.net.http.HttpHeaders;
import java.net.http.HttpRequest;
import java.time.Duration;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.TreeMap;

/** The application's request with our headers. */
final class TracedRequest extends HttpRequest {
    private final HttpRequest request;
    private final HttpHeaders headers;

    TracedRequest(HttpRequest request, HttpCall call) {
        this.request = request;
        Map<String, List<String>> all = new TreeMap<>(String.CASE_INSENSITIVE_ORDER);
        all.putAll(request.headers().map());
        all.remove(Envelope.HTTP_HEADER); // an envelope that the application forwarded
        if (call.header() != null) {
            all.put(Envelope.HTTP_HEADER, List.of(call.header()));
        }
        if (call.isBridged()) {
            Bridge bridge = call.injectBridge(
                    JdkClientHooks.joinedValues(request.headers(), Bridge.TRACEPARENT),
                    JdkClientHooks.joinedValues(request.headers(), Bridge.BAGGAGE));
            put(all, Bridge.TRACEPARENT, bridge.traceparent);
            put(all, Bridge.BAGGAGE, bridge.baggage);
        }
        headers = HttpHeaders.of(all, (name, value) -> true);
    }

    private static void put(Map<String, List<String>> all, String name, String value) {
        if (value == null) {
            all.remove(name);
        } else {
            all.put(name, List.of(value));
        }
    }

    @Override
    public Optional<BodyPublisher> bodyPublisher() {
        return request.bodyPublisher();
    }

    @Override
    public String method() {
        return request.method();
    }

    @Override
    public Optional<Duration> timeout() {
        return request.timeout();
    }

    @Override
    public boolean expectContinue() {
        return request.expectContinue();
    }

    @Override
    public URI uri() {
        return request.uri();
    }

    @Override
    public Optional<HttpClient.Version> version() {
        return request.version();
    }

    @Override
    public HttpHeaders headers() {
        return headers;
    }
}
