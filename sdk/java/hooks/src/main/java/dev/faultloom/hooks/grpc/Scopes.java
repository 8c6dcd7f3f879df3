package dev.faultloom.hooks.grpc;

import dev.faultloom.scope.Current;
import dev.faultloom.scope.Scope;
import io.grpc.Context;

/** A scope's two places: the thread, and grpc-java's context for programs that carry that along by themselves. */
final class Scopes {
    private static final Context.Key<ServedListener<?>> KEY = Context.key("faultloom"); // whose scope may still come

    private Scopes() {}

    static Scope current() {
        if (!Scope.anyLive()) {
            return null; // the context is not asked either
        }
        Scope scope = Current.get();
        if (scope != null) {
            return scope;
        }
        ServedListener<?> request = KEY.get();
        return request == null ? null : request.scope();
    }

    /** The current context, with the scope that this request has or gets. */
    static Context with(ServedListener<?> request) {
        return Context.current().withValue(KEY, request);
    }
}
