package dev.faultloom.hooks.jdkhttp;

import dev.faultloom.hooks.http.HttpCall;
import dev.faultloom.scope.CurrentScope;
import java.net.http.HttpClient;
import java.net.http.HttpHeaders;
import java.net.http.HttpResponse.BodyHandler;
import java.net.http.HttpResponse.BodySubscriber;
import java.net.http.HttpResponse.ResponseInfo;

/** Wraps the application's body handler, which gets neither our headers nor the tail. */
final class TracedBodyHandler<T> implements BodyHandler<T> {
    private final BodyHandler<T> handler;
    private final HttpCall call;

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
        BodySubscriber<T> subscriber;
        try (CurrentScope.Binding ignored = CurrentScope.bind(call.scope())) {
            subscriber = handler.apply(new Info(info, TracedResponse.withoutOurHeaders(info.headers(), tail)));
        }
        return tail || call.effect.changesBody() ? new TracedSubscriber<>(subscriber, tail, call) : subscriber;
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
