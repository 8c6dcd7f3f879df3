/**
 * Primitives of the wire format: varints, strings, a reader and a writer.
 *
 * Counts and times are 64 bits wide on the wire, and nearly all are small. They are plain numbers up to 2^53 - 1 and
 * bigints above, so the hot path never does bigint arithmetic and no value is rounded.
 */

/**
 * An integer from 0 to 2^64 - 1. It is a bigint if and only if it exceeds Number.MAX_SAFE_INTEGER, so === compares
 * values.
 */
export type Uint64 = number | bigint;

export const MAX_U64 = (1n << 64n) - 1n;

/** Converts a bigint to the canonical representation. */
export function toUint64(value: bigint): Uint64 {
  return value <= BigInt(Number.MAX_SAFE_INTEGER) ? Number(value) : value;
}

/** a + b, or undefined if the sum is 2^64 or more. */
export function addUint64(a: Uint64, b: Uint64): Uint64 | undefined {
  if (typeof a === 'number' && typeof b === 'number') {
    const s = a + b;
    if (s <= Number.MAX_SAFE_INTEGER) {
      return s;
    }
  }
  const s = BigInt(a) + BigInt(b);
  return s > MAX_U64 ? undefined : toUint64(s);
}

/** value + 1, saturating at 2^64 - 1. */
export function increment(value: Uint64): Uint64 {
  return typeof value === 'number' && value < Number.MAX_SAFE_INTEGER ? value + 1 : (addUint64(value, 1) ?? value);
}

/** Length of a string in UTF-8 bytes. */
export function utf8Length(text: string): number {
  for (let i = 0; i < text.length; i++) {
    if (text.charCodeAt(i) > 0x7f) {
      return Buffer.byteLength(text);
    }
  }
  return text.length;
}

/** Truncates a string to at most max bytes of UTF-8, at a character boundary. */
export function truncateUtf8(text: string, max: number): string {
  if (text.length * 3 <= max || utf8Length(text) <= max) {
    return text;
  }
  const bytes = Buffer.from(text);
  let end = max;
  while (end > 0 && (bytes[end]! & 0xc0) === 0x80) {
    end--;
  }
  return bytes.toString('utf8', 0, end);
}

/** Encoded size of a varint, in bytes. */
export function varintLength(value: Uint64): number {
  let n = 1;
  if (typeof value === 'number') {
    for (; value >= 0x80; n++) {
      value = Math.floor(value / 0x80);
    }
    return n;
  }
  for (; value >= 0x80n; n++) {
    value >>= 7n;
  }
  return n;
}

/** Reads from a buffer. After the first failure all further reads fail too, so callers check `bad` once, at the end. */
export class Reader {
  bad = false;

  constructor(
    readonly bytes: Buffer,
    public at = 0,
    public end = bytes.length,
  ) {}

  get left(): number {
    return this.end - this.at;
  }

  fail(): void {
    this.bad = true;
    this.at = this.end;
  }

  u8(): number {
    if (this.at >= this.end) {
      this.fail();
      return 0;
    }
    return this.bytes[this.at++]!;
  }

  /** Big endian. */
  u32(): number {
    if (this.end - this.at < 4) {
      this.fail();
      return 0;
    }
    const b = this.bytes;
    const at = this.at;
    this.at = at + 4;
    return ((b[at]! << 24) | (b[at + 1]! << 16) | (b[at + 2]! << 8) | b[at + 3]!) >>> 0;
  }

  varint(): Uint64 {
    const b = this.bytes;
    let value = 0;
    let scale = 1;
    // four groups of seven bits cannot reach the sign bit
    for (let i = 0; i < 4; i++) {
      if (this.at >= this.end) {
        this.fail();
        return 0;
      }
      const byte = b[this.at++]!;
      value += (byte & 0x7f) * scale;
      if (byte < 0x80) {
        return value;
      }
      scale *= 0x80;
    }
    return this.longVarint(value);
  }

  private longVarint(low: number): Uint64 {
    let value = BigInt(low);
    for (let i = 4n; i < 10n; i++) {
      const byte = this.u8();
      if (this.bad || (i === 9n && byte > 1)) {
        break;
      }
      value |= BigInt(byte & 0x7f) << (7n * i);
      if (byte < 0x80) {
        return toUint64(value);
      }
    }
    this.fail();
    return 0;
  }

  /** A varint of at most max; a larger one is a failure. */
  count(max: number): number {
    const n = this.varint();
    if (n > max) {
      this.fail();
      return 0;
    }
    return n as number;
  }

  /** The next n bytes as a view. */
  take(n: number): Buffer {
    if (n < 0 || n > this.end - this.at) {
      this.fail();
      return EMPTY;
    }
    this.at += n;
    return this.bytes.subarray(this.at - n, this.at);
  }

  /** Skips n bytes. */
  skip(n: number): void {
    if (n < 0 || n > this.end - this.at) {
      this.fail();
    } else {
      this.at += n;
    }
  }

  /**
   * Like `str`, for a string that rarely changes: comparing with the previous value is cheaper than creating a string.
   */
  cachedStr(cache: CachedText, min: number, max: number): string {
    const { text } = cache;
    const from = this.at;
    if (text.length >= min && text.length < 0x80 && text.length < this.end - from && this.bytes[from] === text.length) {
      let i = 0;
      for (; i < text.length; i++) {
        if (this.bytes[from + 1 + i] !== text.charCodeAt(i)) {
          break;
        }
      }
      if (i === text.length) {
        this.at = from + 1 + i;
        return text;
      }
    }
    const found = this.str(min, max);
    // characters can be compared with bytes only if all of them are ASCII
    if (!this.bad && this.at - from - 1 === found.length) {
      cache.text = found;
    }
    return found;
  }

  /** A length followed by that many bytes of UTF-8. */
  str(min: number, max: number): string {
    const n = this.count(max);
    if (n < min || n > this.end - this.at) {
      this.fail();
      return '';
    }
    const from = this.at;
    this.at += n;
    for (let i = from; i < this.at; i++) {
      if (this.bytes[i]! > 0x7f) {
        return this.wideStr(from);
      }
    }
    return this.bytes.toString('latin1', from, this.at);
  }

  private wideStr(from: number): string {
    const text = this.bytes.toString('utf8', from, this.at);
    // invalid UTF-8 decodes to U+FFFD, which encodes to different bytes
    if (Buffer.compare(Buffer.from(text), this.bytes.subarray(from, this.at)) !== 0) {
      this.fail();
      return '';
    }
    return text;
  }
}

/** The last string that `Reader.cachedStr` decoded. */
export interface CachedText {
  text: string;
}

export const EMPTY: Buffer = Buffer.alloc(0);

/** Appends to a growing buffer. */
export class Writer {
  bytes: Buffer;
  length = 0;

  constructor(capacity: number) {
    this.bytes = Buffer.allocUnsafe(capacity);
  }

  /** Ensures capacity for n more bytes. */
  reserve(n: number): void {
    if (this.length + n > this.bytes.length) {
      const larger = Buffer.allocUnsafe(Math.max(this.length + n, 2 * this.bytes.length));
      this.bytes.copy(larger, 0, 0, this.length);
      this.bytes = larger;
    }
  }

  u8(value: number): void {
    this.reserve(1);
    this.bytes[this.length++] = value;
  }

  /** Big endian. */
  u32(value: number): void {
    this.reserve(4);
    this.length = putU32(this.bytes, value, this.length);
  }

  varint(value: Uint64): void {
    this.reserve(10);
    this.length = putVarint(this.bytes, value, this.length);
  }

  /** Length in bytes, then the string. */
  str(text: string): void {
    this.reserve(3 * text.length + 5);
    this.length = putString(this.bytes, text, this.length);
  }

  /** Copies bytes from `from` up to `end`. */
  put(bytes: Buffer, from = 0, end = bytes.length): void {
    this.reserve(end - from);
    this.length = putBytes(this.bytes, bytes, from, end, this.length);
  }

  /** A view of the written bytes, valid until the next write. */
  view(): Buffer {
    return this.bytes.subarray(0, this.length);
  }
}

// The put functions write at an offset where the caller has ensured capacity, and return the offset after the last
// byte.

export function putBytes(out: Buffer, bytes: Buffer, from: number, end: number, at: number): number {
  if (end - from <= 128) {
    // Buffer.copy of a part creates a view first, which is slower for short copies
    for (let i = from; i < end; i++) {
      out[at++] = bytes[i]!;
    }
    return at;
  }
  return at + bytes.copy(out, at, from, end);
}

export function putU32(out: Buffer, value: number, at: number): number {
  out[at] = value >>> 24;
  out[at + 1] = value >>> 16;
  out[at + 2] = value >>> 8;
  out[at + 3] = value;
  return at + 4;
}

export function putVarint(out: Buffer, value: Uint64, at: number): number {
  if (typeof value === 'bigint') {
    for (; value >= 0x80n; value >>= 7n) {
      out[at++] = Number(value & 0x7fn) | 0x80;
    }
    out[at++] = Number(value);
    return at;
  }
  for (; value > 0x7fffffff; value = Math.floor(value / 0x80)) {
    out[at++] = (value % 0x80) | 0x80;
  }
  for (; value >= 0x80; value >>>= 7) {
    out[at++] = (value & 0x7f) | 0x80;
  }
  out[at++] = value;
  return at;
}

export function putString(out: Buffer, text: string, at: number): number {
  const n = text.length;
  if (n < 0x80) {
    // most strings are short names; a call into native code costs more than this loop
    let i = 0;
    for (; i < n; i++) {
      const c = text.charCodeAt(i);
      if (c > 0x7f) {
        break;
      }
      out[at + 1 + i] = c;
    }
    if (i === n) {
      out[at] = n;
      return at + 1 + n;
    }
  }
  at = putVarint(out, Buffer.byteLength(text), at);
  return at + out.write(text, at, 'utf8');
}
