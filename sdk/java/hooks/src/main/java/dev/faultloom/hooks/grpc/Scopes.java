package dev.faultloom.hooks.grpc;

import dev.faultloom.scope.Current;
import dev.faultloom.scope.Scope;
import io.grpc.Context;

/** A scope's two places: the thread, and grpc-java's context for programs that carry that along by themselves. */
final class Scopes {
    private static final Context.Key<Scope> KEY = Context.key("faultloom");

    private Scopes() {}

    static Scope current() {
        Scope scope = Current.get();
        return scope != null ? scope : KEY.get();
    }

    static Context with(Scope scope) {
        return Context.current().withValue(KEY, scope);
    }
}
