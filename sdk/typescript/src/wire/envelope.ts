/**
 * What travels with a request.
 *
 *   u8 version = 1   varint length   signed part   16 B signature   hop part
 *
 * The signed part is written once, by whoever starts the request, and passed on unchanged; the hop part is written anew
 * for every call. Nothing here checks a signature: that is trust/receiver.
 */

import { Memo, putU32, putVarint, Reader, utf8Length, varintLength, Whole, Writer } from './bytes';
import { CallId } from './callid';
import { ErrorCode, FaultloomError } from './errors';
import { counters, decodePlan, encodePlan, Fault, NO_COUNTERS } from './plan';

/** Where an envelope and a history travel. */
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

/** Bits of `accept`: how the reply may bring the history back. */
export const ACCEPT_FIELD = 1;
export const ACCEPT_TAIL = 2;

const HISTORY = 1;
const PLAN = 2;
const RUN = 4;
const BRIDGE = 8;

/** The part that is signed. */
export interface Signed {
  /** Replies bring a history back. */
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

/** An accepted envelope. */
export interface Envelope extends Signed {
  /** The call it came with. */
  call: CallId;
  /** ACCEPT_FIELD, ACCEPT_TAIL: what the caller can take a history from. */
  accept: number;
  /** Bytes the caller can receive in one message; 0: unknown, then no reply field. */
  receiveLimit: Whole;
  /** Counters in the order of the format. */
  evidence: readonly Whole[];
  /** Version byte to signature, as received: what every further call repeats. */
  passedOn: Buffer;
}

/**
 * What an envelope's outer layers are made of; nothing of it has been believed yet. Places, not views: making one takes longer
 * than reading what it shows.
 */
export interface Opened {
  envelope: Envelope;
  raw: Buffer;
  /** Where the part that the signature covers begins and ends; the signature is next. */
  partAt: number;
  partEnd: number;
  hasPlan: boolean;
  /** Where the plan begins; it ends with the part. */
  planAt: number;
  hopAt: number;
}

const NOBODY = new CallId(0, 0);

const lastKey: Memo = { text: '' };
const lastEnvironment: Memo = { text: '' };

/** Parses the outer layers: checks 1, 3 and 4 of the format. Plan and hop part are left for `complete`. */
export function open(raw: Buffer): Opened | ErrorCode {
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
  const key = s.sameStr(lastKey, 1, 32);
  const environment = s.sameStr(lastEnvironment, 1, 64);
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
    call: NOBODY,
    accept: 0,
    receiveLimit: 0,
    evidence: NO_COUNTERS,
    passedOn: raw.subarray(0, hopAt),
  };
  return { envelope, raw, partAt, partEnd, hasPlan, planAt: s.at, hopAt };
}

/** Parses plan and hop part: checks 12 and 13. Only after the signature was found right. */
export function complete(o: Opened): Envelope | ErrorCode {
  const e = o.envelope;
  if (o.hasPlan) {
    const plan = decodePlan(o.raw.subarray(o.planAt, o.partEnd));
    if (typeof plan === 'string') {
      return plan;
    }
    e.plan = plan;
  }
  const r = new Reader(o.raw, o.hopAt);
  const high = r.u32();
  e.call = new CallId(high, r.u32());
  e.accept = r.u8();
  e.receiveLimit = r.varint();
  if (e.plan !== null) {
    const evidence: Whole[] = [];
    for (let n = counters(e.plan); n > 0; n--) {
      evidence.push(r.varint());
    }
    e.evidence = evidence;
  }
  return r.bad || r.left > 0 || (e.accept & ~(ACCEPT_FIELD | ACCEPT_TAIL)) !== 0 ? 'malformed' : e;
}

/** The text of an HTTP header for envelopes and histories. */
export function toHeader(bytes: Buffer): string {
  return bytes.toString('base64url');
}

/** The bytes of a header's text, or undefined unless it is base64url without padding, stray characters or stray bits. */
export function fromHeader(text: string): Buffer | undefined {
  const bytes = Buffer.from(text, 'base64url');
  return bytes.toString('base64url') === text ? bytes : undefined;
}

/** The signed part, ready to be signed. Throws as encodePlan does, and `malformed` for ids and names that cannot be written. */
export function encodeSigned(s: Signed): Buffer {
  if (
    s.trace.length !== TRACE_BYTES ||
    (s.run !== null && s.run.length !== TRACE_BYTES) ||
    !within(s.key, 32) ||
    !within(s.environment, 64)
  ) {
    throw new FaultloomError('malformed');
  }
  const out = new Writer(256);
  out.u8((s.history ? HISTORY : 0) | (s.plan === null ? 0 : PLAN) | (s.run === null ? 0 : RUN) | (s.bridge ? BRIDGE : 0));
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

function within(text: string, max: number): boolean {
  const n = utf8Length(text);
  return n >= 1 && n <= max;
}

/** Version byte to signature. */
export function encodePassedOn(part: Buffer, signature: Buffer): Buffer {
  const out = new Writer(3 + part.length + SIGNATURE_BYTES);
  out.u8(VERSION);
  out.varint(part.length);
  out.put(part);
  out.put(signature.subarray(0, SIGNATURE_BYTES));
  return out.view();
}

/**
 * An envelope: what is passed on, then the hop part with the counters as they are now. Undefined if it would be too large;
 * then nothing may be sent.
 */
export function encodeEnvelope(
  passedOn: Buffer,
  call: CallId,
  accept: number,
  receiveLimit: Whole,
  evidence: readonly Whole[],
): Buffer | undefined {
  let size = passedOn.length + 9 + varintLength(receiveLimit);
  for (let i = 0; i < evidence.length; i++) {
    size += varintLength(evidence[i]!);
  }
  if (size > MAX_ENVELOPE_BYTES) {
    return undefined;
  }
  const out = Buffer.allocUnsafe(size);
  out.set(passedOn, 0);
  let at = putU32(out, call.high, passedOn.length);
  at = putU32(out, call.low, at);
  out[at++] = accept;
  at = putVarint(out, receiveLimit, at);
  for (let i = 0; i < evidence.length; i++) {
    at = putVarint(out, evidence[i]!, at);
  }
  return out;
}
