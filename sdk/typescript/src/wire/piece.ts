/**
 * The history of a stream, sent in pieces. A caller that ends the stream early holds a valid, truncated history.
 *
 *   u8 0x81   u8 flags   varint offset   the next bytes of the history
 */

import { EMPTY, putVarint, Reader, Uint64, varintLength, Writer } from './bytes';
import type { CallId } from './callid';
import { fieldLength } from './carrier';
import { ACCEPT_FIELD } from './envelope';
import { belongsToCall, HEAD_BYTES, MAX_HISTORY_BYTES, TRUNCATED, VERSION_2 } from './history';
import { eventsOffset, truncateEvents } from './truncate';

/** The first byte of a piece; the first byte of a whole history is its version. */
export const PIECE = 0x81;
const LAST = 1;
const CUT_SHORT = 2;
/** The history has version 2, although a head that was sent before has version 1. */
const HAS_VERSION_2 = 4;

/** Whether these bytes are a piece and not a whole history. */
export function isPiece(bytes: Buffer): boolean {
  return bytes.length > 0 && bytes[0] === PIECE;
}

/** `version`: that of the history now. */
function encodePiece(flags: number, version: number, offset: number, head: Buffer, events: Buffer): Buffer {
  const out = Buffer.allocUnsafe(2 + varintLength(offset) + head.length + events.length);
  out[0] = PIECE;
  out[1] = flags | (version === VERSION_2 ? HAS_VERSION_2 : 0);
  const at = putVarint(out, offset, 2);
  out.set(head, at);
  out.set(events, at + head.length);
  return out;
}

/**
 * Cuts the history of one stream into pieces. The scope keeps the history and passes its current state to each call.
 */
export class PieceWriter {
  /** The head that the first piece contained; it does not change afterwards. */
  head: Buffer | null = null;
  private sentEventBytes = 0;
  private offset = 0;

  constructor(
    private readonly accept: number,
    private readonly receiveLimit: Uint64,
  ) {}

  /** Whether there is something new to send. `eventBytes`: size of the events so far. */
  isDue(eventBytes: number): boolean {
    return (this.accept & ACCEPT_FIELD) !== 0 && (this.head === null || eventBytes > this.sentEventBytes);
  }

  /**
   * The piece for a reply message of `messageBytes` bytes; null if nothing is new or the message would become too
   * large. `head`: the history up to its events. Both buffers are copied.
   */
  nextPiece(messageBytes: number, head: Buffer, events: Buffer): Buffer | null {
    if (!this.isDue(events.length)) {
      return null;
    }
    const start = this.head === null ? head : EMPTY;
    const out = encodePiece(0, head[0]!, this.offset, start, events.subarray(this.sentEventBytes));
    if (messageBytes + fieldLength(out.length) > this.receiveLimit) {
      return null;
    }
    this.head ??= Buffer.from(head);
    this.sentEventBytes = events.length;
    this.offset = this.head.length + this.sentEventBytes;
    return out;
  }

  /** The last piece, after the handler has ended, in at most `limit` bytes; null if nothing fits. */
  lastPiece(limit: number, head: Buffer, events: Buffer): Buffer | null {
    const start = this.head === null ? head : EMPTY;
    const unsent = events.subarray(this.sentEventBytes);
    const available = limit - (2 + varintLength(this.offset) + start.length);
    if (unsent.length <= available) {
      return encodePiece(LAST, head[0]!, this.offset, start, unsent);
    }
    const shorter = available < 0 ? null : truncateEvents(unsent, available);
    return shorter == null ? null : encodePiece(LAST | CUT_SHORT, head[0]!, this.offset, start, shorter);
  }
}

/** Assembles the pieces of one call, in order of arrival. */
export class PieceJoiner {
  private readonly out = new Writer(256);
  private truncated = false;
  private isVersion2 = false;
  private last = false;
  /** A piece out of sequence ends the history; later pieces may refer to missing bytes. */
  private ended = false;

  add(bytes: Buffer): void {
    this.ended ||= this.last || !this.append(bytes);
  }

  private append(bytes: Buffer): boolean {
    const r = new Reader(bytes);
    const kind = r.u8();
    const flags = r.u8();
    const offset = r.varint();
    if (r.bad || kind !== PIECE || (flags & ~(LAST | CUT_SHORT | HAS_VERSION_2)) !== 0) {
      return false;
    }
    if (offset !== this.out.length || this.out.length + r.left > MAX_HISTORY_BYTES) {
      return false;
    }
    this.out.put(r.take(r.left));
    this.truncated ||= (flags & CUT_SHORT) !== 0;
    this.isVersion2 ||= (flags & HAS_VERSION_2) !== 0;
    this.last ||= (flags & LAST) !== 0;
    return true;
  }

  /** Whether the last piece arrived and nothing was truncated. */
  get isComplete(): boolean {
    return this.last && !this.truncated;
  }

  /** The history so far. Null if no complete head arrived or it belongs to another call. */
  history(call: CallId): Buffer | null {
    const bytes = Buffer.from(this.out.view());
    if (!belongsToCall(bytes, call) || eventsOffset(bytes) < 0) {
      return null;
    }
    if (this.isVersion2) {
      bytes[0] = VERSION_2;
    }
    if (!this.isComplete) {
      bytes[HEAD_BYTES]! |= TRUNCATED;
    }
    return bytes;
  }
}
