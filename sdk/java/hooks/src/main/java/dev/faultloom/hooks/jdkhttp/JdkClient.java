package dev.faultloom.hooks.jdkhttp;

import dev.faultloom.http.HttpCall;
import dev.faultloom.scope.Current;
import dev.faultloom.scope.Scope;
import java.io.IOException;
import java.net.ConnectException;
import java.net.URI;
import java.net.http.HttpClient;
import java.net.http.HttpHeaders;
import java.net.http.HttpRequest;
import java.net.http.HttpResponse;
import java.net.http.HttpResponse.BodyHandler;
import java.net.http.HttpResponse.PushPromiseHandler;
import java.net.http.HttpTimeoutException;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CompletionException;

/** {@code java.net.http}: requests of a scope. Synchronous sends go the same way inside the library. */
public final class JdkClient {
    private JdkClient() {}

    /** What takes the place of the library's own sending, or null: it is to go on by itself. */
    public static Object instead(Object client, Object request, Object handler, Object push) {
        Scope scope = Current.get();
        // by name: an application that traces its client itself may have loaded that class from its own class path
        if (scope == null || request.getClass().getName().equals(TracedRequest.class.getName())) {
            return null;
        }
        return send(scope, (HttpClient) client, (HttpRequest) request, handler, push);
    }

    @SuppressWarnings("unchecked")
    private static <T> CompletableFuture<HttpResponse<T>> send(
            Scope scope, HttpClient client, HttpRequest request, Object handler, Object push) {
        return send(scope, client, request, (BodyHandler<T>) handler, (PushPromiseHandler<T>) push);
    }

    /** Sends a request inside a scope; null: it is to be sent as if there were none. */
    static <T> CompletableFuture<HttpResponse<T>> send(
            Scope scope, HttpClient client, HttpRequest request, BodyHandler<T> handler, PushPromiseHandler<T> push) {
        URI uri = request.uri();
        String path = uri.getRawPath() == null ? "" : uri.getRawPath();
        HttpCall call = HttpCall.begin(scope, uri.getScheme(), uri.getHost(), uri.getPort(), request.method(), path,
                HttpCall.tailPossible(request.method(), name -> joined(request.headers(), name)));
        if (call == null) {
            return null;
        }
        if (call.refused()) {
            call.recordRefused();
            return refused(call, request, handler);
        }
        if (!call.waits()) {
            return sent(call, client, request, handler, push);
        }
        TracedFuture<HttpResponse<T>> result = new TracedFuture<>(scope);
        long remaining = request.timeout().map(time -> time.toNanos()).orElse(Long.MAX_VALUE);
        CompletableFuture<Boolean> wait = call.later(remaining);
        result.cancels(wait);
        wait.whenComplete((send, error) -> {
            if (error != null) {
                call.failed(error);
                result.end(null, error);
            } else if (send) {
                CompletableFuture<HttpResponse<T>> library = sent(call, client, request, handler, push);
                result.cancels(library);
                library.whenComplete(result::end);
            } else {
                result.end(null, new HttpTimeoutException("request timed out"));
            }
        });
        return result;
    }

    private static <T> CompletableFuture<HttpResponse<T>> refused(HttpCall call, HttpRequest request, BodyHandler<T> handler) {
        switch (call.kind) {
            case UNAVAILABLE:
                return CompletableFuture.failedFuture(new ConnectException("Connection refused"));
            case RESET:
                return CompletableFuture.failedFuture(new IOException("Connection reset"));
            case DEADLINE:
                return CompletableFuture.failedFuture(new HttpTimeoutException("request timed out"));
            default:
                return EmptyResponse.of(call.faultStatus(), request, handler);
        }
    }

    private static <T> CompletableFuture<HttpResponse<T>> sent(
            HttpCall call, HttpClient client, HttpRequest request, BodyHandler<T> handler, PushPromiseHandler<T> push) {
        TracedFuture<HttpResponse<T>> result = new TracedFuture<>(call.scope());
        CompletableFuture<HttpResponse<T>> library;
        try {
            library = client.sendAsync(new TracedRequest(request, call), new TracedHandler<>(handler, call), push);
        } catch (RuntimeException e) {
            call.failed(e);
            throw e;
        }
        result.cancels(library);
        library.whenComplete((response, error) -> {
            if (error == null) {
                result.end(new TracedResponse<>(response, request), null);
                return;
            }
            Throwable cause = error instanceof CompletionException && error.getCause() != null ? error.getCause() : error;
            call.failed(cause);
            result.end(null, cause);
        });
        return result;
    }

    /** All values of a header, or null. */
    static String joined(HttpHeaders headers, String name) {
        java.util.List<String> values = headers.allValues(name);
        return values.isEmpty() ? null : String.join(", ", values);
    }
}
