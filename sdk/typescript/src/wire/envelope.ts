/**
 * The envelope that travels with a request.
 *
 *   u8 version = 1   varint length   signed part   16 B signature   hop part
 *
 * The sender that starts the request writes the signed part once, and every service forwards it unchanged. The hop
 * part is written for each call. This module does not check signatures; trust/receiver does.
 */

import { CachedText, putU32, putVarint, Reader, Uint64, utf8Length, varintLength, Writer } from './bytes';
import { CallId } from './callid';
import { ErrorCode, FaultloomError } from './errors';
import { counterCount, decodePlan, encodePlan, Fault, NO_COUNTERS } from './plan';

/** Metadata key and headers that carry envelopes and histories. */
export const GRPC_KEY = 'x-faultloom-bin';
export const HTTP_HEADER = 'x-faultloom';
export const HISTORY_HEADER = 'x-faultloom-history';
export const REPLY_HEADER = 'x-faultloom-reply';

/** Limits. */
export const MAX_ENVELOPE_BYTES = 2048;
export const MAX_HEADER_CHARS = 2731;
export const MAX_EXPIRY_S = 600;
export const SIGNATURE_BYTES = 16;
export const TRACE_BYTES = 16;
export const VERSION = 1;

/** Bits of `accept`: the carriers of a history that the caller supports besides headers and trailers. */
export const ACCEPT_FIELD = 1;
export const ACCEPT_TAIL = 2;

const HISTORY = 1;
const PLAN = 2;
const RUN = 4;
const BRIDGE = 8;

/** The fields that the signature covers. */
export interface SignedPart {
  /** Replies return a history. */
  history: boolean;
  /** The envelope also travels in `traceparent` and `baggage`. */
  bridge: boolean;
  /** 16 bytes. */
  trace: Buffer;
  /** 16 bytes, or null. */
  run: Buffer | null;
  /** Unix seconds. */
  expires: number;
  key: string;
  environment: string;
  plan: readonly Fault[] | null;
}

/** An envelope. */
export interface Envelope extends SignedPart {
  /** The id of the call that carries it. */
  call: CallId;
  /** Bits ACCEPT_FIELD and ACCEPT_TAIL. */
  accept: number;
  /** The largest message the caller can receive, in bytes. 0 means unknown; the reply then gets no field. */
  receiveLimit: Uint64;
  /** Counters, in the order of the format. */
  evidence: readonly Uint64[];
  /** The bytes from version to signature as received, which every further call repeats. */
  signedPrefix: Buffer;
}

/**
 * A parsed envelope whose signature has not been verified. Parts are given as offsets, because creating a buffer view
 * costs more than reading the part.
 */
export interface UnverifiedEnvelope {
  envelope: Envelope;
  raw: Buffer;
  /** Start and end of the signed part; the signature follows. */
  partAt: number;
  partEnd: number;
  hasPlan: boolean;
  /** Start of the plan, which ends with the signed part. */
  planAt: number;
  hopAt: number;
}

const NO_CALL = new CallId(0, 0);

const keyCache: CachedText = { text: '' };
const environmentCache: CachedText = { text: '' };

/** Parses all but the plan and the hop part (checks 1, 3 and 4 of the format). `decodeVerified` parses the rest. */
export function decodeEnvelope(raw: Buffer): UnverifiedEnvelope | ErrorCode {
  if (raw.length > MAX_ENVELOPE_BYTES) {
    return 'oversized';
  }
  if (raw.length === 0) {
    return 'malformed';
  }
  if (raw[0] !== VERSION) {
    return 'unsupported_version';
  }
  const r = new Reader(raw, 1);
  const size = r.count(MAX_ENVELOPE_BYTES);
  const partAt = r.at;
  const partEnd = partAt + size;
  r.skip(size);
  r.skip(SIGNATURE_BYTES);
  if (r.bad) {
    return 'malformed';
  }
  const hopAt = r.at;
  const s = new Reader(raw, partAt, partEnd);
  const permissions = s.u8();
  const trace = s.take(TRACE_BYTES);
  const run = (permissions & RUN) === 0 ? null : s.take(TRACE_BYTES);
  const expires = s.u32();
  const key = s.cachedStr(keyCache, 1, 32);
  const environment = s.cachedStr(environmentCache, 1, 64);
  const hasPlan = (permissions & PLAN) !== 0;
  if (s.bad || (permissions & ~(HISTORY | PLAN | RUN | BRIDGE)) !== 0 || (!hasPlan && s.left > 0)) {
    return 'malformed';
  }
  const envelope: Envelope = {
    history: (permissions & HISTORY) !== 0,
    bridge: (permissions & BRIDGE) !== 0,
    trace,
    run,
    expires,
    key,
    environment,
    plan: null,
    call: NO_CALL,
    accept: 0,
    receiveLimit: 0,
    evidence: NO_COUNTERS,
    signedPrefix: raw.subarray(0, hopAt),
  };
  return { envelope, raw, partAt, partEnd, hasPlan, planAt: s.at, hopAt };
}

/** Parses the plan and the hop part (checks 12 and 13). Call it only after the signature has been verified. */
export function decodeVerified(unverified: UnverifiedEnvelope): Envelope | ErrorCode {
  const e = unverified.envelope;
  if (unverified.hasPlan) {
    const plan = decodePlan(unverified.raw.subarray(unverified.planAt, unverified.partEnd));
    if (typeof plan === 'string') {
      return plan;
    }
    e.plan = plan;
  }
  const r = new Reader(unverified.raw, unverified.hopAt);
  const high = r.u32();
  e.call = new CallId(high, r.u32());
  e.accept = r.u8();
  e.receiveLimit = r.varint();
  if (e.plan !== null) {
    const evidence: Uint64[] = [];
    for (let n = counterCount(e.plan); n > 0; n--) {
      evidence.push(r.varint());
    }
    e.evidence = evidence;
  }
  return r.bad || r.left > 0 || (e.accept & ~(ACCEPT_FIELD | ACCEPT_TAIL)) !== 0 ? 'malformed' : e;
}

/** Encodes an envelope or a history as the value of an HTTP header. */
export function encodeHeader(bytes: Buffer): string {
  return bytes.toString('base64url');
}

/** Decodes the value of a header; undefined unless it is base64url without padding, stray characters or stray bits. */
export function decodeHeader(text: string): Buffer | undefined {
  const bytes = Buffer.from(text, 'base64url');
  return bytes.toString('base64url') === text ? bytes : undefined;
}

/** Encodes the signed part. Throws as encodePlan does, and `malformed` for ids and names that cannot be encoded. */
export function encodeSignedPart(s: SignedPart): Buffer {
  if (
    s.trace.length !== TRACE_BYTES ||
    (s.run !== null && s.run.length !== TRACE_BYTES) ||
    !fits(s.key, 32) ||
    !fits(s.environment, 64)
  ) {
    throw new FaultloomError('malformed');
  }
  const out = new Writer(256);
  out.u8(
    (s.history ? HISTORY : 0) | (s.plan === null ? 0 : PLAN) | (s.run === null ? 0 : RUN) | (s.bridge ? BRIDGE : 0),
  );
  out.put(s.trace);
  if (s.run !== null) {
    out.put(s.run);
  }
  out.u32(s.expires);
  out.str(s.key);
  out.str(s.environment);
  if (s.plan !== null) {
    out.put(encodePlan(s.plan));
  }
  if (out.length > MAX_ENVELOPE_BYTES) {
    throw new FaultloomError('envelope_too_large');
  }
  return out.view();
}

function fits(text: string, max: number): boolean {
  const n = utf8Length(text);
  return n >= 1 && n <= max;
}

/** Encodes the bytes from version to signature. */
export function encodeSignedPrefix(part: Buffer, signature: Buffer): Buffer {
  const out = new Writer(3 + part.length + SIGNATURE_BYTES);
  out.u8(VERSION);
  out.varint(part.length);
  out.put(part);
  out.put(signature.subarray(0, SIGNATURE_BYTES));
  return out.view();
}

/**
 * Assembles an envelope from the signed prefix and a new hop part. Returns undefined if it would be too large; the
 * request must then go out without one.
 */
export function assembleEnvelope(
  signedPrefix: Buffer,
  call: CallId,
  accept: number,
  receiveLimit: Uint64,
  evidence: readonly Uint64[],
): Buffer | undefined {
  let size = signedPrefix.length + 9 + varintLength(receiveLimit);
  for (let i = 0; i < evidence.length; i++) {
    size += varintLength(evidence[i]!);
  }
  if (size > MAX_ENVELOPE_BYTES) {
    return undefined;
  }
  const out = Buffer.allocUnsafe(size);
  out.set(signedPrefix, 0);
  let at = putU32(out, call.high, signedPrefix.length);
  at = putU32(out, call.low, at);
  out[at++] = accept;
  at = putVarint(out, receiveLimit, at);
  for (let i = 0; i < evidence.length; i++) {
    at = putVarint(out, evidence[i]!, at);
  }
  return out;
}
