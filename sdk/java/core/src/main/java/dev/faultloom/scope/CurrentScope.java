package dev.faultloom.scope;

import java.util.concurrent.Callable;

/**
 * The scope that the current thread works for. Calls sent while a scope is bound belong to it; without a scope, calls
 * are sent unchanged.
 */
public final class CurrentScope {
    private static final ThreadLocal<Scope> SCOPE = new ThreadLocal<>();

    private CurrentScope() {}

    /** A bound scope. Closing it restores the thread's previous scope; close it on the thread that bound it. */
    public static final class Binding implements AutoCloseable {
        private final Scope previous;

        Binding(Scope previous) {
            this.previous = previous;
        }

        @Override
        public void close() {
            set(previous);
        }
    }

    /**
     * The current thread's scope, or null. Also null if no scope of the process is unfinished: this skips the
     * thread-local lookup, which every untraced call and task would otherwise pay for.
     */
    public static Scope get() {
        return Scope.anyUnfinished() ? SCOPE.get() : null;
    }

    /** Binds a scope (null: none) to the current thread until the result is closed. */
    public static Binding bind(Scope scope) {
        Binding binding = new Binding(SCOPE.get());
        set(scope);
        return binding;
    }

    private static void set(Scope scope) {
        if (scope == null) {
            SCOPE.remove();
        } else {
            SCOPE.set(scope);
        }
    }

    /** A task that runs with the scope that is current now; without a scope, the task itself. */
    public static Runnable wrap(Runnable task) {
        Scope scope = get();
        if (scope == null) {
            return task;
        }
        return () -> {
            try (Binding ignored = bind(scope)) {
                task.run();
            }
        };
    }

    /** {@link #wrap(Runnable)} for a task with a result. */
    public static <T> Callable<T> wrap(Callable<T> task) {
        Scope scope = get();
        if (scope == null) {
            return task;
        }
        return () -> {
            try (Binding ignored = bind(scope)) {
                return task.call();
            }
        };
    }
}
