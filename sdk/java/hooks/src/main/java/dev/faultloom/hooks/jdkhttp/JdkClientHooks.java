package dev.faultloom.hooks.jdkhttp;

import dev.faultloom.hooks.http.HttpCall;
import dev.faultloom.scope.CurrentScope;
import dev.faultloom.scope.Scope;
import dev.faultloom.scope.ScopeContext;
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
import java.util.List;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CompletionException;

/** {@code java.net.http}: sends the requests of a scope. Synchronous sends of the library use the same path. */
public final class JdkClientHooks {
    private JdkClientHooks() {}

    /** Sends a traced request in place of the library; null: the library continues. */
    public static Object sendInstead(Object client, Object request, Object handler, Object push) {
        // compares names: an application that also uses TracedClient may have loaded that class from its own class path
        if (!Scope.anyUnfinished() || request.getClass().getName().equals(TracedRequest.class.getName())) {
            return null;
        }
        return send(CurrentScope.context(), (HttpClient) client, (HttpRequest) request, handler, push);
    }

    @SuppressWarnings("unchecked")
    private static <T> CompletableFuture<HttpResponse<T>> send(
            ScopeContext context, HttpClient client, HttpRequest request, Object handler, Object push) {
        return send(context, client, request, (BodyHandler<T>) handler, (PushPromiseHandler<T>) push);
    }

    /** Sends a request in this context; null: it belongs to no scope and must be sent unchanged. */
    static <T> CompletableFuture<HttpResponse<T>> send(
            ScopeContext context, HttpClient client, HttpRequest request, BodyHandler<T> handler, PushPromiseHandler<T> push) {
        URI uri = request.uri();
        String path = uri.getRawPath() == null ? "" : uri.getRawPath();
        boolean tail = HttpCall.canRemoveTail(request.method(), name -> joinedValues(request.headers(), name));
        long timeoutNanos = request.timeout().map(timeout -> timeout.toNanos()).orElse(Long.MAX_VALUE);
        HttpCall call = HttpCall.begin(
                context, uri.getScheme(), uri.getHost(), uri.getPort(), request.method(), path, tail, timeoutNanos);
        if (call == null) {
            return null;
        }
        if (!call.effect.waits()) {
            return call.effect.sends ? sendNow(call, client, request, handler, push) : endUnsent(call, request, handler);
        }
        TracedFuture<HttpResponse<T>> result = new TracedFuture<>(context);
        CompletableFuture<Boolean> wait = call.waitForFaultAsync();
        result.setPendingStep(wait);
        wait.whenComplete((sends, error) -> {
            if (error != null) {
                call.recordFailure(error);
                result.complete(null, error);
                return;
            }
            CompletableFuture<HttpResponse<T>> next =
                    sends ? sendNow(call, client, request, handler, push) : endUnsent(call, request, handler);
            result.setPendingStep(next);
            next.whenComplete(result::complete);
        });
        return result;
    }

    /** Ends a request that a fault does not send. */
    private static <T> CompletableFuture<HttpResponse<T>> endUnsent(HttpCall call, HttpRequest request, BodyHandler<T> handler) {
        call.recordUnsent();
        switch (call.effect.end.outcome) {
            case REFUSED:
                return CompletableFuture.failedFuture(new ConnectException("Connection refused"));
            case RESET:
                return CompletableFuture.failedFuture(new IOException("Connection reset"));
            case STATUS:
                return PlainResponse.empty(call.faultStatus(), request, handler);
            default:
                return CompletableFuture.failedFuture(new HttpTimeoutException("request timed out"));
        }
    }

    private static <T> CompletableFuture<HttpResponse<T>> sendNow(
            HttpCall call, HttpClient client, HttpRequest request, BodyHandler<T> handler, PushPromiseHandler<T> push) {
        TracedFuture<HttpResponse<T>> result = new TracedFuture<>(call.context());
        TracedBodyHandler<T> traced = new TracedBodyHandler<>(handler, call);
        CompletableFuture<HttpResponse<T>> library;
        try {
            library = client.sendAsync(new TracedRequest(request, call), traced, push);
        } catch (RuntimeException e) {
            call.recordFailure(e);
            throw e;
        }
        result.setPendingStep(library);
        library.whenComplete((response, error) -> {
            if (error == null) {
                result.complete(new TracedResponse<>(response, request), null);
                return;
            }
            Throwable cause = error instanceof CompletionException && error.getCause() != null ? error.getCause() : error;
            PlainResponse<T> available = library.isCancelled() ? null : traced.responseWithBody(request);
            if (available != null) {
                result.complete(available, null); // the subscriber has recorded the end of the call
                return;
            }
            call.recordFailure(cause);
            result.complete(null, cause);
        });
        return result;
    }

    /** All values of a header, joined; or null. */
    static String joinedValues(HttpHeaders headers, String name) {
        List<String> values = headers.allValues(name);
        return values.isEmpty() ? null : String.join(", ", values);
    }
}
