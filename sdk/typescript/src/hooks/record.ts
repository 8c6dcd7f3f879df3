/** Records the end of a call. */

import type { OutgoingCall, Scope } from '../scope/scope';
import type { CallEffect } from './faults';

export function recordEffect(scope: Scope, call: OutgoingCall, effect: CallEffect, history: Buffer | null): void {
  if (effect.event === 'reply') {
    scope.recordReply(call, effect.eventStatus, history, effect.gap);
  } else {
    scope.recordFailure(call, effect.eventStatus, history, effect.gap);
  }
}
