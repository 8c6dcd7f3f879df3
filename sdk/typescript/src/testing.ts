/** Helpers for tests: seeded random values, keys, and scopes of a service. */

import { randomInt } from 'node:crypto';
import { Process } from './scope/process';
import { Scope } from './scope/scope';
import { Receiver } from './trust/receiver';
import { Key, TrustSettings } from './trust/settings';
import { Signer } from './trust/signer';
import { toUint64, Uint64 } from './wire/bytes';
import { CallId } from './wire/callid';
import { assembleEnvelope, Envelope } from './wire/envelope';
import { counterCount, fault, Fault, KINDS } from './wire/plan';

export const ENVIRONMENT = 'test';
export const TRACE_KEY = new Key('t1', false, Buffer.alloc(32, 1));
export const FAULT_KEY = new Key('f1', true, Buffer.alloc(32, 2));
export const SETTINGS = new TrustSettings(ENVIRONMENT, [TRACE_KEY, FAULT_KEY]);

/** A trust file with both keys. */
export function trustText(faults = 'on'): string {
  return `environment ${ENVIRONMENT}\nkey trace t1 ${'01'.repeat(32)}\nkey fault f1 ${'02'.repeat(32)}\nfaults ${faults}\n`;
}

export const NOW = 1_800_000_000;

/** The fields of an envelope, with defaults for those that are omitted. */
export function signed(parts: Partial<Envelope> = {}): Omit<Envelope, 'key' | 'signedPrefix'> {
  return {
    history: true,
    bridge: false,
    trace: Buffer.alloc(16, 7),
    run: null,
    expires: NOW + 60,
    environment: ENVIRONMENT,
    plan: null,
    call: new CallId(1, 2),
    accept: 3,
    receiveLimit: 4 << 20,
    evidence: new Array<number>(counterCount(parts.plan ?? [])).fill(0),
    ...parts,
  };
}

/** An encoded envelope; null if it would be too large. */
export function envelope(parts: Partial<Envelope> = {}, key = FAULT_KEY): Buffer | null {
  const e = signed(parts);
  return assembleEnvelope(new Signer(key, e.environment).sign(e), e.call, e.accept, e.receiveLimit, e.evidence) ?? null;
}

/** A scope of the service "front" with an accepted envelope and its own clock. */
export class TestScope extends Scope {
  atUs = 0;

  constructor(
    parts: Partial<Envelope> = {},
    process = testProcess(),
    origin: 'caller' | 'bridge' | 'entry' = 'caller',
  ) {
    const e = { ...signed(parts), key: FAULT_KEY.id };
    super(process, { ...e, signedPrefix: new Signer(FAULT_KEY, e.environment).sign(e) }, origin, false, 1e15);
  }

  override now(): number {
    return this.atUs;
  }
}

export function testProcess(service = 'front'): Process {
  return new Process(service, { receiver: Receiver.fixed(SETTINGS) });
}

/** A seeded generator of random values. */
export class Random {
  private state: CallId;

  constructor(readonly seed: number) {
    this.state = new CallId(0, seed);
  }

  /** 0 to n - 1. */
  below(n: number): number {
    this.state = this.state.derive(1);
    return this.state.low % n;
  }

  pick<T>(all: readonly T[]): T {
    return all[this.below(all.length)]!;
  }

  bytes(most: number): Buffer {
    return Buffer.from(Array.from({ length: this.below(most + 1) }, () => this.below(256)));
  }

  /** Up to `most` characters of one to four bytes each. */
  text(most: number): string {
    return Array.from({ length: this.below(most + 1) }, () =>
      this.pick(['a', '/', '7', ' ', 'é', '語', '😀', ':', '.', '*', '{', '}']),
    ).join('');
  }

  /** A small value, or one at the boundary of 32, 53 or 64 bits. */
  uint64(): Uint64 {
    const edge = this.pick([0n, 127n, 128n, 1n << 28n, 1n << 31n, 1n << 32n, 1n << 53n, (1n << 64n) - 1n]);
    const near = edge + BigInt(this.below(3)) - 1n;
    return this.below(2) === 0 ? this.below(300) : toUint64(near < 0n ? 0n : near >= 1n << 64n ? edge : near);
  }

  fault(): Fault {
    const selector = () => ({ caller: this.text(6), callee: this.text(6), call: this.text(6) });
    const after = Array.from({ length: this.below(4) }, () => ({ ...selector(), times: this.below(3) + 1 }));
    return fault(this.pick(KINDS), {
      ...selector(),
      arg: this.uint64(),
      nth: this.uint64(),
      maxFires: this.uint64(),
      after,
      afterSent: this.below(2) === 0,
    });
  }
}

/** Runs a check with many seeds. A failure names the seed; set FAULTLOOM_SEED to repeat it. */
export function everySeed(check: (random: Random) => void, times = 300): void {
  const chosen = process.env['FAULTLOOM_SEED'];
  const first = chosen === undefined ? randomInt(1 << 30) : Number(chosen);
  for (let seed = first; seed < first + (chosen === undefined ? times : 1); seed++) {
    try {
      check(new Random(seed));
    } catch (error) {
      throw new Error(`FAULTLOOM_SEED=${seed}`, { cause: error });
    }
  }
}

/** Resolves when a condition holds; fails after 10 s. */
export async function until(condition: () => boolean): Promise<void> {
  for (const end = Date.now() + 10_000; !condition();) {
    if (Date.now() > end) {
      throw new Error('the condition did not hold within 10 s');
    }
    await new Promise((resolve) => setTimeout(resolve, 5));
  }
}
