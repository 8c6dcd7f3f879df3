/** Truncates a history to the capacity of its carrier, at event boundaries. */

import { addUint64, EMPTY, putVarint, Reader, Uint64, varintLength, Writer } from './bytes';
import { FaultloomError } from './errors';
import {
  CALL_FAILED,
  HEAD_BYTES,
  MAX_HISTORY_BYTES,
  readSegmentHead,
  RECV_RESPONSE,
  SEND_REQUEST,
  SEND_RESPONSE,
  TAG_CHILD,
  TAG_CONNECTED,
  TAG_FAULT,
  TAG_GAP,
  TAG_KIND_BITS,
  TRUNCATED,
  UNSCOPED_CALLS,
} from './history';

/** An encoded event. */
interface RawEvent {
  tag: number;
  dt: Uint64;
  /** The whole event; a child segment is replaced by a gap. */
  flat: Buffer;
  /** The fields after tag and time, without a child segment. */
  fields: Buffer;
}

function rawEvents(bytes: Buffer): RawEvent[] | undefined {
  const r = new Reader(bytes);
  const events: RawEvent[] = [];
  while (!r.bad && r.left > 0) {
    const start = r.at;
    const tag = r.u8();
    const dt = r.varint();
    const from = r.at;
    let fieldsEnd = -1;
    switch (tag & TAG_KIND_BITS) {
      case SEND_REQUEST:
        skipReference(r);
        skipReference(r);
        if ((tag & TAG_FAULT) !== 0) {
          r.varint();
        }
        break;
      case RECV_RESPONSE:
      case CALL_FAILED:
        r.varint();
        r.varint();
        if ((tag & TAG_CONNECTED) !== 0) {
          r.varint();
        }
        if ((tag & TAG_CHILD) !== 0) {
          fieldsEnd = r.at;
          r.take(r.count(MAX_HISTORY_BYTES));
        }
        break;
      case SEND_RESPONSE:
        r.varint();
        break;
      case UNSCOPED_CALLS:
        skipReference(r);
        skipReference(r);
        r.varint();
        r.take(r.count(MAX_HISTORY_BYTES));
        break;
      default:
        return undefined;
    }
    const fields = bytes.subarray(from, fieldsEnd < 0 ? r.at : fieldsEnd);
    let flat = bytes.subarray(start, r.at);
    if (fieldsEnd >= 0) {
      flat = Buffer.from(bytes.subarray(start, fieldsEnd));
      flat[0] = (tag & ~TAG_CHILD) | TAG_GAP;
    }
    events.push({ tag, dt, flat, fields });
  }
  return r.bad ? undefined : events;
}

/** Skips a string reference. Its table may have begun in an earlier piece, so the reference is not resolved. */
function skipReference(r: Reader): void {
  if (r.varint() === 0) {
    r.take(r.count(MAX_HISTORY_BYTES));
  }
}

/**
 * Removes the child segments of events. If the result is still too large, keeps as many of the first events as leave
 * space for the final SEND_RESPONSE. Returns null if not even that fits, and undefined if the events are malformed.
 */
export function truncateEvents(bytes: Buffer, limit: number): Buffer | null | undefined {
  const events = rawEvents(bytes);
  if (events === undefined) {
    return undefined;
  }
  let size = 0;
  for (const e of events) {
    size += e.flat.length;
  }
  if (size <= limit) {
    return concat(events, events.length, size, EMPTY);
  }
  const last = events[events.length - 1];
  if (last === undefined || (last.tag & TAG_KIND_BITS) !== SEND_RESPONSE) {
    return null;
  }
  let skipped: Uint64 = 0;
  for (let kept = events.length - 1; kept >= 0; kept--) {
    size -= events[kept]!.flat.length;
    skipped = addUint64(skipped, events[kept]!.dt) ?? skipped;
    const time = varintLength(skipped);
    if (size + 1 + time + last.fields.length <= limit) {
      const end = Buffer.allocUnsafe(1 + time + last.fields.length);
      end[0] = SEND_RESPONSE;
      putVarint(end, skipped, 1);
      end.set(last.fields, 1 + time);
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

/** The offset of the first event; -1 if the head is incomplete. */
export function eventsOffset(history: Buffer): number {
  const r = new Reader(history, Math.min(HEAD_BYTES, history.length));
  readSegmentHead(r);
  return r.bad ? -1 : r.at;
}

/** Truncates a history to at most `limit` bytes; null if not even its head and last event fit. Throws `malformed`. */
export function truncateHistory(history: Buffer, limit: number): Buffer | null {
  if (history.length <= limit) {
    return history;
  }
  const at = eventsOffset(history);
  const events = at < 0 ? undefined : truncateEvents(history.subarray(at), limit - at);
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
