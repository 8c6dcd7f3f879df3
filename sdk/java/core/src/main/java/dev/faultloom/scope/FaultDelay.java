package dev.faultloom.scope;

import dev.faultloom.hooks.faults.FaultEffect;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ScheduledFuture;
import java.util.concurrent.ScheduledThreadPoolExecutor;
import java.util.concurrent.TimeUnit;

/** Waits as long as a fault delays a call, at most 30 s. A wait ends early if faults are disabled at this service. */
public final class FaultDelay {
    private static final long CHECK_INTERVAL_NANOS = 200_000_000;

    private FaultDelay() {}

    /**
     * Blocks for {@link FaultEffect#waitMs}.
     *
     * @return whether the request is sent now; false: the call has timed out
     */
    public static boolean waitForFault(Process process, FaultEffect effect) throws InterruptedException {
        long end = System.nanoTime() + TimeUnit.MILLISECONDS.toNanos(effect.waitMs);
        while (true) {
            long left = end - System.nanoTime();
            if (left <= 0) {
                return effect.sends;
            }
            TimeUnit.NANOSECONDS.sleep(Math.min(CHECK_INTERVAL_NANOS, left));
            if (!process.receiver().faultsEnabled()) {
                return effect.sendsIfDisabled;
            }
        }
    }

    /**
     * {@link #waitForFault} without blocking. The timer thread completes the result; continuations on it must be short.
     * Canceling the result ends the wait.
     */
    public static CompletableFuture<Boolean> waitForFaultAsync(Process process, FaultEffect effect) {
        CompletableFuture<Boolean> result = new CompletableFuture<>();
        checkOrSchedule(process, effect, System.nanoTime() + TimeUnit.MILLISECONDS.toNanos(effect.waitMs), result);
        return result;
    }

    private static void checkOrSchedule(Process process, FaultEffect effect, long end, CompletableFuture<Boolean> result) {
        long left = end - System.nanoTime();
        if (left <= 0) {
            result.complete(effect.sends);
            return;
        }
        ScheduledFuture<?> timer = Timers.TIMER.schedule(() -> {
            if (process.receiver().faultsEnabled()) {
                checkOrSchedule(process, effect, end, result);
            } else {
                result.complete(effect.sendsIfDisabled);
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
