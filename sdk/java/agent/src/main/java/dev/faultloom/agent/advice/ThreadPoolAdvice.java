package dev.faultloom.agent.advice;

import dev.faultloom.carry.Carried;
import net.bytebuddy.asm.Advice;

/** What is handed to an executor, fork or thread inside a scope runs inside it. */
public final class ThreadPoolAdvice {
    private ThreadPoolAdvice() {}

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

    /** A method of a task, or thread, that runs it. */
    public static final class Runs {
        private Runs() {}

        @Advice.OnMethodEnter(suppress = Throwable.class)
        static Object enter(@Advice.This Object task) {
            return Carried.begin(task);
        }

        @Advice.OnMethodExit(suppress = Throwable.class, onThrowable = Throwable.class)
        static void exit(@Advice.Enter Object before) {
            Carried.end(before);
        }
    }

    /** A pool's method that starts a worker: the worker is not part of the scope in which it happens to be needed. */
    public static final class StartsWorker {
        private StartsWorker() {}

        @Advice.OnMethodEnter(suppress = Throwable.class)
        static Object enter() {
            return Carried.suspend();
        }

        @Advice.OnMethodExit(suppress = Throwable.class, onThrowable = Throwable.class)
        static void exit(@Advice.Enter Object before) {
            Carried.end(before);
        }
    }
}
