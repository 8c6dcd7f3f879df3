/**
 * The history that a reply returns: version, call id, and the callee's segment, which contains the segments of its own
 * callees.
 *
 *   history   u8 version   8 B call id   segment
 *   segment   u8 flags   str service   str name   varint start   events
 *   event     u8 kind and flags   varint µs since the previous event   …
 *
 * The version is 2 if a segment in it has an event or a flag that version 1 does not have.
 */

import { addUint64, Reader, Uint64, utf8Length, Writer } from './bytes';
import { CallId } from './callid';
import { ErrorCode, FaultloomError } from './errors';
import { MAX_NAME_BYTES, MAX_SERVICE_BYTES } from './names';
import { MAX_FAULTS } from './plan';

/** The versions of a history. Version 2 has inherited calls, unscoped calls, or times for connections. */
export const VERSION_1 = 1;
export const VERSION_2 = 2;

/** Limits for decoding, and the number of bytes before the segment. */
export const MAX_HISTORY_BYTES = 4 << 20;
export const MAX_HISTORY_DEPTH = 64;
export const MAX_HISTORY_EVENTS = 100_000;
/** How many events a scope reads of the history of one reply, to count them for its plan. */
export const MAX_COUNTED_EVENTS = 10_000;
export const HEAD_BYTES = 9;

/** The kind of an event: bits 0-2 of its tag. */
export const SEND_REQUEST = 1;
export const RECV_RESPONSE = 2;
export const CALL_FAILED = 3;
export const SEND_RESPONSE = 4;
export const UNSCOPED_CALLS = 5;
export const TAG_KIND_BITS = 7;
/** Tag bits of SEND_REQUEST: a fault fired; the protocol is HTTP, also of UNSCOPED_CALLS; the call is inherited. */
export const TAG_FAULT = 8;
export const TAG_HTTP = 16;
export const TAG_INHERITED = 32;
/**
 * Tag bits of RECV_RESPONSE and CALL_FAILED: a child segment follows; the callee may have run but returned no history.
 */
export const TAG_CHILD = 8;
export const TAG_GAP = 16;
/** Tag bit of RECV_RESPONSE and CALL_FAILED: the call has set up a connection. */
export const TAG_CONNECTED = 32;

/** Flags of a segment. */
export const TRUNCATED = 1;
export const FAULTS_OFF = 2;
export const TAKES_FIELD = 4;

/** A decoded history. */
export interface History {
  /** The call it answers. */
  call: CallId;
  segment: Segment;
}

/** What one scope recorded while it served its call. */
export interface Segment {
  /** Events or child segments were left out. */
  truncated: boolean;
  /** Faults were switched off at this service. */
  faultsOff: boolean;
  service: string;
  /** The callee's name for the call; empty if it is the caller's. */
  name: string;
  /** µs since the unix epoch, by this service's clock. */
  startUs: Uint64;
  /** In chronological order. */
  events: Event[];
}

/** A message at one end. `atUs` is relative to the start of the segment; `call` counts from 1 within the segment. */
export type Event =
  | {
      kind: 'SEND_REQUEST';
      atUs: Uint64;
      call: number;
      name: string;
      peer: string;
      http: boolean;
      fault: Uint64 | null;
      /** Its context had no scope, and it got that of its task. */
      inherited: boolean;
    }
  | {
      kind: 'RECV_RESPONSE' | 'CALL_FAILED';
      atUs: Uint64;
      call: number;
      status: Uint64;
      /** µs that the call spent on a connection of its own; 0: none, or unknown. */
      connectUs: Uint64;
      gap: boolean;
      child: Segment | null;
    }
  | { kind: 'SEND_RESPONSE'; atUs: Uint64; status: Uint64 }
  | {
      kind: 'UNSCOPED_CALLS';
      atUs: Uint64;
      name: string;
      peer: string;
      http: boolean;
      count: Uint64;
      /** Where the program made them, or empty. */
      site: string;
    };

/** Whether this is a version that can be read. */
export function isVersion(version: number | undefined): boolean {
  return version === VERSION_1 || version === VERSION_2;
}

/** Whether a history belongs to a call, judged by size, version and call id only. */
export function belongsToCall(history: Buffer, call: CallId): boolean {
  return (
    history.length >= HEAD_BYTES &&
    history.length <= MAX_HISTORY_BYTES &&
    isVersion(history[0]) &&
    call.isAt(history, 1)
  );
}

/** Whether the callee accepts envelopes in a field of this method's request messages. */
export function takesField(history: Buffer): boolean {
  return history.length > HEAD_BYTES && isVersion(history[0]) && (history[HEAD_BYTES]! & TAKES_FIELD) !== 0;
}

/**
 * Whether these bytes can be the history in a tail: small enough, version 1 or 2, a call id, and a segment that can be
 * read up to its events. Readers search for the start of a tail by its first bytes, so flags that HTTP does not use and
 * control characters in the service are excluded.
 */
export function canBeginTail(bytes: Buffer, from: number, end: number): boolean {
  if (end - from <= HEAD_BYTES || end - from > MAX_HISTORY_BYTES || !isVersion(bytes[from])) {
    return false;
  }
  const r = new Reader(bytes, from + HEAD_BYTES, end);
  const { service } = readSegmentHead(r);
  return !r.bad && (bytes[from + HEAD_BYTES]! & TAKES_FIELD) === 0 && !/[\x00-\x1f\x7f]/.test(service);
}

/** Decodes a history; returns the error code if it is invalid. */
export function readHistory(bytes: Buffer): History | ErrorCode {
  if (bytes.length === 0 || bytes.length > MAX_HISTORY_BYTES) {
    return 'malformed';
  }
  if (!isVersion(bytes[0])) {
    return 'unsupported_version';
  }
  if (bytes.length < HEAD_BYTES) {
    return 'malformed';
  }
  const segment = readSegment(bytes[0]!, bytes, HEAD_BYTES);
  return segment === undefined ? 'malformed' : { call: CallId.read(bytes, 1), segment };
}

/** Decodes a history. Throws FaultloomError `malformed` or `unsupported_version`. */
export function decodeHistory(bytes: Buffer): History {
  const history = readHistory(bytes);
  if (typeof history === 'string') {
    throw new FaultloomError(history);
  }
  return history;
}

/**
 * Decodes the segment of a history of that version, from an offset to the end; undefined if it is malformed. A nested
 * segment that cannot be read, or with which there would be more than 100,000 events, is left out, and its call has a
 * gap.
 */
function readSegment(version: number, bytes: Buffer, at: number): Segment | undefined {
  const budget = { version, left: MAX_HISTORY_EVENTS, endsReading: false, exceeded: false };
  return decodeSegment(new Reader(bytes, at), 0, budget);
}

/**
 * `readSegment` for a scope that counts the events; `'too large'` if there are more than it reads.
 */
export function readCounted(version: number, bytes: Buffer, at: number): Segment | undefined | 'too large' {
  const budget = { version, left: MAX_COUNTED_EVENTS, endsReading: true, exceeded: false };
  const segment = decodeSegment(new Reader(bytes, at), 0, budget);
  return budget.exceeded ? 'too large' : segment;
}

/** The events that may still be read, of all nested segments together. */
interface Budget {
  /** Of the history. */
  readonly version: number;
  left: number;
  /** Reading ends where the budget ends. Otherwise only the segment that exceeds it is left out. */
  readonly endsReading: boolean;
  exceeded: boolean;
}

/** Decodes a segment up to its events. */
export function readSegmentHead(r: Reader): Segment {
  const flags = r.u8();
  if ((flags & ~(TRUNCATED | FAULTS_OFF | TAKES_FIELD)) !== 0) {
    r.fail();
  }
  return {
    truncated: (flags & TRUNCATED) !== 0,
    faultsOff: (flags & FAULTS_OFF) !== 0,
    service: r.str(1, MAX_SERVICE_BYTES),
    name: r.str(0, MAX_NAME_BYTES),
    startUs: r.varint(),
    events: [],
  };
}

function readReference(r: Reader, table: string[]): string {
  const k = r.count(table.length);
  if (k > 0) {
    return table[k - 1]!;
  }
  const text = r.str(1, MAX_NAME_BYTES);
  table.push(text);
  return text;
}

function decodeSegment(r: Reader, depth: number, budget: Budget): Segment | undefined {
  if (depth >= MAX_HISTORY_DEPTH) {
    return undefined;
  }
  const isVersion2 = budget.version === VERSION_2;
  const out = readSegmentHead(r);
  const table: string[] = [];
  const ended: boolean[] = []; // by call number - 1
  const nested: { event: CallEnd; from: number; end: number }[] = [];
  let atUs: Uint64 = 0;
  let finished = false;
  while (!r.bad && r.left > 0) {
    if (budget.left === 0) {
      budget.exceeded = true;
      return undefined;
    }
    budget.left--;
    if (finished) {
      return undefined;
    }
    const tag = r.u8();
    const at: Uint64 | undefined = addUint64(atUs, r.varint());
    const kind = tag & TAG_KIND_BITS;
    const hasBit5 = (tag & TAG_INHERITED) !== 0; // also TAG_CONNECTED
    if (at === undefined || (tag & ~(TAG_KIND_BITS | 8 | 16 | TAG_INHERITED)) !== 0) {
      return undefined;
    }
    if (hasBit5 && !(isVersion2 && kind <= CALL_FAILED)) {
      return undefined;
    }
    atUs = at;
    if (kind === SEND_REQUEST) {
      ended.push(false);
      const name = readReference(r, table);
      const peer = readReference(r, table);
      const fault = (tag & TAG_FAULT) === 0 ? null : r.count(MAX_FAULTS - 1);
      out.events.push({
        kind: 'SEND_REQUEST',
        atUs,
        call: ended.length,
        name,
        peer,
        http: (tag & TAG_HTTP) !== 0,
        fault,
        inherited: hasBit5,
      });
    } else if (kind === RECV_RESPONSE || kind === CALL_FAILED) {
      const call = r.count(ended.length);
      const status = r.varint();
      const connectUs = hasBit5 ? r.varint() : 0;
      if (call === 0 || ended[call - 1] === true) {
        return undefined;
      }
      ended[call - 1] = true;
      const event: CallEnd = {
        kind: kind === RECV_RESPONSE ? 'RECV_RESPONSE' : 'CALL_FAILED',
        atUs,
        call,
        status,
        connectUs,
        gap: (tag & TAG_GAP) !== 0,
        child: null,
      };
      if ((tag & TAG_CHILD) !== 0) {
        const n = r.count(MAX_HISTORY_BYTES);
        if (r.bad || n > r.left) {
          return undefined;
        }
        nested.push({ event, from: r.at, end: r.at + n });
        r.at += n;
      }
      out.events.push(event);
    } else if (tag === SEND_RESPONSE) {
      finished = true;
      out.events.push({ kind: 'SEND_RESPONSE', atUs, status: r.varint() });
    } else if (isVersion2 && (tag & ~TAG_HTTP) === UNSCOPED_CALLS) {
      const name = readReference(r, table);
      const peer = readReference(r, table);
      const count = r.varint();
      const site = r.str(0, MAX_NAME_BYTES);
      out.events.push({ kind: 'UNSCOPED_CALLS', atUs, name, peer, http: (tag & TAG_HTTP) !== 0, count, site });
    } else {
      return undefined;
    }
  }
  if (r.bad) {
    return undefined;
  }
  // after the segment's own events: however large a nested segment is, they are not left out
  for (const { event, from, end } of nested) {
    const before = budget.left;
    event.child = decodeSegment(new Reader(r.bytes, from, end), depth + 1, budget) ?? null;
    if (event.child === null) {
      if (budget.endsReading && budget.exceeded) {
        return undefined;
      }
      if (!budget.endsReading) {
        budget.left = before; // events that are left out do not count
      }
      event.gap = true;
    }
  }
  return out;
}

/** The event at the end of a call. */
type CallEnd = Extract<Event, { child: Segment | null }>;

/** Writes everything before the events. */
export function writeHead(
  out: Writer,
  version: number,
  call: CallId,
  flags: number,
  service: string,
  name: string,
  startUs: Uint64,
): void {
  out.u8(version);
  out.u32(call.high);
  out.u32(call.low);
  out.u8(flags);
  out.str(service);
  out.str(name);
  out.varint(startUs);
}

/** An upper bound of the bytes that `writeHead` writes. */
export function maxHeadBytes(service: string, name: string): number {
  return HEAD_BYTES + 1 + 2 + utf8Length(service) + 3 + utf8Length(name) + 10;
}
