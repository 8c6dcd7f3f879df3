package dev.faultloom.hooks.tasks;

import dev.faultloom.scope.CurrentScope;
import dev.faultloom.scope.ScopeContext;
import java.lang.ref.ReferenceQueue;
import java.lang.ref.WeakReference;
import java.util.concurrent.ConcurrentHashMap;

/**
 * Propagates scopes from the thread that submits a task to the thread that runs it. Called by advice in the JDK's
 * executors.
 *
 * <p>Tasks are not wrapped, because queues, comparators and {@code remove} identify them by reference. Instead, a table
 * maps tasks to scopes. Without scopes the table is empty, and one check is the only cost.
 */
public final class TaskPropagation {
    /** Bounds the tasks that are never run, until a garbage collection removes them. */
    private static final int MAX_TASKS = 1 << 16;

    private static final ConcurrentHashMap<TaskReference, ScopeContext> SCOPES = new ConcurrentHashMap<>();
    private static final ReferenceQueue<Object> COLLECTED = new ReferenceQueue<>();
    private static volatile boolean used;

    private TaskPropagation() {}

    /** Assigns the current scope, if any, to a task that will run later. */
    public static void submit(Object task) {
        ScopeContext context = CurrentScope.context();
        if (context != null && task != null) {
            removeCollected();
            if (SCOPES.size() < MAX_TASKS) {
                SCOPES.put(new TaskReference(task, COLLECTED), context);
                used = true;
            }
        }
    }

    /** Assigns the current scope, if any, to a thread that will run: its calls are marked as inherited. */
    public static void startThread(Object thread) {
        ScopeContext context = CurrentScope.context();
        ScopeContext inherited = context == null ? null : context.inherit();
        if (inherited != null) {
            removeCollected();
            if (SCOPES.size() < MAX_TASKS) {
                SCOPES.put(new TaskReference(thread, COLLECTED), inherited);
                used = true;
            }
        }
    }

    /** {@link #submit} for the thread of an executor that starts one for each task. */
    public static void startTask(Object thread) {
        if (CurrentScope.context() != null && !SCOPES.containsKey(new TaskLookup(thread))) { // else startThread was called
            submit(thread);
        }
    }

    private static void removeCollected() {
        for (Object collected; (collected = COLLECTED.poll()) != null; ) {
            SCOPES.remove(collected);
        }
    }

    /** Binds the scope of a task that starts to run. The task's entry is removed. The result is for {@link #end}. */
    public static Object begin(Object task) {
        if (!used || SCOPES.isEmpty()) {
            return null;
        }
        ScopeContext context = SCOPES.remove(new TaskLookup(task));
        return context == null ? null : context.bind();
    }

    /** {@link #begin} for a task that may be tried several times before it runs. The task's entry is kept. */
    public static Object beginAttempt(Object task) {
        if (!used || SCOPES.isEmpty()) {
            return null;
        }
        ScopeContext context = SCOPES.get(new TaskLookup(task));
        return context == null ? null : context.bind();
    }

    /** Unbinds the current scope until {@link #end}. */
    public static Object suspend() {
        return CurrentScope.context() == null ? null : CurrentScope.bind(null);
    }

    /** Restores the previous scope. {@code binding}: the result of one of the other methods. */
    public static void end(Object binding) {
        if (binding != null) {
            ((CurrentScope.Binding) binding).close();
        }
    }

    /** Replaces {@code task.run()} in the worker of a pool. */
    public static void run(Runnable task) {
        Object binding = begin(task);
        try {
            task.run();
        } finally {
            end(binding);
        }
    }

    /** A key of the table: a weak reference, compared by the identity of the task. */
    private static final class TaskReference extends WeakReference<Object> {
        private final int hash;

        TaskReference(Object task, ReferenceQueue<Object> queue) {
            super(task, queue);
            hash = System.identityHashCode(task);
        }

        @Override
        public int hashCode() {
            return hash;
        }

        @Override
        public boolean equals(Object other) {
            if (this == other) {
                return true;
            }
            Object task = get();
            return task != null && other instanceof TaskReference && ((TaskReference) other).get() == task;
        }
    }

    /** A lookup key, without a weak reference. The table calls {@code equals} on the key that is looked up. */
    private static final class TaskLookup {
        private final Object task;

        TaskLookup(Object task) {
            this.task = task;
        }

        @Override
        public int hashCode() {
            return System.identityHashCode(task);
        }

        @Override
        public boolean equals(Object other) {
            return other instanceof TaskReference && ((TaskReference) other).get() == task;
        }
    }
}
