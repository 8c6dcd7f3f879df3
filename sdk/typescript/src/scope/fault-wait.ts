/** Waiting for a fault: ends early if faults are disabled meanwhile. */

import type { Receiver } from '../trust/receiver';

const CHECK_INTERVAL_MS = 200;

// the application's tests may replace the global timers
const { setTimeout, clearTimeout, setInterval, clearInterval } = globalThis;

/**
 * Calls `done` once, asynchronously: with true after `waitMs` milliseconds, with false as soon as faults are disabled.
 * The returned function cancels the wait; `done` is then not called.
 */
export function waitForFault(receiver: Receiver, waitMs: number, done: (elapsed: boolean) => void): () => void {
  const cancel = (): void => {
    clearTimeout(timer);
    clearInterval(check);
  };
  const finish = (elapsed: boolean): void => {
    cancel();
    done(elapsed);
  };
  const timer = setTimeout(() => finish(true), waitMs);
  const check =
    waitMs <= CHECK_INTERVAL_MS
      ? undefined
      : setInterval(() => {
          if (!receiver.faultsEnabled()) {
            finish(false);
          }
        }, CHECK_INTERVAL_MS);
  return cancel;
}
