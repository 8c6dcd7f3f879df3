package dev.faultloom.scope;

import dev.faultloom.wire.Fault;
import dev.faultloom.wire.Kind;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ScheduledFuture;
import java.util.concurrent.ScheduledThreadPoolExecutor;
import java.util.concurrent.TimeUnit;

/**
 * Waits for what a delay or hang asks, at most 30 s, until the caller's own deadline, or until faults are switched off at
 * this service.
 */
public final class Waits {
    private static final long MAX_MS = 30_000;
    private static final long LOOK_NANOS = 200_000_000;

    private Waits() {}

    /** The time that a delay or hang takes. */
    static long nanos(Fault f) {
        boolean own = Long.compareUnsigned(f.arg, MAX_MS) < 0 && (f.arg != 0 || f.kind == Kind.DELAY);
        return TimeUnit.MILLISECONDS.toNanos(own ? f.arg : MAX_MS);
    }

    /**
     * Blocks. False if the caller's deadline came first.
     *
     * @param remaining nanoseconds until the caller's own deadline; Long.MAX_VALUE: none
     */
    public static boolean await(Process process, Fault fault, long remaining) throws InterruptedException {
        long begun = System.nanoTime();
        long wanted = nanos(fault);
        while (true) {
            long passed = System.nanoTime() - begun;
            if (passed >= wanted) {
                return true;
            }
            if (passed >= remaining) {
                return false;
            }
            long next = Math.min(LOOK_NANOS, Math.min(wanted, remaining) - passed);
            TimeUnit.NANOSECONDS.sleep(next);
            if (!process.receiver().faultsOn()) {
                return true;
            }
        }
    }

    /**
     * Does not block: the result is completed, by a thread of its own on which nothing long may run, as {@link #await}
     * returns. Cancelling it ends the wait.
     */
    public static CompletableFuture<Boolean> later(Process process, Fault fault, long remaining) {
        long begun = System.nanoTime();
        long wanted = nanos(fault);
        CompletableFuture<Boolean> result = new CompletableFuture<>();
        step(process, result, begun, wanted, remaining);
        return result;
    }

    private static void step(Process process, CompletableFuture<Boolean> result, long begun, long wanted, long remaining) {
        long passed = System.nanoTime() - begun;
        if (passed >= wanted) {
            result.complete(true);
        } else if (passed >= remaining) {
            result.complete(false);
        } else {
            long next = Math.min(LOOK_NANOS, Math.min(wanted, remaining) - passed);
            ScheduledFuture<?> timer = Clock.TIMER.schedule(() -> {
                if (process.receiver().faultsOn()) {
                    step(process, result, begun, wanted, remaining);
                } else {
                    result.complete(true);
                }
            }, next, TimeUnit.NANOSECONDS);
            result.whenComplete((done, error) -> timer.cancel(false));
        }
    }

    /** Started by the first who needs it. */
    private static final class Clock {
        static final ScheduledThreadPoolExecutor TIMER = new ScheduledThreadPoolExecutor(1, task -> {
            Thread thread = new Thread(null, task, "faultloom-timer", 0, false);
            thread.setDaemon(true);
            return thread;
        });

        static {
            TIMER.setRemoveOnCancelPolicy(true);
        }
    }
}
