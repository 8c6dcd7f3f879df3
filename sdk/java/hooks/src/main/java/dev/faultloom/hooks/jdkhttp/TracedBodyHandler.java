package dev.faultloom.hooks.jdkhttp;

import dev.faultloom.hooks.http.HttpCall;
import dev.faultloom.scope.CurrentScope;
import java.net.http.HttpClient;
import java.net.http.HttpHeaders;
import java.net.http.HttpRequest;
import java.net.http.HttpResponse.BodyHandler;
import java.net.http.HttpResponse.BodySubscriber;
import java.net.http.HttpResponse.ResponseInfo;
import java.util.concurrent.CompletableFuture;

/** Wraps the application's body handler, which gets neither our headers nor the tail. */
final class TracedBodyHandler<T> implements BodyHandler<T> {
    private final BodyHandler<T> handler;
    private final HttpCall call;
    /** What the application's handler got; set before {@link #subscriber}. */
    private ResponseInfo received;
    /** Null as long as there is none. */
    private volatile TracedSubscriber<T> subscriber;

    TracedBodyHandler(BodyHandler<T> handler, HttpCall call) {
        this.handler = handler;
        this.call = call;
    }

    @Override
    public BodySubscriber<T> apply(ResponseInfo info) {
        boolean tail = call.replyStarted(info.statusCode(), name -> JdkClientHooks.joinedValues(info.headers(), name));
        if (call.effect.losesReply()) {
            return new LostReplySubscriber<>(tail, call);
        }
        received = new Info(info, TracedResponse.withoutOurHeaders(info.headers(), tail));
        BodySubscriber<T> application;
        try (CurrentScope.Binding ignored = call.context().bind()) {
            application = handler.apply(received);
        }
        return tail || call.effect.changesBody() ? subscriber = new TracedSubscriber<>(application, tail, call) : application;
    }

    /**
     * The response to a request that failed after a body was available that the application reads itself, such as a
     * stream; else null. The library asks a subscriber of its own for the body at once, but ours in a task that runs
     * later, and a connection that breaks off in between makes the send fail. The application gets the error when it
     * reads the body, as without tracing.
     */
    PlainResponse<T> responseWithBody(HttpRequest request) {
        TracedSubscriber<T> failed = subscriber;
        if (failed == null || !failed.hasEnded()) {
            return null;
        }
        try {
            CompletableFuture<T> body = failed.getBody().toCompletableFuture();
            return body.isDone() ? new PlainResponse<>(received, request, body.join()) : null;
        } catch (RuntimeException e) {
            return null; // the application's subscriber has failed too
        }
    }

    private static final class Info implements ResponseInfo {
        private final ResponseInfo info;
        private final HttpHeaders headers;

        Info(ResponseInfo info, HttpHeaders headers) {
            this.info = info;
            this.headers = headers;
        }

        @Override
        public int statusCode() {
            return info.statusCode();
        }

        @Override
        public HttpHeaders headers() {
            return headers;
        }

        @Override
        public HttpClient.Version version() {
            return info.version();
        }
    }
}
