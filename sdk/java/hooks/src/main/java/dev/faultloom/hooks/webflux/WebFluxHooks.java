package dev.faultloom.hooks.webflux;

import dev.faultloom.entry.ThisProcess;
import dev.faultloom.scope.Scope;
import java.util.Arrays;
import org.springframework.http.server.reactive.ServerHttpRequest;
import org.springframework.http.server.reactive.ServerHttpRequestDecorator;
import org.springframework.http.server.reactive.ServerHttpResponse;
import org.springframework.web.server.ServerWebExchange;

/** Spring WebFlux: the requests of its servers, at the adapter between a server and the application. */
public final class WebFluxHooks {
    private WebFluxHooks() {}

    /** Before the application handles a request. The result is for the other methods. */
    public static Object enter(Object rawRequest, Object response) {
        try {
            ServerHttpRequest request = (ServerHttpRequest) rawRequest;
            if (isServlet(request)) {
                return ServerScope.ofThread(); // the hook of servlets has opened a scope
            }
            Scope scope = ThisProcess.get().openScope(name -> Buffers.joinedValues(request.getHeaders(), name));
            return scope == null ? ServerScope.untraced() : ServerScope.of(scope, request, (ServerHttpResponse) response);
        } catch (RuntimeException | LinkageError e) {
            return null; // an error of ours must not prevent the request
        }
    }

    /**
     * Whether a servlet container has received the request. That the thread works for a request is no proof: a
     * server may begin with the next request of a connection inside the end of the previous one.
     */
    private static boolean isServlet(ServerHttpRequest request) {
        try {
            Object received = ServerHttpRequestDecorator.getNativeRequest(request);
            return implementsServlet(received.getClass());
        } catch (IllegalArgumentException e) {
            return false; // the application has replaced the request
        }
    }

    /** Compares names, because the interface may be absent. */
    private static boolean implementsServlet(Class<?> type) {
        if (type == null || type.getName().equals("jakarta.servlet.ServletRequest")) {
            return type != null;
        }
        return implementsServlet(type.getSuperclass()) || Arrays.stream(type.getInterfaces()).anyMatch(WebFluxHooks::implementsServlet);
    }

    /** The response for the application. */
    public static Object response(Object entered, Object response) {
        TracedResponse traced = entered == null ? null : ((ServerScope) entered).response();
        return traced == null ? response : traced;
    }

    /** An exchange was created, which has the name of the route later. */
    public static void exchange(Object exchange, Object response) {
        if (response instanceof TracedResponse) {
            ((TracedResponse) response).reply().setExchange((ServerWebExchange) exchange);
        }
    }

    /** After the application has returned the publisher of its work, or has thrown. Returns the publisher. */
    public static Object exit(Object entered, Object result) {
        return entered == null ? result : ((ServerScope) entered).exit(result);
    }
}
