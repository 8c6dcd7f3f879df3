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

/** The response of a status fault: an empty body, converted by the application's body handler. */
final class EmptyResponse<T> implements HttpResponse<T>, HttpResponse.ResponseInfo {
    private final int status;
    private final HttpRequest request;
    private T body;

    private EmptyResponse(int status, HttpRequest request) {
        this.status = status;
        this.request = request;
    }

    static <T> CompletableFuture<HttpResponse<T>> of(int status, HttpRequest request, BodyHandler<T> handler) {
        EmptyResponse<T> response = new EmptyResponse<>(status, request);
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
        return HttpHeaders.of(Map.of("content-length", List.of("0")), (name, value) -> true);
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
        return HttpClient.Version.HTTP_1_1;
    }
}
