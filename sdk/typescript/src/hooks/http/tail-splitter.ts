/**
 * Splits the tail off a streaming HTTP body.
 *
 * The start of the tail is certain only at the end of the body. Bytes are therefore held back from the first offset
 * where a tail could start: version, call id, flags, a short name without control characters. Text never matches. In
 * binary data most candidates are ruled out within a few bytes; one that is not is dropped after the maximum size of a
 * tail.
 */

import { EMPTY } from '../../wire/bytes';
import type { CallId } from '../../wire/callid';
import { cutTail, ENDING_BYTES } from '../../wire/carrier';
import {
  belongsToCall,
  FAULTS_OFF,
  HEAD_BYTES,
  MAX_HISTORY_BYTES,
  TRUNCATED,
  VERSION_1,
  VERSION_2,
} from '../../wire/history';
import { MAX_SERVICE_BYTES } from '../../wire/names';

const MAX_TAIL_BYTES = MAX_HISTORY_BYTES + ENDING_BYTES;
const FLAGS_AT = HEAD_BYTES;
const LENGTH_AT = FLAGS_AT + 1;
const NAME_AT = LENGTH_AT + 1;
const HTTP_FLAGS = TRUNCATED | FAULTS_OFF;

/** Splits one body. `onHistory` is called once, with null if there is no history. */
export class TailSplitter {
  private held: Buffer = EMPTY;
  /** `held` and the unused memory after it; empty if `held` is part of a chunk. */
  private room: Buffer = EMPTY;
  private reported = false;

  constructor(
    private readonly call: CallId,
    private readonly onHistory: (history: Buffer | null) => void,
  ) {}

  /** Takes the next bytes of the body and returns those that are certainly not part of the tail. */
  feed(chunk: Buffer): Buffer {
    const bytes = this.append(chunk);
    const at = tailCandidate(bytes);
    this.held = bytes.subarray(at);
    this.room = this.room.subarray(at);
    if (this.held.length > ENDING_BYTES && !this.reported) {
      // a complete tail for this very call is certain; the application's next call may depend on its counters
      const { message, history } = cutTail(this.held);
      if (history !== null && message.length === 0 && belongsToCall(history, this.call)) {
        this.report(Buffer.from(history));
      }
    }
    return bytes.subarray(0, at);
  }

  /** The bytes held back and the chunk. Bytes that were returned earlier are not overwritten. */
  private append(chunk: Buffer): Buffer {
    if (this.held.length === 0) {
      this.room = EMPTY;
      return chunk;
    }
    const length = this.held.length + chunk.length;
    if (length > this.room.length) {
      this.room = Buffer.allocUnsafe(2 * length);
      this.held.copy(this.room);
    }
    chunk.copy(this.room, this.held.length);
    return this.room.subarray(0, length);
  }

  /** The body has ended; returns the rest of it. */
  end(): Buffer {
    const { message, history } = cutTail(this.held);
    this.report(history === null ? null : Buffer.from(history));
    this.held = EMPTY;
    return message;
  }

  /** The body is incomplete, or the application does not read it. Returns the bytes that were held back. */
  abandon(): Buffer {
    const rest = this.held;
    this.held = EMPTY;
    this.report(null);
    return rest;
  }

  private report(history: Buffer | null): void {
    if (!this.reported) {
      this.reported = true;
      this.onHistory(history);
    }
  }
}

/** The first offset from which all bytes could be a tail, or their length. */
function tailCandidate(bytes: Buffer): number {
  return Math.min(candidateOfVersion(VERSION_1, bytes), candidateOfVersion(VERSION_2, bytes));
}

function candidateOfVersion(version: number, bytes: Buffer): number {
  for (let at = bytes.indexOf(version); at >= 0; at = bytes.indexOf(version, at + 1)) {
    if (bytes.length - at <= MAX_TAIL_BYTES && couldStartAt(bytes, at)) {
      return at;
    }
  }
  return bytes.length;
}

function couldStartAt(bytes: Buffer, at: number): boolean {
  const end = bytes.length;
  if (at + FLAGS_AT < end && (bytes[at + FLAGS_AT]! & ~HTTP_FLAGS) !== 0) {
    return false;
  }
  if (at + LENGTH_AT >= end) {
    return true;
  }
  const length = bytes[at + LENGTH_AT]!;
  if (length === 0 || length > MAX_SERVICE_BYTES) {
    return false;
  }
  for (let i = at + NAME_AT; i < end && i < at + NAME_AT + length; i++) {
    if (bytes[i]! < 0x20 || bytes[i] === 0x7f) {
      return false;
    }
  }
  return true;
}
