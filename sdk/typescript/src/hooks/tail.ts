/**
 * Cuts the history off behind an HTTP body while the body streams.
 *
 * Where a tail begins is certain only at the end of the body, so bytes are held back from the first place that could be its
 * beginning: version, call id, flags, a short name without control characters. Text never looks like that; in binary data
 * most candidates fall within a few bytes, and one that stands is given up after the largest possible tail.
 */

import { EMPTY } from '../wire/bytes';
import type { CallId } from '../wire/callid';
import { cutTail, ENDING_BYTES } from '../wire/carrier';
import { answers, MAX_HISTORY_BYTES } from '../wire/history';


const MAX_TAIL_BYTES = MAX_HISTORY_BYTES + ENDING_BYTES;
const VERSION = 1;
const FLAGS_AT = 9;
const LENGTH_AT = 10;
const NAME_AT = 11;
const LARGEST_FLAGS = 3;
const LONGEST_NAME = 64;

/** Cuts one body; `found` is called once, with null if there is no history. */
export class TailCutter {
  private held: Buffer = EMPTY;
  private told = false;

  constructor(
    private readonly call: CallId,
    private readonly found: (history: Buffer | null) => void,
  ) {}

  /** Takes the next bytes of the body; returns those that are certainly not part of a tail. */
  feed(chunk: Buffer): Buffer {
    const bytes = this.held.length === 0 ? chunk : Buffer.concat([this.held, chunk]);
    const at = candidate(bytes);
    this.held = bytes.subarray(at);
    if (this.held.length > ENDING_BYTES && !this.told) {
      // a complete tail of our own call cannot be anything else, and what the program does next may depend on it
      const { message, history } = cutTail(this.held);
      if (history !== null && message.length === 0 && answers(history, this.call)) {
        this.tell(Buffer.from(history));
      }
    }
    return bytes.subarray(0, at);
  }

  /** The body has ended; returns what is left of it. */
  end(): Buffer {
    const { message, history } = cutTail(this.held);
    const rest = history !== null && history[0] === VERSION ? message : this.held;
    this.tell(rest === this.held ? null : Buffer.from(history!));
    this.held = EMPTY;
    return rest;
  }

  /** The body will not end: broken off, or nobody reads it. Returns what was held back. */
  abandon(): Buffer {
    const rest = this.held;
    this.held = EMPTY;
    this.tell(null);
    return rest;
  }

  private tell(history: Buffer | null): void {
    if (!this.told) {
      this.told = true;
      this.found(history);
    }
  }
}

/** The first place from which on all of the bytes could be a tail, or their length. */
function candidate(bytes: Buffer): number {
  for (let at = bytes.indexOf(VERSION); at >= 0; at = bytes.indexOf(VERSION, at + 1)) {
    if (bytes.length - at <= MAX_TAIL_BYTES && couldBegin(bytes, at)) {
      return at;
    }
  }
  return bytes.length;
}

function couldBegin(bytes: Buffer, at: number): boolean {
  const end = bytes.length;
  if (at + FLAGS_AT < end && bytes[at + FLAGS_AT]! > LARGEST_FLAGS) {
    return false;
  }
  if (at + LENGTH_AT >= end) {
    return true;
  }
  const length = bytes[at + LENGTH_AT]!;
  if (length === 0 || length > LONGEST_NAME) {
    return false;
  }
  for (let i = at + NAME_AT; i < end && i < at + NAME_AT + length; i++) {
    if (bytes[i]! < 0x20 || bytes[i] === 0x7f) {
      return false;
    }
  }
  return true;
}
