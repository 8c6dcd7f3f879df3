package dev.faultloom.hooks.grpc;

import dev.faultloom.scope.CurrentScope;
import dev.faultloom.scope.Scope;
import dev.faultloom.scope.ScopeContext;
import io.grpc.Context;

/** Finds the current scope: of the thread, or of {@code io.grpc.Context}, which applications propagate themselves. */
final class GrpcScopes {
    // the listener and not the scope, because the scope may begin later
    private static final Context.Key<TracedServerListener<?>> KEY = Context.key("faultloom");

    private GrpcScopes() {}

    /** What the running code works for, or null: unknown, or no scope of the process is unfinished. */
    static ScopeContext current() {
        if (!Scope.anyUnfinished()) {
            return null; // skips the lookup in the context
        }
        ScopeContext thread = CurrentScope.context();
        if (thread != null && thread.scope() != null && !thread.isInherited()) {
            return thread;
        }
        TracedServerListener<?> request = KEY.get();
        if (request == null) {
            return thread;
        }
        Scope scope = request.scope();
        return scope == null ? request.untraced() : scope.context();
    }

    /** The current context, with the present or future scope of this request. */
    static Context contextOf(TracedServerListener<?> request) {
        return Context.current().withValue(KEY, request);
    }
}
