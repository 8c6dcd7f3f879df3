package dev.faultloom.hooks.jdkhttp;

import java.net.URI;
import java.net.http.HttpClient;
import java.net.http.HttpHeaders;
import java.net.http.HttpRequest;
import java.net.http.HttpResponse;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.Flow;
import javax.net.ssl.SSLSession;

/** A response that the library did not create. */
final class PlainResponse<T> implements HttpResponse<T>, HttpResponse.ResponseInfo {
    private final int status;
    private final HttpHeaders headers;
    private final HttpClient.Version version;
    private final HttpRequest request;
    private T body;

    private PlainResponse(int status, HttpHeaders headers, HttpClient.Version version, HttpRequest request) {
        this.status = status;
        this.headers = headers;
        this.version = version;
        this.request = request;
    }

    PlainResponse(ResponseInfo info, HttpRequest request, T body) {
        this(info.statusCode(), info.headers(), info.version(), request);
        this.body = body;
    }

    /** The response of a status fault: an empty body, converted by the application's body handler. */
    static <T> CompletableFuture<HttpResponse<T>> empty(int status, HttpRequest request, BodyHandler<T> handler) {
        HttpHeaders headers = HttpHeaders.of(Map.of("content-length", List.of("0")), (name, value) -> true);
        PlainResponse<T> response = new PlainResponse<>(status, headers, HttpClient.Version.HTTP_1_1, request);
        BodySubscriber<T> subscriber = handler.apply(response);
        subscriber.onSubscribe(new Flow.Subscription() {
            @Override
            public void request(long n) {}

            @Override
            public void cancel() {}
        });
        subscriber.onComplete();
        return subscriber.getBody().toCompletableFuture().thenApply(body -> {
            response.body = body;
            return response;
        });
    }

    @Override
    public int statusCode() {
        return status;
    }

    @Override
    public HttpRequest request() {
        return request;
    }

    @Override
    public Optional<HttpResponse<T>> previousResponse() {
        return Optional.empty();
    }

    @Override
    public HttpHeaders headers() {
        return headers;
    }

    @Override
    public T body() {
        return body;
    }

    @Override
    public Optional<SSLSession> sslSession() {
        return Optional.empty();
    }

    @Override
    public URI uri() {
        return request.uri();
    }

    @Override
    public HttpClient.Version version() {
        return version;
    }
}
