package dev.faultloom.hooks.jdkhttp;

import dev.faultloom.hooks.http.HttpCall;
import dev.faultloom.wire.Carrier;
import dev.faultloom.wire.Envelope;
import java.net.URI;
import java.net.http.HttpClient;
import java.net.http.HttpHeaders;
import java.net.http.HttpRequest;
import java.net.http.HttpResponse;
import java.util.Optional;
import javax.net.ssl.SSLSession;

/** The library's response without our headers. */
final class TracedResponse<T> implements HttpResponse<T> {
    private final HttpResponse<T> response;
    private final HttpRequest request;

    TracedResponse(HttpResponse<T> response, HttpRequest request) {
        this.response = response;
        this.request = request;
    }

    /** The headers for the application, without a content length that includes a tail. */
    static HttpHeaders withoutOurHeaders(HttpHeaders headers, boolean tail) {
        return HttpHeaders.of(headers.map(),
                (name, value) -> !HttpCall.isOurHeader(name) && !(tail && name.equalsIgnoreCase("content-length")));
    }

    private boolean hasTail() {
        String mark = Carrier.lastValue(JdkClientHooks.joinedValues(response.headers(), Envelope.REPLY_HEADER));
        return "tail".equals(mark) && Carrier.mayHaveTail(response.statusCode());
    }

    @Override
    public int statusCode() {
        return response.statusCode();
    }

    @Override
    public HttpRequest request() {
        HttpRequest last = response.request(); // differs if the library followed a redirect
        return last.uri().equals(request.uri()) && last.method().equals(request.method()) ? request : last;
    }

    @Override
    public Optional<HttpResponse<T>> previousResponse() {
        return response.previousResponse();
    }

    @Override
    public HttpHeaders headers() {
        return withoutOurHeaders(response.headers(), hasTail());
    }

    @Override
    public T body() {
        return response.body();
    }

    @Override
    public Optional<SSLSession> sslSession() {
        return response.sslSession();
    }

    @Override
    public URI uri() {
        return response.uri();
    }

    @Override
    public HttpClient.Version version() {
        return response.version();
    }
}
