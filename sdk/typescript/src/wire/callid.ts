/**
 * Call ids: 64 bits, derived by SplitMix64 from the id of the scope's call and the call's number. Derived ids take no
 * space in the history and are the same in every repetition. An id is stored as two 32-bit halves because bigints would
 * cost more than everything else on the send path.
 */

import { randomFillSync } from 'node:crypto';

export class CallId {
  /** Both halves as unsigned 32-bit numbers. */
  constructor(
    readonly high: number,
    readonly low: number,
  ) {}

  /** From eight bytes, big endian. */
  static read(bytes: Buffer, at: number): CallId {
    return new CallId(bytes.readUInt32BE(at), bytes.readUInt32BE(at + 4));
  }

  /** From 16 hex digits. */
  static parse(hex: string): CallId {
    return new CallId(Number.parseInt(hex.slice(0, 8), 16), Number.parseInt(hex.slice(8, 16), 16));
  }

  /** A random id, never zero. */
  static random(): CallId {
    const bytes = randomFillSync(Buffer.allocUnsafe(8));
    const id = CallId.read(bytes, 0);
    return id.high === 0 && id.low === 0 ? new CallId(0, 1) : id;
  }

  /**
   * The id of call number n (from 1 to 2^53 - 1) of the scope that serves this call. Number 0 is the scope's own span
   * in OTLP.
   */
  derive(n: number): CallId {
    // z = p + n * 0x9E3779B97F4A7C15
    let high = multiplyHigh(n >>> 0, 0x9e3779b9, 0x7f4a7c15);
    if (n > 0xffffffff) {
      high += Math.imul(Math.floor(n / 0x100000000), 0x7f4a7c15);
    }
    let low = Math.imul(n, 0x7f4a7c15) >>> 0;
    const carried = low + this.low;
    low = carried >>> 0;
    high = (high + this.high + (carried > 0xffffffff ? 1 : 0)) >>> 0;
    // z = (z ^ z>>30) * 0xBF58476D1CE4E5B9
    let h = (high ^ (high >>> 30)) >>> 0;
    let l = (low ^ ((low >>> 30) | (high << 2))) >>> 0;
    high = (multiplyHigh(l, 0xbf58476d, 0x1ce4e5b9) + Math.imul(h, 0x1ce4e5b9)) >>> 0;
    low = Math.imul(l, 0x1ce4e5b9) >>> 0;
    // z = (z ^ z>>27) * 0x94D049BB133111EB
    h = (high ^ (high >>> 27)) >>> 0;
    l = (low ^ ((low >>> 27) | (high << 5))) >>> 0;
    high = (multiplyHigh(l, 0x94d049bb, 0x133111eb) + Math.imul(h, 0x133111eb)) >>> 0;
    low = Math.imul(l, 0x133111eb) >>> 0;
    // z = z ^ z>>31
    h = (high ^ (high >>> 31)) >>> 0;
    l = (low ^ ((low >>> 31) | (high << 1))) >>> 0;
    return h === 0 && l === 0 ? new CallId(0, 1) : new CallId(h, l);
  }

  equals(other: CallId): boolean {
    return this.high === other.high && this.low === other.low;
  }

  /** Whether the eight bytes at an offset, big endian, are this id. */
  isAt(bytes: Buffer, at: number): boolean {
    return bytes.readUInt32BE(at) === this.high && bytes.readUInt32BE(at + 4) === this.low;
  }

  /** 16 hex digits. */
  toString(): string {
    return hex8(this.high) + hex8(this.low);
  }
}

function hex8(value: number): string {
  return value.toString(16).padStart(8, '0');
}

/** The upper 32 bits of a * (high:low) modulo 2^64; all operands have 32 bits. */
function multiplyHigh(a: number, high: number, low: number): number {
  const a0 = a & 0xffff;
  const a1 = a >>> 16;
  const b0 = low & 0xffff;
  const b1 = low >>> 16;
  const middle = a1 * b0 + Math.floor((a0 * b0) / 0x10000);
  const other = a0 * b1 + (middle % 0x10000);
  const carry = a1 * b1 + Math.floor(middle / 0x10000) + Math.floor(other / 0x10000);
  return (carry + Math.imul(a, high)) >>> 0;
}
