package dev.faultloom.hooks.webflux;

import dev.faultloom.hooks.reactor.ReactorHooks;
import dev.faultloom.scope.CurrentScope;
import dev.faultloom.scope.Scope;
import dev.faultloom.scope.ScopeContext;
import org.springframework.http.server.reactive.ServerHttpRequest;
import org.springframework.http.server.reactive.ServerHttpResponse;
import reactor.core.publisher.Mono;

/** A request that an application handles. It ends with the publisher that the application returned. */
final class ServerScope {
    private final ScopeContext context; // or null: unknown
    private final TracedResponse response; // or null: the request is not traced here
    private final boolean endsHere;
    private final CurrentScope.Binding binding;

    private ServerScope(ScopeContext context, TracedResponse response, boolean endsHere) {
        this.context = context;
        this.response = response;
        this.endsHere = endsHere;
        this.binding = context == null ? null : context.bind();
    }

    static ServerScope of(Scope scope, ServerHttpRequest request, ServerHttpResponse response) {
        return new ServerScope(scope.context(), new TracedResponse(response, new ServerReply(scope, request, response)), true);
    }

    /** A request without a scope. Its calls belong to it, so no scope counts them. */
    static ServerScope untraced() {
        return new ServerScope(ScopeContext.untraced(), null, true);
    }

    /** A request that another hook has bound to this thread. */
    static ServerScope ofThread() {
        return new ServerScope(CurrentScope.context(), null, false);
    }

    TracedResponse response() {
        return response;
    }

    Object exit(Object result) {
        if (binding != null) {
            binding.close();
        }
        if (result == null) {
            end(); // the application has thrown
        }
        if (context == null || result == null) {
            return result;
        }
        @SuppressWarnings("unchecked")
        Mono<Void> work = (Mono<Void>) result;
        // before the server gets the end and continues with the next request
        return ReactorHooks.enter(endsHere ? work.doOnTerminate(this::end).doOnCancel(this::end) : work, context);
    }

    private void end() {
        if (!endsHere) {
            return;
        }
        if (response != null) {
            response.reply().finishInHeader(500); // if no reply was sent
        }
        context.end();
    }
}
