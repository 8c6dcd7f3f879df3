/**
 * What a reply brings back: version, call id, and the segment its callee recorded, with the segments of further callees inside.
 *
 *   history   u8 version = 1   8 B call id   segment
 *   segment   u8 flags   str service   str name   varint start   events
 *   event     u8 kind and flags   varint µs since the previous event   …
 */

import { Reader, sum, utf8Length, Whole, Writer } from './bytes';
import { CallId } from './callid';
import { VERSION } from './envelope';
import { ErrorCode, FaultloomError } from './errors';
import { MAX_NAME_BYTES, MAX_SERVICE_BYTES } from './names';

/** Limits when reading, and the size of what precedes the segment. */
export const MAX_HISTORY_BYTES = 4 << 20;
export const MAX_HISTORY_DEPTH = 64;
export const MAX_HISTORY_EVENTS = 100_000;
export const HEAD_BYTES = 9;

/** Kinds of events, in bits 0-2 of their tag, and the flags above. */
export const SEND_REQUEST = 1;
export const RECV_RESPONSE = 2;
export const CALL_FAILED = 3;
export const SEND_RESPONSE = 4;
export const KIND_BITS = 7;
/** SEND_REQUEST: a fault fired, HTTP. */
export const FAULT_FLAG = 8;
export const HTTP_FLAG = 16;
/** RECV_RESPONSE, CALL_FAILED: a child segment follows, no history came back. */
export const CHILD_FLAG = 8;
export const GAP_FLAG = 16;

/** Flags of a segment. */
export const TRUNCATED = 1;
export const FAULTS_OFF = 2;
export const TAKES_FIELD = 4;

/** What is in a history. */
export interface History {
  /** The call it answers. */
  call: CallId;
  segment: Segment;
}

/** What one scope did to answer its call. */
export interface Segment {
  /** Events or child histories were left out. */
  truncated: boolean;
  /** Faults are switched off at this service. */
  faultsOff: boolean;
  service: string;
  /** The call as its callee knows it; empty: the same as the caller's. */
  name: string;
  /** µs since the unix epoch, by this service's clock. */
  startUs: Whole;
  /** In the order in which they happened. */
  events: Event[];
}

/** A message at one end; `atUs` counts from the segment's start, `call` from 1 within the segment. */
export type Event =
  | { kind: 'SEND_REQUEST'; atUs: Whole; call: number; name: string; peer: string; http: boolean; fault: Whole | null }
  | { kind: 'RECV_RESPONSE' | 'CALL_FAILED'; atUs: Whole; call: number; status: Whole; gap: boolean; child: Segment | null }
  | { kind: 'SEND_RESPONSE'; atUs: Whole; status: Whole };

/** Does this history answer the call? Only its size, version and head are looked at. */
export function answers(history: Buffer, call: CallId): boolean {
  return history.length >= HEAD_BYTES && history.length <= MAX_HISTORY_BYTES && history[0] === VERSION && call.isAt(history, 1);
}

/** Does the service of this history take envelopes in a field of the answered method's requests? */
export function takesField(history: Buffer): boolean {
  return history.length > HEAD_BYTES && history[0] === VERSION && (history[HEAD_BYTES]! & TAKES_FIELD) !== 0;
}

/** Reads a whole history. */
export function readHistory(bytes: Buffer): History | ErrorCode {
  if (bytes.length === 0 || bytes.length > MAX_HISTORY_BYTES) {
    return 'malformed';
  }
  if (bytes[0] !== VERSION) {
    return 'unsupported_version';
  }
  if (bytes.length < HEAD_BYTES) {
    return 'malformed';
  }
  const segment = readSegment(bytes, HEAD_BYTES);
  return segment === undefined ? 'malformed' : { call: CallId.read(bytes, 1), segment };
}

/** As readHistory; throws `malformed`, `unsupported_version`. */
export function decodeHistory(bytes: Buffer): History {
  const history = readHistory(bytes);
  if (typeof history === 'string') {
    throw new FaultloomError(history);
  }
  return history;
}

/** Reads the segment that begins at a place and goes to the end; undefined if it is malformed. */
export function readSegment(bytes: Buffer, at: number): Segment | undefined {
  return segment(new Reader(bytes, at), 0, { events: MAX_HISTORY_EVENTS });
}

/** Reads a segment up to its events. */
export function readPrefix(r: Reader): Segment {
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

function reference(r: Reader, table: string[]): string {
  const k = r.count(table.length);
  if (k > 0) {
    return table[k - 1]!;
  }
  const text = r.str(1, MAX_NAME_BYTES);
  table.push(text);
  return text;
}

function segment(r: Reader, depth: number, budget: { events: number }): Segment | undefined {
  if (depth >= MAX_HISTORY_DEPTH) {
    return undefined;
  }
  const out = readPrefix(r);
  const table: string[] = [];
  const ended: boolean[] = []; // by call number - 1
  let atUs: Whole = 0;
  let answered = false;
  while (!r.bad && r.left > 0) {
    if (--budget.events < 0 || answered) {
      return undefined;
    }
    const tag = r.u8();
    const at: Whole | undefined = sum(atUs, r.varint());
    if (at === undefined || (tag & ~(KIND_BITS | 8 | 16)) !== 0) {
      return undefined;
    }
    atUs = at;
    const kind = tag & KIND_BITS;
    if (kind === SEND_REQUEST) {
      ended.push(false);
      const name = reference(r, table);
      const peer = reference(r, table);
      const fault = (tag & FAULT_FLAG) === 0 ? null : r.varint();
      out.events.push({ kind: 'SEND_REQUEST', atUs, call: ended.length, name, peer, http: (tag & HTTP_FLAG) !== 0, fault });
    } else if (kind === RECV_RESPONSE || kind === CALL_FAILED) {
      const call = r.count(ended.length);
      const status = r.varint();
      if (call === 0 || ended[call - 1] === true) {
        return undefined;
      }
      ended[call - 1] = true;
      let child: Segment | null = null;
      if ((tag & CHILD_FLAG) !== 0) {
        const n = r.count(MAX_HISTORY_BYTES);
        if (r.bad || n > r.left) {
          return undefined;
        }
        const inner = segment(new Reader(r.bytes, r.at, r.at + n), depth + 1, budget);
        if (inner === undefined) {
          return undefined;
        }
        r.at += n;
        child = inner;
      }
      const gap = (tag & GAP_FLAG) !== 0;
      out.events.push({ kind: kind === RECV_RESPONSE ? 'RECV_RESPONSE' : 'CALL_FAILED', atUs, call, status, gap, child });
    } else if (tag === SEND_RESPONSE) {
      answered = true;
      out.events.push({ kind: 'SEND_RESPONSE', atUs, status: r.varint() });
    } else {
      return undefined;
    }
  }
  return r.bad ? undefined : out;
}

/** Writes what precedes the events. */
export function writeHead(out: Writer, call: CallId, flags: number, service: string, name: string, startUs: Whole): void {
  out.u8(VERSION);
  out.u32(call.high);
  out.u32(call.low);
  out.u8(flags);
  out.str(service);
  out.str(name);
  out.varint(startUs);
}

/** At most how many bytes `writeHead` writes. */
export function headRoom(service: string, name: string): number {
  return HEAD_BYTES + 1 + 2 + utf8Length(service) + 3 + utf8Length(name) + 10;
}
