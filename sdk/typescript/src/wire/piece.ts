/**
 * The history of a stream, in pieces: what a caller has when it ends the stream early is a history, only shorter.
 *
 *   u8 0x81   u8 flags   varint offset   the next bytes of the history
 */

import { EMPTY, putVarint, Reader, varintLength, Whole, Writer } from './bytes';
import type { CallId } from './callid';
import { fieldLength } from './carrier';
import { ACCEPT_FIELD } from './envelope';
import { answers, HEAD_BYTES, MAX_HISTORY_BYTES, TRUNCATED } from './history';
import { eventsAt, shorten } from './truncate';

/** Tells a piece from a history, whose first byte is its version. */
export const PIECE = 0x81;
const LAST = 1;
const CUT = 2;

/** Is this a piece, and not a whole history? */
export function isPiece(bytes: Buffer): boolean {
  return bytes.length > 0 && bytes[0] === PIECE;
}

function piece(flags: number, offset: number, head: Buffer, events: Buffer): Buffer {
  const out = Buffer.allocUnsafe(2 + varintLength(offset) + head.length + events.length);
  out[0] = PIECE;
  out[1] = flags;
  const at = putVarint(out, offset, 2);
  out.set(head, at);
  out.set(events, at + head.length);
  return out;
}

/** How far a stream's history has left; the history itself is kept by the scope, which hands it in as it stands. */
export class Pieces {
  /** The head as it left: what the first piece said stays said. */
  head: Buffer | null = null;
  private gone = 0;
  private offset = 0;

  constructor(
    private readonly accept: number,
    private readonly receiveLimit: Whole,
  ) {}

  /** Could a message that leaves now take something along? `events`: how many bytes of them there are. */
  due(events: number): boolean {
    return (this.accept & ACCEPT_FIELD) !== 0 && (this.head === null || events > this.gone);
  }

  /** What goes along with a reply message of that many bytes, or null. `head`: up to the events; both are kept or copied. */
  message(messageBytes: number, head: Buffer, events: Buffer): Buffer | null {
    if (!this.due(events.length)) {
      return null;
    }
    const out = piece(0, this.offset, this.head === null ? head : EMPTY, events.subarray(this.gone));
    if (messageBytes + fieldLength(out.length) > this.receiveLimit) {
      return null;
    }
    this.head ??= Buffer.from(head);
    this.gone = events.length;
    this.offset = this.head.length + this.gone;
    return out;
  }

  /** What is left when the handler has ended, in at most `limit` bytes; null if nothing of it fits. */
  last(limit: number, head: Buffer, events: Buffer): Buffer | null {
    const start = this.head === null ? head : EMPTY;
    const news = events.subarray(this.gone);
    const room = limit - (2 + varintLength(this.offset) + start.length);
    if (news.length <= room) {
      return piece(LAST, this.offset, start, news);
    }
    const shorter = room < 0 ? null : shorten(news, room);
    return shorter == null ? null : piece(LAST | CUT, this.offset, start, shorter);
  }
}

/** What pieces made. */
export interface Joined {
  /** Null: not even a head arrived, or it answers another call. */
  history: Buffer | null;
  /** The last piece is there, and none was truncated. */
  complete: boolean;
}

/** Collects the pieces of one call in the order in which they arrive. */
export class Joiner {
  private readonly out = new Writer(256);
  private cut = false;
  private last = false;
  /** A piece that did not fit ends the history: what follows it may hang in the air. */
  private ended = false;

  add(bytes: Buffer): void {
    this.ended ||= this.last || !this.fits(bytes);
  }

  private fits(bytes: Buffer): boolean {
    const r = new Reader(bytes);
    const kind = r.u8();
    const flags = r.u8();
    const offset = r.varint();
    if (r.bad || kind !== PIECE || (flags & ~(LAST | CUT)) !== 0 || offset !== this.out.length) {
      return false;
    }
    if (this.out.length + r.left > MAX_HISTORY_BYTES) {
      return false;
    }
    this.out.put(r.take(r.left));
    this.cut ||= (flags & CUT) !== 0;
    this.last ||= (flags & LAST) !== 0;
    return true;
  }

  /** The history so far, which must answer `call`. */
  finish(call: CallId): Joined {
    const bytes = Buffer.from(this.out.view());
    if (!answers(bytes, call) || eventsAt(bytes) < 0) {
      return { history: null, complete: false };
    }
    const complete = this.last && !this.cut;
    if (!complete) {
      bytes[HEAD_BYTES]! |= TRUNCATED;
    }
    return { history: bytes, complete };
  }
}
