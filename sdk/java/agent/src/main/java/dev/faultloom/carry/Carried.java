package dev.faultloom.carry;

import dev.faultloom.scope.Current;
import dev.faultloom.scope.Scope;
import java.lang.ref.ReferenceQueue;
import java.lang.ref.WeakReference;
import java.util.concurrent.ConcurrentHashMap;

/**
 * Carries scopes to where work goes on: from the place where a task is handed over to the thread that runs it.
 *
 * <p>Tasks are not wrapped, because queues, comparators and {@code remove} know them by identity; what belongs to a task
 * stands in a table beside it. Advice in the JDK's executors calls this. Outside scopes the table is empty, and a look at
 * that is all it costs.
 */
public final class Carried {
    /** So that tasks which are never run cannot pile up between two garbage collections. */
    private static final int MAX_TASKS = 1 << 16;

    private static final ConcurrentHashMap<Key, Scope> SCOPES = new ConcurrentHashMap<>();
    private static final ReferenceQueue<Object> COLLECTED = new ReferenceQueue<>();
    private static volatile boolean used;

    private Carried() {}

    /** Notes the current scope, if there is one, as the task's. */
    public static void put(Object task) {
        Scope scope = Current.get();
        if (scope == null || task == null) {
            return;
        }
        for (Object gone; (gone = COLLECTED.poll()) != null; ) {
            SCOPES.remove(gone);
        }
        if (SCOPES.size() < MAX_TASKS) {
            SCOPES.put(new Key(task, COLLECTED), scope);
            used = true;
        }
    }

    /** Enters the scope of a task that begins to run, once; the result is for {@link #end}. */
    public static Object begin(Object task) {
        if (!used || SCOPES.isEmpty()) {
            return null;
        }
        Scope scope = SCOPES.remove(new Look(task));
        return scope == null ? null : Current.bind(scope);
    }

    /** As {@link #begin}, for a task that may be tried more than once before it runs. */
    public static Object beginAgain(Object task) {
        if (!used || SCOPES.isEmpty()) {
            return null;
        }
        Scope scope = SCOPES.get(new Look(task));
        return scope == null ? null : Current.bind(scope);
    }

    /** Leaves the current scope until {@link #end}. */
    public static Object suspend() {
        return Current.get() == null ? null : Current.bind(null);
    }

    /** Goes back to what was before; {@code begun}: what one of the others returned. */
    public static void end(Object begun) {
        if (begun != null) {
            ((Current.Binding) begun).close();
        }
    }

    /** Stands in for {@code task.run()} in a pool's worker. */
    public static void run(Runnable task) {
        Object begun = begin(task);
        try {
            task.run();
        } finally {
            end(begun);
        }
    }

    /** A task in the table, which does not keep it alive. */
    private static final class Key extends WeakReference<Object> {
        private final int hash;

        Key(Object task, ReferenceQueue<Object> queue) {
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
            return task != null && other instanceof Key && ((Key) other).get() == task;
        }
    }

    /** A task to be looked up; the table asks the one that is looked up whether it equals the one in it. */
    private static final class Look {
        private final Object task;

        Look(Object task) {
            this.task = task;
        }

        @Override
        public int hashCode() {
            return System.identityHashCode(task);
        }

        @Override
        public boolean equals(Object other) {
            return other instanceof Key && ((Key) other).get() == task;
        }
    }
}
