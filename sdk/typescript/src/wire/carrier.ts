/**
 * How a history rides on a reply: appended protobuf field (gRPC), HTTP header, tail behind an HTTP body. An envelope may ride
 * on a gRPC request in the same field, in the history's place.
 *
 *   field   tag (5 bytes)  varint length  history  u32 BE: length of the whole field, tag included  "flm" 0x01
 *   tail    history  u32 BE: length of the history  "flm" 0x01
 */

import { putU32, putVarint, Reader, varintLength } from './bytes';
import { ACCEPT_TAIL } from './envelope';

/** Limits of a history in bytes, before base64. */
export const MAX_HEADER_BYTES = 768;
export const MAX_TRAILER_BYTES = 3072;

/** Field 333000333, length-delimited, as a varint. */
const TAG = Buffer.from([0xea, 0xe8, 0xa5, 0xf6, 0x09]);
/** "flm" 0x01 */
const MAGIC = 0x666c6d01;
/** u32 length and magic. */
export const ENDING_BYTES = 8;

/** How many bytes `appendField` adds for a history of that many bytes. */
export function fieldLength(history: number): number {
  return TAG.length + varintLength(history + ENDING_BYTES) + history + ENDING_BYTES;
}

/** A serialized protobuf message with the history appended to it. */
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

/** What was carried, and the rest; both are views. */
export interface Carried {
  message: Buffer;
  history: Buffer | null;
}

/** The number before the magic, or -1. */
function ending(b: Buffer): number {
  return b.length >= ENDING_BYTES && b.readUInt32BE(b.length - 4) === MAGIC ? b.readUInt32BE(b.length - ENDING_BYTES) : -1;
}

/** Leaving JavaScript to compare five bytes takes longer. */
function tagged(bytes: Buffer, at: number): boolean {
  for (let i = 0; i < TAG.length; i++) {
    if (bytes[at + i] !== TAG[i]) {
      return false;
    }
  }
  return true;
}

/** False: there is certainly no field, and `cutField` would say so. */
export function mayHaveField(bytes: Buffer): boolean {
  return ending(bytes) >= 0;
}

/** Splits the field off; the message is the very buffer that was given if there is none. */
export function cutField(bytes: Buffer): Carried {
  const n = ending(bytes);
  const start = bytes.length - n;
  if (n < TAG.length + 1 + ENDING_BYTES || start < 0 || !tagged(bytes, start)) {
    return { message: bytes, history: null };
  }
  const r = new Reader(bytes, start + TAG.length);
  const size = r.varint();
  if (r.bad || size !== r.left || size < ENDING_BYTES) {
    return { message: bytes, history: null };
  }
  return { message: bytes.subarray(0, start), history: bytes.subarray(r.at, bytes.length - ENDING_BYTES) };
}

/** The tail to send behind an HTTP body. */
export function encodeTail(history: Buffer): Buffer {
  const out = Buffer.allocUnsafe(history.length + ENDING_BYTES);
  out.set(history, 0);
  putU32(out, MAGIC, putU32(out, history.length, history.length));
  return out;
}

/** Splits the tail off; the message is the very buffer that was given if there is none. */
export function cutTail(bytes: Buffer): Carried {
  const n = ending(bytes);
  const start = bytes.length - ENDING_BYTES - n;
  if (n < 0 || start < 0) {
    return { message: bytes, history: null };
  }
  return { message: bytes.subarray(0, start), history: bytes.subarray(start, bytes.length - ENDING_BYTES) };
}

/** A header's value by its lower-case name; undefined if it is not there. Several values may come as a list. */
export type Headers = (name: string) => string | number | readonly string[] | undefined;

const NO_TAIL = ['content-range', 'digest', 'content-digest', 'repr-digest', 'content-md5', 'trailer', 'upgrade'];

/** May an HTTP reply carry a tail, provided that its handler completes? */
export function mayTail(accept: number, method: string, request: Headers, status: number, reply: Headers): boolean {
  if ((accept & ACCEPT_TAIL) === 0 || !(status === 200 || status >= 400) || method === 'HEAD') {
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
 * Is a reply that leaves in pieces a stream of things its reader waits for one by one? Such a reply gets no tail: where the
 * tail begins is certain only at the end, and a reader may hold bytes back until then.
 */
export function streamed(reply: Headers): boolean {
  const type = reply('content-type');
  if (type !== undefined && STREAMS.has(String(type).split(';', 1)[0]!.trim().toLowerCase())) {
    return true;
  }
  const buffering = reply('x-accel-buffering');
  return buffering !== undefined && String(buffering).trim().toLowerCase() === 'no';
}

/** A body with its second half overwritten by 0xFF; the one that was given stays as it is. */
export function corrupt(body: Uint8Array): Buffer {
  const out = Buffer.from(body);
  out.fill(0xff, Math.floor(out.length / 2));
  return out;
}
