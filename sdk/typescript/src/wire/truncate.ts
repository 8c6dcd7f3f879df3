/** Cutting a history down to what a carrier holds, between events. */

import { EMPTY, putVarint, Reader, sum, varintLength, Whole, Writer } from './bytes';
import { FaultloomError } from './errors';
import {
  CALL_FAILED,
  CHILD_FLAG,
  FAULT_FLAG,
  GAP_FLAG,
  HEAD_BYTES,
  KIND_BITS,
  MAX_HISTORY_BYTES,
  readPrefix,
  RECV_RESPONSE,
  SEND_REQUEST,
  SEND_RESPONSE,
  TRUNCATED,
} from './history';

/** Where an event lies. */
interface RawEvent {
  tag: number;
  dt: Whole;
  /** All of it, without a child history (which becomes a gap). */
  flat: Buffer;
  /** What follows tag and time, without a child history. */
  fixed: Buffer;
}

function rawEvents(bytes: Buffer): RawEvent[] | undefined {
  const r = new Reader(bytes);
  const events: RawEvent[] = [];
  while (!r.bad && r.left > 0) {
    const start = r.at;
    const tag = r.u8();
    const dt = r.varint();
    const from = r.at;
    let fixedEnd = -1;
    switch (tag & KIND_BITS) {
      case SEND_REQUEST:
        skipReference(r);
        skipReference(r);
        if ((tag & FAULT_FLAG) !== 0) {
          r.varint();
        }
        break;
      case RECV_RESPONSE:
      case CALL_FAILED:
        r.varint();
        r.varint();
        if ((tag & CHILD_FLAG) !== 0) {
          fixedEnd = r.at;
          r.take(r.count(MAX_HISTORY_BYTES));
        }
        break;
      case SEND_RESPONSE:
        r.varint();
        break;
      default:
        return undefined;
    }
    const fixed = bytes.subarray(from, fixedEnd < 0 ? r.at : fixedEnd);
    let flat = bytes.subarray(start, r.at);
    if (fixedEnd >= 0) {
      flat = Buffer.from(bytes.subarray(start, fixedEnd));
      flat[0] = (tag & ~CHILD_FLAG) | GAP_FLAG;
    }
    events.push({ tag, dt, flat, fixed });
  }
  return r.bad ? undefined : events;
}

/** Past a `ref`; the table it points into may have begun in an earlier piece. */
function skipReference(r: Reader): void {
  if (r.varint() === 0) {
    r.take(r.count(MAX_HISTORY_BYTES));
  }
}

/**
 * Events without child histories; if that is still too large, as many of the first ones as leave room for the final
 * SEND_RESPONSE. Null if not even that fits, undefined if the events are malformed.
 */
export function shorten(bytes: Buffer, room: number): Buffer | null | undefined {
  const events = rawEvents(bytes);
  if (events === undefined) {
    return undefined;
  }
  let size = 0;
  for (const e of events) {
    size += e.flat.length;
  }
  if (size <= room) {
    return concat(events, events.length, size, EMPTY);
  }
  const last = events[events.length - 1];
  if (last === undefined || (last.tag & KIND_BITS) !== SEND_RESPONSE) {
    return null;
  }
  let skipped: Whole = 0;
  for (let kept = events.length - 1; kept >= 0; kept--) {
    size -= events[kept]!.flat.length;
    skipped = sum(skipped, events[kept]!.dt) ?? skipped;
    const time = varintLength(skipped);
    if (size + 1 + time + last.fixed.length <= room) {
      const end = Buffer.allocUnsafe(1 + time + last.fixed.length);
      end[0] = SEND_RESPONSE;
      putVarint(end, skipped, 1);
      end.set(last.fixed, 1 + time);
      return concat(events, kept, size, end);
    }
  }
  return null;
}

function concat(events: RawEvent[], count: number, size: number, end: Buffer): Buffer {
  const out = new Writer(size + end.length);
  for (let i = 0; i < count; i++) {
    out.put(events[i]!.flat);
  }
  out.put(end);
  return out.view();
}

/** Where the events of a history begin; -1 if it has no whole head. */
export function eventsAt(history: Buffer): number {
  const r = new Reader(history, Math.min(HEAD_BYTES, history.length));
  readPrefix(r);
  return r.bad ? -1 : r.at;
}

/** A history cut to at most `limit` bytes; null if not even its frame fits. Throws `malformed`. */
export function truncate(history: Buffer, limit: number): Buffer | null {
  if (history.length <= limit) {
    return history;
  }
  const at = eventsAt(history);
  const events = at < 0 ? undefined : shorten(history.subarray(at), limit - at);
  if (events === undefined) {
    throw new FaultloomError('malformed');
  }
  if (events === null) {
    return null;
  }
  const out = Buffer.concat([history.subarray(0, at), events]);
  out[HEAD_BYTES]! |= TRUNCATED;
  return out;
}
