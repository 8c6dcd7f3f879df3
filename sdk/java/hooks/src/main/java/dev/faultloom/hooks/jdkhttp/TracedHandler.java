package dev.faultloom.hooks.jdkhttp;

import dev.faultloom.http.HttpCall;
import dev.faultloom.scope.Current;
import dev.faultloom.wire.Kind;
import java.net.http.HttpClient;
import java.net.http.HttpHeaders;
import java.net.http.HttpResponse.BodyHandler;
import java.net.http.HttpResponse.BodySubscriber;
import java.net.http.HttpResponse.ResponseInfo;

/** The application's body handler, which does not see what is ours of a reply. */
final class TracedHandler<T> implements BodyHandler<T> {
    private final BodyHandler<T> handler;
    private final HttpCall call;

    TracedHandler(BodyHandler<T> handler, HttpCall call) {
        this.handler = handler;
        this.call = call;
    }

    @Override
    public BodySubscriber<T> apply(ResponseInfo info) {
        boolean tail = call.replied(info.statusCode(), name -> JdkClient.joined(info.headers(), name));
        if (call.kind == Kind.LOST_REPLY) {
            return new LostBody<>(tail, call);
        }
        BodySubscriber<T> subscriber;
        try (Current.Binding ignored = Current.bind(call.scope())) {
            subscriber = handler.apply(new Info(info, TracedResponse.cleaned(info.headers(), tail)));
        }
        return tail || call.changesBody() ? new TracedBody<>(subscriber, tail, call) : subscriber;
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
