package dev.faultloom.hooks.grpc;

import dev.faultloom.scope.CurrentScope;
import dev.faultloom.scope.Scope;
import io.grpc.Context;

/** Finds the current scope: of the thread, or of {@code io.grpc.Context}, which applications propagate themselves. */
final class GrpcScopes {
    // the listener and not the scope, because the scope may begin later
    private static final Context.Key<TracedServerListener<?>> KEY = Context.key("faultloom");

    private GrpcScopes() {}

    static Scope current() {
        if (!Scope.anyUnfinished()) {
            return null; // skips the lookup in the context
        }
        Scope scope = CurrentScope.get();
        if (scope != null) {
            return scope;
        }
        TracedServerListener<?> request = KEY.get();
        return request == null ? null : request.scope();
    }

    /** The current context, with the present or future scope of this request. */
    static Context contextOf(TracedServerListener<?> request) {
        return Context.current().withValue(KEY, request);
    }
}
