/** What delay and hang do: time passes, at most 30 s, and less if faults are switched off meanwhile. */

import type { Receiver } from '../trust/receiver';
import type { Fault } from '../wire/plan';

const MAX_WAIT_MS = 30_000;
const LOOK_EVERY_MS = 200;

// the application's tests may put a clock of their own in their place
const { setTimeout, clearTimeout, setInterval, clearInterval } = globalThis;

/** How long a delay or a hang lasts; a hang without a time lasts as long as one may. */
export function waitMs(fault: Fault): number {
  const wanted = Number(fault.arg);
  return fault.kind === 'hang' && wanted === 0 ? MAX_WAIT_MS : Math.min(wanted, MAX_WAIT_MS);
}

/**
 * Calls `done` once, later, when the time of a delay or hang is over or faults were switched off. The function that is
 * returned ends the wait without calling `done` (the caller's own deadline came first, or it cancelled).
 */
export function wait(receiver: Receiver, fault: Fault, done: () => void): () => void {
  const ms = waitMs(fault);
  const cancel = (): void => {
    clearTimeout(end);
    clearInterval(look);
  };
  const over = (): void => {
    cancel();
    done();
  };
  const end = setTimeout(over, ms);
  const look =
    ms <= LOOK_EVERY_MS
      ? undefined
      : setInterval(() => {
          if (!receiver.faultsOn()) {
            over();
          }
        }, LOOK_EVERY_MS);
  return cancel;
}
