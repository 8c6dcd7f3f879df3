/** Waiting for a fault: ends early if faults are disabled meanwhile. */

import type { Receiver } from '../trust/receiver';

const CHECK_INTERVAL_MS = 200;

// the application's tests may replace the global timers
const { setTimeout, clearTimeout, setInterval, clearInterval } = globalThis;

/**
 * Calls `done` once, asynchronously, after `waitMs` milliseconds or as soon as faults are disabled. The returned
 * function cancels the wait; `done` is then not called.
 */
export function waitForFault(receiver: Receiver, waitMs: number, done: () => void): () => void {
  const cancel = (): void => {
    clearTimeout(timer);
    clearInterval(check);
  };
  const finish = (): void => {
    cancel();
    done();
  };
  const timer = setTimeout(finish, waitMs);
  const check =
    waitMs <= CHECK_INTERVAL_MS
      ? undefined
      : setInterval(() => {
          if (!receiver.faultsEnabled()) {
            finish();
          }
        }, CHECK_INTERVAL_MS);
  return cancel;
}
