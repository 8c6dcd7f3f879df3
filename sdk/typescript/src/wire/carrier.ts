/**
 * Carriers of a history: a protobuf field appended to a gRPC message, an HTTP header, or a tail after an HTTP body. A
 * gRPC request may carry its envelope in the same field.
 *
 *   field   tag (5 bytes)  varint length  history  u32 BE: length of the whole field, tag included  "flm" 0x01
 *   tail    history  u32 BE: length of the history  "flm" 0x01
 */

import { putU32, putVarint, Reader, varintLength } from './bytes';
import { ACCEPT_TAIL } from './envelope';
import { canBeginTail } from './history';

/** Limits of a history in bytes, before base64. */
export const MAX_HEADER_BYTES = 768;
export const MAX_TRAILER_BYTES = 3072;

/** Field 333000333, length-delimited, as a varint. */
const TAG = Buffer.from([0xea, 0xe8, 0xa5, 0xf6, 0x09]);
/** "flm" 0x01 */
const MAGIC = 0x666c6d01;
/** u32 length and magic. */
export const ENDING_BYTES = 8;

/** How many bytes `appendField` adds for a history of `historyBytes` bytes. */
export function fieldLength(historyBytes: number): number {
  return TAG.length + varintLength(historyBytes + ENDING_BYTES) + historyBytes + ENDING_BYTES;
}

/** A serialized protobuf message with the history appended as a field. */
export function appendField(message: Uint8Array, history: Buffer): Buffer {
  const field = fieldLength(history.length);
  const out = Buffer.allocUnsafe(message.length + field);
  out.set(message, 0);
  out.set(TAG, message.length);
  const at = putVarint(out, history.length + ENDING_BYTES, message.length + TAG.length);
  out.set(history, at);
  putU32(out, MAGIC, putU32(out, field, at + history.length));
  return out;
}

/** A message and the history that was attached to it, or null; both are views. */
export interface CutMessage {
  message: Buffer;
  history: Buffer | null;
}

/** The length that precedes the magic number, or -1 if there is no magic number. */
function endingLength(b: Buffer): number {
  return b.length >= ENDING_BYTES && b.readUInt32BE(b.length - 4) === MAGIC
    ? b.readUInt32BE(b.length - ENDING_BYTES)
    : -1;
}

// a loop is faster than a native comparison of five bytes
function hasTagAt(bytes: Buffer, at: number): boolean {
  for (let i = 0; i < TAG.length; i++) {
    if (bytes[at + i] !== TAG[i]) {
      return false;
    }
  }
  return true;
}

/** A cheap test: if false, `cutField` finds no field. */
export function mightHaveField(bytes: Buffer): boolean {
  return endingLength(bytes) >= 0;
}

/** Splits off the field. Without one, `message` is the given buffer itself. */
export function cutField(bytes: Buffer): CutMessage {
  const n = endingLength(bytes);
  const start = bytes.length - n;
  if (n < TAG.length + 1 + ENDING_BYTES || start < 0 || !hasTagAt(bytes, start)) {
    return { message: bytes, history: null };
  }
  const r = new Reader(bytes, start + TAG.length);
  const size = r.varint();
  if (r.bad || size !== r.left || size < ENDING_BYTES) {
    return { message: bytes, history: null };
  }
  return { message: bytes.subarray(0, start), history: bytes.subarray(r.at, bytes.length - ENDING_BYTES) };
}

/** The tail to send after an HTTP body. */
export function encodeTail(history: Buffer): Buffer {
  const out = Buffer.allocUnsafe(history.length + ENDING_BYTES);
  out.set(history, 0);
  putU32(out, MAGIC, putU32(out, history.length, history.length));
  return out;
}

/**
 * Splits off the tail. Without one, `message` is the given buffer itself: what does not begin like a history is part of
 * the body, whatever its end looks like.
 */
export function cutTail(bytes: Buffer): CutMessage {
  const n = endingLength(bytes);
  const start = bytes.length - ENDING_BYTES - n;
  if (n < 0 || start < 0 || !canBeginTail(bytes, start, bytes.length - ENDING_BYTES)) {
    return { message: bytes, history: null };
  }
  return { message: bytes.subarray(0, start), history: bytes.subarray(start, bytes.length - ENDING_BYTES) };
}

/**
 * The value that counts of a header of ours, from the joined values of its lines. Lines of the same name are one list,
 * which servers and proxies may join with commas (RFC 9110 §5.3); its last member counts.
 */
export function lastValue(joined: string): string {
  return joined.slice(joined.lastIndexOf(',') + 1).replace(/^[ \t]+|[ \t]+$/g, '');
}

/** Looks up a header by its lower-case name; undefined if it is absent. Several values may be returned as a list. */
export type HeaderLookup = (name: string) => string | number | readonly string[] | undefined;

const NO_TAIL = ['content-range', 'digest', 'content-digest', 'repr-digest', 'content-md5', 'trailer', 'upgrade'];

/** Whether a reply with this HTTP status may have a tail. An announcement on any other counts for nothing. */
export function mayHaveTail(status: number): boolean {
  return status === 200 || status >= 400;
}

/** Whether an HTTP reply may carry a tail, provided that its handler completes. */
export function allowsTail(
  accept: number,
  method: string,
  request: HeaderLookup,
  status: number,
  reply: HeaderLookup,
): boolean {
  if ((accept & ACCEPT_TAIL) === 0 || !mayHaveTail(status) || method === 'HEAD' || isFramed(reply)) {
    return false;
  }
  const encoding = reply('content-encoding');
  if (encoding !== undefined) {
    const all = typeof encoding === 'object' ? encoding : [String(encoding)];
    if (all.some((one) => one.toLowerCase() !== 'identity')) {
      return false;
    }
  }
  for (const name of NO_TAIL) {
    if (reply(name) !== undefined) {
      return false;
    }
  }
  return request('range') === undefined && request('upgrade') === undefined;
}

const STREAMS = new Set([
  'text/event-stream',
  'application/x-ndjson',
  'application/ndjson',
  'application/jsonl',
  'application/json-seq',
  'application/stream+json',
  'multipart/x-mixed-replace',
]);

/**
 * Whether a body consists of frames that a parser reads to its end: gRPC, gRPC-Web, and the streams of Connect. Such a
 * body never has a tail.
 */
export function isFramed(message: HeaderLookup): boolean {
  return /^\s*application\/(grpc|connect\+)/i.test(String(message('content-type') ?? ''));
}

/**
 * Whether a reply streams items that its reader waits for one at a time. Such a reply gets no tail: the start of a tail
 * is certain only at the end of the body, so the reader's SDK might hold back bytes until then.
 */
export function isStreamed(reply: HeaderLookup): boolean {
  const type = reply('content-type');
  if (type !== undefined && STREAMS.has(String(type).split(';', 1)[0]!.trim().toLowerCase())) {
    return true;
  }
  const buffering = reply('x-accel-buffering');
  return buffering !== undefined && String(buffering).trim().toLowerCase() === 'no';
}

/** A copy of a body with its second half overwritten by 0xFF. */
export function corruptBody(body: Uint8Array): Buffer {
  const out = Buffer.from(body);
  out.fill(0xff, Math.floor(out.length / 2));
  return out;
}
