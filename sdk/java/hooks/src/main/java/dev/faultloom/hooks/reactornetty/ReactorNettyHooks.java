package dev.faultloom.hooks.reactornetty;

import dev.faultloom.hooks.http.HttpCall;
import dev.faultloom.hooks.reactor.ReactorHooks;
import dev.faultloom.scope.Scope;
import dev.faultloom.scope.ScopeContext;
import dev.faultloom.scope.UnscopedCalls;
import java.net.URI;
import reactor.core.CoreSubscriber;
import reactor.netty.http.client.HttpClientConfig;

/**
 * The HTTP client of Reactor Netty: requests that did not come through a hook above it are not traced, so they are
 * counted, also by the scope that they belong to.
 */
public final class ReactorNettyHooks {
    private ReactorNettyHooks() {}

    /** Before a request. */
    public static void count(Object configuration, Object subscriber) {
        if (!Scope.anyUnfinished() || ReactorHooks.isKnown(((CoreSubscriber<?>) subscriber).currentContext())) {
            return;
        }
        ScopeContext context = ReactorHooks.context(((CoreSubscriber<?>) subscriber).currentContext());
        if (context == null || !context.isUntraced()) {
            HttpClientConfig client = (HttpClientConfig) configuration;
            URI uri = address(client);
            String path = uri.getRawPath() == null ? "" : uri.getRawPath();
            UnscopedCalls.addHttp(HttpCall.authority(uri), String.valueOf(client.method()), path);
        }
    }

    private static URI address(HttpClientConfig client) {
        String uri = client.uri() == null ? "" : client.uri();
        try {
            return URI.create(uri.startsWith("/") && client.baseUrl() != null ? client.baseUrl() + uri : uri);
        } catch (IllegalArgumentException e) {
            return URI.create("http:///");
        }
    }
}
