/**
 * What a plan's conditions are judged by: only what is causally known, that is, what the caller knew when it sent the
 * request, and what replies have told since (3MileBeach §4.2).
 */

import { next, Whole } from '../wire/bytes';
import type { Segment } from '../wire/history';
import { counters, Fault } from '../wire/plan';
import { matches } from '../wire/selector';

interface Counters {
  matched: Whole;
  fired: Whole;
  after: Whole[];
}

export class Evidence {
  private readonly counters: Counters[];
  /** No condition depends on what happened elsewhere: then nothing need be looked into. */
  private readonly unconditional: boolean;

  /** `hop`: the counters as they arrived. */
  constructor(
    readonly plan: readonly Fault[],
    hop: readonly Whole[],
  ) {
    let at = 0;
    const take = (): Whole => hop[at++] ?? 0;
    this.unconditional = counters(plan) === 0;
    this.counters = plan.map((f) => ({
      matched: f.nth === 0 ? 0 : take(),
      fired: f.maxFires === 0 ? 0 : take(),
      after: f.after.map(take),
    }));
  }

  /** The counters in the order of the format. */
  hop(): Whole[] {
    const out: Whole[] = [];
    for (let i = 0; i < this.plan.length; i++) {
      const f = this.plan[i]!;
      const c = this.counters[i]!;
      if (f.nth !== 0) {
        out.push(c.matched);
      }
      if (f.maxFires !== 0) {
        out.push(c.fired);
      }
      for (const seen of c.after) {
        out.push(seen);
      }
    }
    return out;
  }

  /** Counts the send, and returns the index of the fault that fires at it, or -1. */
  decide(caller: string, peer: string, name: string, faultsOn: boolean): number {
    let chosen = -1;
    for (let i = 0; i < this.plan.length; i++) {
      const f = this.plan[i]!;
      if (!matches(f, caller, peer, name)) {
        continue;
      }
      const c = this.counters[i]!;
      c.matched = next(c.matched);
      if (faultsOn && chosen < 0 && ready(f, c)) {
        c.fired = next(c.fired);
        chosen = i;
      }
    }
    return chosen;
  }

  /** Counts prerequisites: those of faults that count sent calls, or those that count completed ones. */
  count(sent: boolean, caller: string, peer: string, name: string): void {
    if (this.unconditional) {
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
          after[j] = next(after[j]!);
        }
      }
    }
  }

  /** Would `walk` learn anything? */
  get learns(): boolean {
    return !this.unconditional;
  }

  /** Learns from the history of a call that came back. */
  walk(segment: Segment): void {
    const caller = segment.service;
    const sent: { peer: string; name: string }[] = [];
    for (const event of segment.events) {
      if (event.kind === 'SEND_REQUEST') {
        sent.push(event);
        for (let i = 0; i < this.plan.length; i++) {
          if (matches(this.plan[i]!, caller, event.peer, event.name)) {
            const c = this.counters[i]!;
            c.matched = next(c.matched);
          }
        }
        this.count(true, caller, event.peer, event.name);
        const fired = event.fault === null ? undefined : this.counters[Number(event.fault)];
        if (fired !== undefined) {
          fired.fired = next(fired.fired);
        }
      } else if (event.kind !== 'SEND_RESPONSE') {
        if (event.kind === 'RECV_RESPONSE') {
          const call = sent[event.call - 1]!;
          this.count(false, caller, call.peer, call.name);
        }
        if (event.child !== null) {
          this.walk(event.child);
        }
      }
    }
  }
}

function ready(f: Fault, c: Counters): boolean {
  for (let j = 0; j < f.after.length; j++) {
    if (c.after[j]! < f.after[j]!.times) {
      return false;
    }
  }
  return (f.nth === 0 || f.nth === c.matched) && (f.maxFires === 0 || c.fired < f.maxFires);
}
