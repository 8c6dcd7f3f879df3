/**
 * The primitives of the format.
 *
 * Counts and times are 64 bits wide on the wire. Nearly all are small, so they are plain numbers up to 2^53 - 1 and bigints
 * only above: arithmetic on the hot path never meets a bigint, and nothing is rounded.
 */

/** A whole number from 0 to 2^64 - 1; a bigint if and only if it is above Number.MAX_SAFE_INTEGER, so that === compares. */
export type Whole = number | bigint;

const MAX_U64 = (1n << 64n) - 1n;

/** The one form of a value as a Whole. */
export function whole(value: bigint): Whole {
  return value <= BigInt(Number.MAX_SAFE_INTEGER) ? Number(value) : value;
}

/** a + b, or undefined if that is 2^64 or more. */
export function sum(a: Whole, b: Whole): Whole | undefined {
  if (typeof a === 'number' && typeof b === 'number') {
    const s = a + b;
    if (s <= Number.MAX_SAFE_INTEGER) {
      return s;
    }
  }
  const s = BigInt(a) + BigInt(b);
  return s > MAX_U64 ? undefined : whole(s);
}

/** value + 1, which stays at 2^64 - 1. */
export function next(value: Whole): Whole {
  return typeof value === 'number' && value < Number.MAX_SAFE_INTEGER ? value + 1 : (sum(value, 1) ?? value);
}

/** Length of a text in UTF-8. */
export function utf8Length(text: string): number {
  for (let i = 0; i < text.length; i++) {
    if (text.charCodeAt(i) > 0x7f) {
      return Buffer.byteLength(text);
    }
  }
  return text.length;
}

/** Shortens a text to at most max bytes of UTF-8, at a character boundary. */
export function cut(text: string, max: number): string {
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

/** How many bytes a varint takes. */
export function varintLength(value: Whole): number {
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

/** Consumes bytes. After the first failure every further read fails too, so that callers check `bad` once, at the end. */
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

  varint(): Whole {
    const b = this.bytes;
    let value = 0;
    let scale = 1;
    // four bytes of seven bits stay clear of the sign
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

  private longVarint(low: number): Whole {
    let value = BigInt(low);
    for (let i = 4n; i < 10n; i++) {
      const byte = this.u8();
      if (this.bad || (i === 9n && byte > 1)) {
        break;
      }
      value |= BigInt(byte & 0x7f) << (7n * i);
      if (byte < 0x80) {
        return whole(value);
      }
    }
    this.fail();
    return 0;
  }

  /** A varint that may be at most max. */
  count(max: number): number {
    const n = this.varint();
    if (n > max) {
      this.fail();
      return 0;
    }
    return n as number;
  }

  /** The next n bytes, not copied. */
  take(n: number): Buffer {
    if (n < 0 || n > this.end - this.at) {
      this.fail();
      return EMPTY;
    }
    this.at += n;
    return this.bytes.subarray(this.at - n, this.at);
  }

  /** Goes past the next n bytes. */
  skip(n: number): void {
    if (n < 0 || n > this.end - this.at) {
      this.fail();
    } else {
      this.at += n;
    }
  }

  /** As `str`, for a text that is nearly always the one before: making a string takes longer than comparing it. */
  sameStr(memo: Memo, min: number, max: number): string {
    const { text } = memo;
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
    // only of one that is all ASCII the characters are the bytes
    if (!this.bad && this.at - from - 1 === found.length) {
      memo.text = found;
    }
    return found;
  }

  /** A length and that many bytes of UTF-8. */
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
    // what is no UTF-8 comes back as U+FFFD, which has other bytes
    if (Buffer.compare(Buffer.from(text), this.bytes.subarray(from, this.at)) !== 0) {
      this.fail();
      return '';
    }
    return text;
  }
}

/** A text that was read before. */
export interface Memo {
  text: string;
}

export const EMPTY: Buffer = Buffer.alloc(0);

/** Appends to a buffer that grows. */
export class Writer {
  bytes: Buffer;
  length = 0;

  constructor(capacity: number) {
    this.bytes = Buffer.allocUnsafe(capacity);
  }

  /** Makes room for n more bytes. */
  room(n: number): void {
    if (this.length + n > this.bytes.length) {
      const larger = Buffer.allocUnsafe(Math.max(this.length + n, 2 * this.bytes.length));
      this.bytes.copy(larger, 0, 0, this.length);
      this.bytes = larger;
    }
  }

  u8(value: number): void {
    this.room(1);
    this.bytes[this.length++] = value;
  }

  /** Big endian. */
  u32(value: number): void {
    this.room(4);
    this.length = putU32(this.bytes, value, this.length);
  }

  varint(value: Whole): void {
    this.room(10);
    this.length = putVarint(this.bytes, value, this.length);
  }

  /** The length in bytes and the text. */
  str(text: string): void {
    this.room(3 * text.length + 5);
    this.length = putString(this.bytes, text, this.length);
  }

  /** The bytes from one place to another. */
  put(bytes: Buffer, from = 0, end = bytes.length): void {
    this.room(end - from);
    this.length = putBytes(this.bytes, bytes, from, end, this.length);
  }

  /** What was written, not copied: valid until more is written. */
  view(): Buffer {
    return this.bytes.subarray(0, this.length);
  }
}

/** Each writes into room that is known to be there, and returns where it ended. */
export function putBytes(out: Buffer, bytes: Buffer, from: number, end: number, at: number): number {
  if (end - from <= 128) {
    // Buffer.copy makes a view first if it is not given all
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

export function putVarint(out: Buffer, value: Whole, at: number): number {
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
    // short names are nearly all of it; leaving JavaScript for them costs more than the loop
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
