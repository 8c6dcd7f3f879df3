/**
 * Evidence: the counters that decide the conditions of a plan. They contain only causally known events: those that the
 * caller had recorded when it sent the request, and those that replies have reported since (3MileBeach §4.2).
 */

import { increment, Uint64 } from '../wire/bytes';
import type { Segment } from '../wire/history';
import { counterCount, Fault } from '../wire/plan';
import { matches } from '../wire/selector';

interface Counters {
  matched: Uint64;
  fired: Uint64;
  after: Uint64[];
}

export class Evidence {
  private readonly counters: Counters[];
  /** Whether any fault has a condition, so that histories of callees must be counted. */
  readonly isConditional: boolean;

  /** `received`: the counters in the received envelope. */
  constructor(
    readonly plan: readonly Fault[],
    received: readonly Uint64[],
  ) {
    let at = 0;
    const take = (): Uint64 => received[at++] ?? 0;
    this.isConditional = counterCount(plan) > 0;
    this.counters = plan.map((f) => ({
      matched: f.nth === 0 ? 0 : take(),
      fired: f.maxFires === 0 ? 0 : take(),
      after: f.after.map(take),
    }));
  }

  /** The counters, in the order of the format. */
  values(): Uint64[] {
    const out: Uint64[] = [];
    for (let i = 0; i < this.plan.length; i++) {
      const f = this.plan[i]!;
      const c = this.counters[i]!;
      if (f.nth !== 0) {
        out.push(c.matched);
      }
      if (f.maxFires !== 0) {
        out.push(c.fired);
      }
      for (const count of c.after) {
        out.push(count);
      }
    }
    return out;
  }

  /** Counts a call of this service and returns the index of the fault that fires at it, or -1. */
  decideFault(caller: string, peer: string, name: string, faultsEnabled: boolean): number {
    let chosen = -1;
    for (let i = 0; i < this.plan.length; i++) {
      const f = this.plan[i]!;
      if (!matches(f, caller, peer, name)) {
        continue;
      }
      const c = this.counters[i]!;
      c.matched = increment(c.matched);
      if (faultsEnabled && chosen < 0 && isReady(f, c)) {
        c.fired = increment(c.fired);
        chosen = i;
      }
    }
    return chosen;
  }

  /** Counts a call for the prerequisites that count sent calls, or for those that count completed calls. */
  countPrerequisites(sent: boolean, caller: string, peer: string, name: string): void {
    if (!this.isConditional) {
      return;
    }
    for (let i = 0; i < this.plan.length; i++) {
      const f = this.plan[i]!;
      if (f.afterSent !== sent) {
        continue;
      }
      for (let j = 0; j < f.after.length; j++) {
        if (matches(f.after[j]!, caller, peer, name)) {
          const after = this.counters[i]!.after;
          after[j] = increment(after[j]!);
        }
      }
    }
  }

  /** Counts all events of a history that a call returned. */
  addHistory(segment: Segment): void {
    const caller = segment.service;
    const calls: { peer: string; name: string }[] = [];
    for (const event of segment.events) {
      if (event.kind === 'SEND_REQUEST') {
        calls.push(event);
        for (let i = 0; i < this.plan.length; i++) {
          if (matches(this.plan[i]!, caller, event.peer, event.name)) {
            const c = this.counters[i]!;
            c.matched = increment(c.matched);
          }
        }
        this.countPrerequisites(true, caller, event.peer, event.name);
        const fired = event.fault === null ? undefined : this.counters[Number(event.fault)];
        if (fired !== undefined) {
          fired.fired = increment(fired.fired);
        }
      } else if (event.kind === 'RECV_RESPONSE' || event.kind === 'CALL_FAILED') {
        if (event.kind === 'RECV_RESPONSE') {
          const call = calls[event.call - 1]!;
          this.countPrerequisites(false, caller, call.peer, call.name);
        }
        if (event.child !== null) {
          this.addHistory(event.child);
        }
      }
    }
  }
}

function isReady(f: Fault, c: Counters): boolean {
  for (let j = 0; j < f.after.length; j++) {
    if (c.after[j]! < f.after[j]!.times) {
      return false;
    }
  }
  return (f.nth === 0 || f.nth === c.matched) && (f.maxFires === 0 || c.fired < f.maxFires);
}
