package dev.faultloom.scope;

import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ScheduledFuture;
import java.util.concurrent.ScheduledThreadPoolExecutor;
import java.util.concurrent.TimeUnit;

/** Waits for a fault that delays a call. A wait ends early if faults are disabled at this service. */
public final class FaultDelay {
    private static final long CHECK_INTERVAL_NANOS = 200_000_000;

    private FaultDelay() {}

    /**
     * Blocks for {@code waitMs} milliseconds.
     *
     * @return false: faults were disabled before that
     */
    public static boolean waitForFault(Process process, int waitMs) throws InterruptedException {
        long end = System.nanoTime() + TimeUnit.MILLISECONDS.toNanos(waitMs);
        while (true) {
            long left = end - System.nanoTime();
            if (left <= 0) {
                return true;
            }
            TimeUnit.NANOSECONDS.sleep(Math.min(CHECK_INTERVAL_NANOS, left));
            if (!process.receiver().faultsEnabled()) {
                return false;
            }
        }
    }

    /**
     * {@link #waitForFault} without blocking. The timer thread completes the result; continuations on it must be short.
     * Canceling the result ends the wait.
     */
    public static CompletableFuture<Boolean> waitForFaultAsync(Process process, int waitMs) {
        CompletableFuture<Boolean> result = new CompletableFuture<>();
        checkOrSchedule(process, System.nanoTime() + TimeUnit.MILLISECONDS.toNanos(waitMs), result);
        return result;
    }

    private static void checkOrSchedule(Process process, long end, CompletableFuture<Boolean> result) {
        long left = end - System.nanoTime();
        if (left <= 0) {
            result.complete(true);
            return;
        }
        ScheduledFuture<?> timer = Timers.TIMER.schedule(() -> {
            if (process.receiver().faultsEnabled()) {
                checkOrSchedule(process, end, result);
            } else {
                result.complete(false);
            }
        }, Math.min(CHECK_INTERVAL_NANOS, left), TimeUnit.NANOSECONDS);
        result.whenComplete((done, error) -> timer.cancel(false));
    }

    /** Holder: the thread starts with the first asynchronous wait. */
    private static final class Timers {
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
