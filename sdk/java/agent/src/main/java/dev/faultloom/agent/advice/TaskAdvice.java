package dev.faultloom.agent.advice;

import dev.faultloom.hooks.tasks.TaskPropagation;
import net.bytebuddy.asm.Advice;

/** A task that is submitted to an executor, a fork or a thread inside a scope runs inside that scope. */
public final class TaskAdvice {
    private TaskAdvice() {}

    /** For methods whose first argument is a task that runs later. */
    public static final class SubmitsArgument {
        private SubmitsArgument() {}

        @Advice.OnMethodEnter(suppress = Throwable.class)
        static void enter(@Advice.Argument(0) Object task) {
            TaskPropagation.submit(task);
        }
    }

    /** For methods of a task or thread that make it run later. */
    public static final class SubmitsThis {
        private SubmitsThis() {}

        @Advice.OnMethodEnter(suppress = Throwable.class)
        static void enter(@Advice.This Object task) {
            TaskPropagation.submit(task);
        }
    }

    /** For methods that start a thread. */
    public static final class StartsThread {
        private StartsThread() {}

        @Advice.OnMethodEnter(suppress = Throwable.class)
        static void enter(@Advice.This Object thread) {
            TaskPropagation.startThread(thread);
        }
    }

    /** For methods that start a thread for an executor, one for each task. */
    public static final class StartsTask {
        private StartsTask() {}

        @Advice.OnMethodEnter(suppress = Throwable.class)
        static void enter(@Advice.This Object thread) {
            TaskPropagation.startTask(thread);
        }
    }

    /** For constructors of tasks: a task belongs to the scope that created it, whichever thread submits it. */
    public static final class Constructor {
        private Constructor() {}

        @Advice.OnMethodExit(suppress = Throwable.class)
        static void exit(@Advice.This Object task) {
            TaskPropagation.submit(task);
        }
    }

    /** For methods of a task or thread that run it. */
    public static final class Runs {
        private Runs() {}

        @Advice.OnMethodEnter(suppress = Throwable.class)
        static Object enter(@Advice.This Object task) {
            return TaskPropagation.begin(task);
        }

        @Advice.OnMethodExit(suppress = Throwable.class, onThrowable = Throwable.class)
        static void exit(@Advice.Enter Object binding) {
            TaskPropagation.end(binding);
        }
    }

    /** For methods of a task that run it only if it is ready. */
    public static final class TriesToRun {
        private TriesToRun() {}

        @Advice.OnMethodEnter(suppress = Throwable.class)
        static Object enter(@Advice.This Object task) {
            return TaskPropagation.beginAttempt(task);
        }

        @Advice.OnMethodExit(suppress = Throwable.class, onThrowable = Throwable.class)
        static void exit(@Advice.Enter Object binding) {
            TaskPropagation.end(binding);
        }
    }

    /** For methods of a pool that start a worker thread, which must not inherit the submitter's scope. */
    public static final class StartsWorker {
        private StartsWorker() {}

        @Advice.OnMethodEnter(suppress = Throwable.class)
        static Object enter() {
            return TaskPropagation.suspend();
        }

        @Advice.OnMethodExit(suppress = Throwable.class, onThrowable = Throwable.class)
        static void exit(@Advice.Enter Object binding) {
            TaskPropagation.end(binding);
        }
    }
}
