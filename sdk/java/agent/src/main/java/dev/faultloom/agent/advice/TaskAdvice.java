package dev.faultloom.agent.advice;

import dev.faultloom.carry.Carried;
import net.bytebuddy.asm.Advice;

/** What is handed to an executor, fork or thread inside a scope runs inside it. */
public final class TaskAdvice {
    private TaskAdvice() {}

    /** A method whose first argument is a task that will run later. */
    public static final class Handed {
        private Handed() {}

        @Advice.OnMethodEnter(suppress = Throwable.class)
        static void enter(@Advice.Argument(0) Object task) {
            Carried.put(task);
        }
    }

    /** A method of a task, or thread, that makes it run later. */
    public static final class HandsItself {
        private HandsItself() {}

        @Advice.OnMethodEnter(suppress = Throwable.class)
        static void enter(@Advice.This Object task) {
            Carried.put(task);
        }
    }

    /** A task's constructor: it belongs to the scope that made it, whoever hands it over. */
    public static final class Made {
        private Made() {}

        @Advice.OnMethodExit(suppress = Throwable.class)
        static void exit(@Advice.This Object task) {
            Carried.put(task);
        }
    }

    /** A method of a task, or thread, that runs it. */
    public static final class Runs {
        private Runs() {}

        @Advice.OnMethodEnter(suppress = Throwable.class)
        static Object enter(@Advice.This Object task) {
            return Carried.begin(task);
        }

        @Advice.OnMethodExit(suppress = Throwable.class, onThrowable = Throwable.class)
        static void exit(@Advice.Enter Object begun) {
            Carried.end(begun);
        }
    }

    /** A method of a task that may find that it cannot run yet. */
    public static final class Tries {
        private Tries() {}

        @Advice.OnMethodEnter(suppress = Throwable.class)
        static Object enter(@Advice.This Object task) {
            return Carried.beginAgain(task);
        }

        @Advice.OnMethodExit(suppress = Throwable.class, onThrowable = Throwable.class)
        static void exit(@Advice.Enter Object begun) {
            Carried.end(begun);
        }
    }

    /** A pool's method that starts a worker, which is no part of the scope in which it happens to be needed. */
    public static final class StartsWorker {
        private StartsWorker() {}

        @Advice.OnMethodEnter(suppress = Throwable.class)
        static Object enter() {
            return Carried.suspend();
        }

        @Advice.OnMethodExit(suppress = Throwable.class, onThrowable = Throwable.class)
        static void exit(@Advice.Enter Object begun) {
            Carried.end(begun);
        }
    }
}
