package dev.faultloom.hooks.jdkhttp;

import dev.faultloom.scope.Current;
import dev.faultloom.scope.Scope;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.Future;

/** What a send returns: what hangs on it goes on inside the scope, and cancelling it cancels what it waits for. */
final class TracedFuture<T> extends CompletableFuture<T> {
    private final Scope scope;
    private volatile Future<?> cause;

    TracedFuture(Scope scope) {
        this.scope = scope;
    }

    void cancels(Future<?> cause) {
        this.cause = cause;
        if (isCancelled()) {
            cause.cancel(true);
        }
    }

    void end(T value, Throwable error) {
        try (Current.Binding ignored = Current.bind(scope)) {
            if (error == null) {
                complete(value);
            } else {
                completeExceptionally(error);
            }
        }
    }

    @Override
    public boolean cancel(boolean interrupt) {
        Future<?> waiting = cause;
        boolean done = super.cancel(interrupt);
        if (waiting != null) {
            waiting.cancel(interrupt);
        }
        return done;
    }
}
