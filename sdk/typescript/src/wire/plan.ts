/** The plan: the faults of one request. */

import { Reader, Uint64, utf8Length, Writer } from './bytes';
import { ErrorCode, FaultloomError } from './errors';
import type { Selector } from './selector';

/** Limits of a plan. */
export const MAX_FAULTS = 64;
export const MAX_STRINGS = 128;
const MAX_STRING_BYTES = 128;
const MAX_AFTER = 8;

/**
 * What the caller observes. Kinds are numbered from 1 on the wire, in this order. hooks/faults.ts defines their
 * effects.
 *
 * - `unavailable`: connection refused · `status`: status `arg` · `deadline`: deadline exceeded at once · `reset`:
 *   connection reset
 * - `delay`: the call waits `arg` ms, then continues · `hang`: nothing happens for `arg` ms, then deadline exceeded
 * - `lost-reply`: the callee runs, then the connection breaks
 * - `empty-reply`, `corrupt-reply`: the callee runs; its reply arrives empty or corrupted
 */
export type Kind =
  'unavailable' | 'status' | 'deadline' | 'reset' | 'delay' | 'hang' | 'lost-reply' | 'empty-reply' | 'corrupt-reply';

export const KINDS: readonly Kind[] = [
  'unavailable',
  'status',
  'deadline',
  'reset',
  'delay',
  'hang',
  'lost-reply',
  'empty-reply',
  'corrupt-reply',
];

/** A prerequisite: matching calls must have happened `times` (≥ 1) times. */
export interface After extends Selector {
  readonly times: Uint64;
}

/** A planned fault. Zero means "not set" for `arg`, `nth` and `maxFires`. */
export interface Fault extends Selector {
  readonly kind: Kind;
  /** For status: the code. For delay and hang: milliseconds. */
  readonly arg: Uint64;
  /** Fire at this matching call only, counted from 1. */
  readonly nth: Uint64;
  /** Fire at most this many times. */
  readonly maxFires: Uint64;
  /** Prerequisites, at most 8; all of them must hold. */
  readonly after: readonly After[];
  /** Whether `after` counts calls when they are sent instead of when they complete. */
  readonly afterSent: boolean;
}

/**
 * Creates a fault, with defaults for all omitted parts: `fault('status', { callee: 'currency', arg: 14 })`.
 */
export function fault(kind: Kind, parts: Partial<Omit<Fault, 'kind'>> = {}): Fault {
  return { kind, caller: '', callee: '', call: '', arg: 0, nth: 0, maxFires: 0, after: [], afterSent: false, ...parts };
}

const ARG = 1;
const NTH = 2;
const MAX_FIRES = 4;
const AFTER = 8;
const AFTER_SENT = 16;

/** The number of evidence counters of a plan in the hop part. */
export function counterCount(plan: readonly Fault[]): number {
  let n = 0;
  for (const f of plan) {
    n += (f.nth === 0 ? 0 : 1) + (f.maxFires === 0 ? 0 : 1) + f.after.length;
  }
  return n;
}

/** Decodes a plan; returns the error code if it is invalid. */
export function decodePlan(bytes: Buffer): Fault[] | ErrorCode {
  const r = new Reader(bytes);
  const strings = [''];
  for (let n = r.count(MAX_STRINGS); n > 0; n--) {
    strings.push(r.str(1, MAX_STRING_BYTES));
  }
  const faults = r.varint();
  if (r.bad || faults === 0) {
    return 'malformed';
  }
  if (faults > MAX_FAULTS) {
    return 'too_many_faults';
  }
  const plan: Fault[] = [];
  for (let i = 0; i < (faults as number); i++) {
    const f = decodeFault(r, strings);
    if (typeof f === 'string') {
      return f;
    }
    plan.push(f);
  }
  return r.bad || r.left > 0 ? 'malformed' : plan;
}

function decodeFault(r: Reader, strings: readonly string[]): Fault | ErrorCode {
  const number = r.u8();
  if (r.bad) {
    return 'malformed';
  }
  const kind = KINDS[number - 1];
  if (kind === undefined) {
    return 'unknown_fault';
  }
  const flags = r.u8();
  if ((flags & ~(ARG | NTH | MAX_FIRES | AFTER | AFTER_SENT)) !== 0) {
    return 'malformed';
  }
  const string = (): string => strings[r.count(strings.length - 1)]!;
  const caller = string();
  const callee = string();
  const call = string();
  const arg = (flags & ARG) === 0 ? 0 : r.varint();
  const nth = (flags & NTH) === 0 ? 0 : positive(r);
  const maxFires = (flags & MAX_FIRES) === 0 ? 0 : positive(r);
  const after: After[] = [];
  if ((flags & AFTER) !== 0) {
    const n = r.count(MAX_AFTER);
    if (n === 0) {
      return 'malformed';
    }
    for (let i = 0; i < n; i++) {
      after.push({ caller: string(), callee: string(), call: string(), times: positive(r) });
    }
  }
  return r.bad
    ? 'malformed'
    : { kind, caller, callee, call, arg, nth, maxFires, after, afterSent: (flags & AFTER_SENT) !== 0 };
}

function positive(r: Reader): Uint64 {
  const value = r.varint();
  if (value === 0) {
    r.fail();
  }
  return value;
}

/**
 * Encodes a plan. Throws `too_many_faults`, `unknown_fault`, `malformed` for an empty plan or a prerequisite of zero
 * times, and `envelope_too_large` if another limit of the format is exceeded.
 */
export function encodePlan(plan: readonly Fault[]): Buffer {
  if (plan.length === 0) {
    throw new FaultloomError('malformed');
  }
  if (plan.length > MAX_FAULTS) {
    throw new FaultloomError('too_many_faults');
  }
  const strings = new Map<string, number>();
  const body = new Writer(256);
  body.varint(plan.length);
  for (const f of plan) {
    encodeFault(body, strings, f);
  }
  if (strings.size > MAX_STRINGS) {
    throw new FaultloomError('envelope_too_large');
  }
  const out = new Writer(256 + body.length);
  out.varint(strings.size);
  for (const text of strings.keys()) {
    if (utf8Length(text) > MAX_STRING_BYTES) {
      throw new FaultloomError('envelope_too_large');
    }
    out.str(text);
  }
  out.put(body.view());
  return out.view();
}

function encodeFault(body: Writer, strings: Map<string, number>, f: Fault): void {
  const number = KINDS.indexOf(f.kind) + 1;
  if (number === 0) {
    throw new FaultloomError('unknown_fault');
  }
  if (f.after.length > MAX_AFTER) {
    throw new FaultloomError('envelope_too_large');
  }
  body.u8(number);
  body.u8(
    (f.arg === 0 ? 0 : ARG) |
      (f.nth === 0 ? 0 : NTH) |
      (f.maxFires === 0 ? 0 : MAX_FIRES) |
      (f.after.length === 0 ? 0 : AFTER) |
      (f.afterSent ? AFTER_SENT : 0),
  );
  encodeSelector(body, strings, f);
  for (const value of [f.arg, f.nth, f.maxFires]) {
    if (value !== 0) {
      body.varint(value);
    }
  }
  if (f.after.length > 0) {
    body.varint(f.after.length);
    for (const a of f.after) {
      if (a.times === 0) {
        throw new FaultloomError('malformed');
      }
      encodeSelector(body, strings, a);
      body.varint(a.times);
    }
  }
}

function encodeSelector(body: Writer, strings: Map<string, number>, s: Selector): void {
  for (const text of [s.caller, s.callee, s.call]) {
    let index = 0;
    if (text !== '') {
      index = strings.get(text) ?? 0;
      if (index === 0) {
        index = strings.size + 1;
        strings.set(text, index);
      }
    }
    body.varint(index);
  }
}

export const NO_COUNTERS: readonly Uint64[] = [];
