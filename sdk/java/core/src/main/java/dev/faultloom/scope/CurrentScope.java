package dev.faultloom.scope;

import java.util.concurrent.Callable;

/**
 * The scope that the current thread works for. Calls sent while a scope is bound belong to it; without a scope, calls
 * are sent unchanged.
 *
 * <p>A thread that is created by one with a scope inherits it, for calls that belong to no other request. Such calls
 * are marked.
 */
public final class CurrentScope {
    private static final ThreadLocal<ScopeContext> CONTEXT = new InheritableThreadLocal<>() {
        @Override
        protected ScopeContext childValue(ScopeContext parent) {
            return parent == null ? null : parent.inherit();
        }
    };

    private CurrentScope() {}

    /** A bound scope. Closing it restores the thread's previous scope; close it on the thread that bound it. */
    public static final class Binding implements AutoCloseable {
        private final ScopeContext previous;
        private final ScopeContext ends; // or null

        Binding(ScopeContext previous, ScopeContext ends) {
            this.previous = previous;
            this.ends = ends;
        }

        @Override
        public void close() {
            set(previous);
            if (ends != null) {
                ends.end();
            }
        }
    }

    /**
     * The current thread's unfinished scope, bound or inherited, or null. If no scope of the process is unfinished,
     * this skips the thread-local lookup, which every untraced call and task would otherwise pay for.
     */
    public static Scope get() {
        ScopeContext context = context();
        return context == null ? null : context.scope();
    }

    /** What the current thread works for, or null: unknown, or no scope of the process is unfinished. */
    public static ScopeContext context() {
        return Scope.anyUnfinished() ? CONTEXT.get() : null;
    }

    /** Whether the current thread works for an unanswered request, traced or not. */
    public static boolean isBound() {
        ScopeContext context = CONTEXT.get();
        return context != null && !context.isInherited() && (context.isUntraced() || context.scope() != null);
    }

    /** Binds a request that is not traced to the current thread. Closing the result ends the request. */
    public static Binding bindUntraced() {
        ScopeContext request = ScopeContext.untraced();
        Binding binding = new Binding(CONTEXT.get(), request);
        set(request);
        return binding;
    }

    /** Binds a scope (null: none) to the current thread until the result is closed. */
    public static Binding bind(Scope scope) {
        return bindContext(scope == null ? null : scope.context());
    }

    static Binding bindContext(ScopeContext context) {
        Binding binding = new Binding(CONTEXT.get(), null);
        set(context);
        return binding;
    }

    private static void set(ScopeContext context) {
        if (context == null) {
            CONTEXT.remove();
        } else {
            CONTEXT.set(context);
        }
    }

    /** A task that runs with the scope that is current now; without a scope, the task itself. */
    public static Runnable wrap(Runnable task) {
        ScopeContext context = context();
        if (context == null) {
            return task;
        }
        return () -> {
            try (Binding ignored = context.bind()) {
                task.run();
            }
        };
    }

    /** {@link #wrap(Runnable)} for a task with a result. */
    public static <T> Callable<T> wrap(Callable<T> task) {
        ScopeContext context = context();
        if (context == null) {
            return task;
        }
        return () -> {
            try (Binding ignored = context.bind()) {
                return task.call();
            }
        };
    }
}
