/**
 * HMAC-SHA-256 (RFC 2104, FIPS 180-4) with a prepared key.
 *
 * node:crypto computes the same code, but for an envelope of a hundred bytes most of its time is overhead: a call of
 * createHmac takes 20 µs in a busy process, this implementation takes 5 µs. A test compares the two.
 *
 * No branch and no index depends on the key or the message.
 */

import { putBytes } from '../wire/bytes';

const BLOCK_BYTES = 64;
const SUM_BYTES = 32;

/** The first 32 bits of the fractional parts of the roots of the first primes. */
function constants(count: number, root: (prime: number) => number): Int32Array {
  const primes: number[] = [];
  for (let n = 2; primes.length < count; n++) {
    if (primes.every((prime) => n % prime !== 0)) {
      primes.push(n);
    }
  }
  return Int32Array.from(primes, (prime) => ((root(prime) % 1) * 0x100000000) | 0);
}

const START = constants(8, Math.sqrt);
const K = constants(64, Math.cbrt);
const w = new Int32Array(64);

/** Processes one block. */
function compress(state: Int32Array, block: Buffer, at: number): void {
  for (let i = 0; i < 16; i++, at += 4) {
    w[i] = (block[at]! << 24) | (block[at + 1]! << 16) | (block[at + 2]! << 8) | block[at + 3]!;
  }
  for (let i = 16; i < 64; i++) {
    const x = w[i - 15]!;
    const y = w[i - 2]!;
    const s0 = ((x >>> 7) | (x << 25)) ^ ((x >>> 18) | (x << 14)) ^ (x >>> 3);
    const s1 = ((y >>> 17) | (y << 15)) ^ ((y >>> 19) | (y << 13)) ^ (y >>> 10);
    w[i] = (w[i - 16]! + s0 + w[i - 7]! + s1) | 0;
  }
  let a = state[0]!;
  let b = state[1]!;
  let c = state[2]!;
  let d = state[3]!;
  let e = state[4]!;
  let f = state[5]!;
  let g = state[6]!;
  let h = state[7]!;
  for (let i = 0; i < 64; i++) {
    const s1 = ((e >>> 6) | (e << 26)) ^ ((e >>> 11) | (e << 21)) ^ ((e >>> 25) | (e << 7));
    const t1 = (h + s1 + ((e & f) ^ (~e & g)) + K[i]! + w[i]!) | 0;
    const s0 = ((a >>> 2) | (a << 30)) ^ ((a >>> 13) | (a << 19)) ^ ((a >>> 22) | (a << 10));
    const t2 = (s0 + ((a & b) ^ (a & c) ^ (b & c))) | 0;
    h = g;
    g = f;
    f = e;
    e = (d + t1) | 0;
    d = c;
    c = b;
    b = a;
    a = (t1 + t2) | 0;
  }
  state[0] = state[0]! + a;
  state[1] = state[1]! + b;
  state[2] = state[2]! + c;
  state[3] = state[3]! + d;
  state[4] = state[4]! + e;
  state[5] = state[5]! + f;
  state[6] = state[6]! + g;
  state[7] = state[7]! + h;
}

const state = new Int32Array(8);
let scratch = Buffer.alloc(4096);

/**
 * Completes a digest whose first block is already processed: pads the first `length` bytes of scratch and processes
 * them.
 */
function finishDigest(before: Int32Array, length: number): void {
  scratch[length] = 0x80;
  const end = Math.ceil((length + 9) / BLOCK_BYTES) * BLOCK_BYTES;
  scratch.fill(0, length + 1, end - 4);
  scratch.writeUInt32BE((BLOCK_BYTES + length) * 8, end - 4);
  state.set(before);
  for (let at = 0; at < end; at += BLOCK_BYTES) {
    compress(state, scratch, at);
  }
}

export class Mac {
  // hard-private fields do not appear when the object is printed or serialized
  readonly #inner: Int32Array;
  readonly #outer: Int32Array;

  /** The key, at most 64 bytes. */
  constructor(key: Buffer) {
    const padded = (byte: number): Int32Array => {
      const block = Buffer.alloc(BLOCK_BYTES, byte);
      key.forEach((value, i) => (block[i]! ^= value));
      const after = START.slice();
      compress(after, block, 0);
      return after;
    };
    this.#inner = padded(0x36);
    this.#outer = padded(0x5c);
  }

  /**
   * The first `bytes` bytes (a multiple of four) of the code of prefix and message, which have less than 2^28 bytes
   * together.
   */
  sign(prefix: Buffer, message: Buffer, bytes: number): Buffer {
    this.compute(prefix, message, 0, message.length);
    const out = Buffer.allocUnsafe(bytes);
    for (let at = 0; at < bytes; at += 4) {
      out.writeInt32BE(state[at / 4]!, at);
    }
    return out;
  }

  /**
   * Whether the code of prefix and message (the bytes from `from` to `end`) follows the message, compared over `bytes`
   * bytes in constant time.
   */
  verifies(prefix: Buffer, message: Buffer, from: number, end: number, bytes: number): boolean {
    this.compute(prefix, message, from, end);
    let different = 0;
    for (let at = 0; at < bytes; at += 4) {
      different |= state[at / 4]! ^ message.readInt32BE(end + at);
    }
    return different === 0;
  }

  /** Computes the code into `state`. */
  private compute(prefix: Buffer, message: Buffer, from: number, end: number): void {
    const length = prefix.length + end - from;
    if (length + BLOCK_BYTES + 9 > scratch.length) {
      scratch = Buffer.alloc(2 * (length + BLOCK_BYTES));
    }
    putBytes(scratch, message, from, end, putBytes(scratch, prefix, 0, prefix.length, 0));
    finishDigest(this.#inner, length);
    for (let i = 0; i < 8; i++) {
      scratch.writeInt32BE(state[i]!, 4 * i);
    }
    finishDigest(this.#outer, SUM_BYTES);
  }
}
