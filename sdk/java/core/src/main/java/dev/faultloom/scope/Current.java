package dev.faultloom.scope;

import java.util.concurrent.Callable;

/**
 * The scope of the work that the current thread is doing. Calls made while it is bound belong to it; without one they are
 * left alone.
 */
public final class Current {
    private static final ThreadLocal<Scope> SCOPE = new ThreadLocal<>();

    private Current() {}

    /** What ends a binding: the thread's scope is again what it was before. To be closed by the thread that has it. */
    public static final class Binding implements AutoCloseable {
        private final Scope before;

        Binding(Scope before) {
            this.before = before;
        }

        @Override
        public void close() {
            set(before);
        }
    }

    /**
     * The current thread's scope, or null. Null also where no scope of the process has still to answer: then the thread is not
     * asked at all, which every call and every task that nobody traces would pay for.
     */
    public static Scope get() {
        return Scope.anyLive() ? SCOPE.get() : null;
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

    /** The same task, run with the scope that is current now; itself if there is none. */
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
