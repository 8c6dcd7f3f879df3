package dev.faultloom.hooks.jdkhttp;

import dev.faultloom.scope.CurrentScope;
import dev.faultloom.scope.ScopeContext;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.Future;

/** The result of a traced send: dependent stages run inside the scope, and canceling it cancels the pending step. */
final class TracedFuture<T> extends CompletableFuture<T> {
    private final ScopeContext context;
    private volatile Future<?> pendingStep;

    TracedFuture(ScopeContext context) {
        this.context = context;
    }

    void setPendingStep(Future<?> step) {
        pendingStep = step;
        if (isCancelled()) {
            step.cancel(true);
        }
    }

    void complete(T value, Throwable error) {
        try (CurrentScope.Binding ignored = context.bind()) {
            if (error == null) {
                complete(value);
            } else {
                completeExceptionally(error);
            }
        }
    }

    @Override
    public boolean cancel(boolean interrupt) {
        Future<?> step = pendingStep;
        if (step != null) {
            step.cancel(interrupt); // completes this future with the library's exception
        }
        return super.cancel(interrupt);
    }
}
