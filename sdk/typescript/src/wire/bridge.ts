/**
 * Envelopes across hops that know OpenTelemetry only: the W3C headers `traceparent` and `baggage`.
 *
 * Such a hop passes both on without knowing us. It puts an id of its own into `traceparent`, which therefore stands for the
 * call of whoever opens a scope behind it.
 */

import { CallId } from './callid';
import { toHeader } from './envelope';

export const TRACEPARENT = 'traceparent';
export const BAGGAGE = 'baggage';

const MAX_BAGGAGE_BYTES = 8192;
const KEY = 'faultloom';

/** A valid `traceparent`. */
export interface TraceParent {
  /** 16 bytes. */
  trace: Buffer;
  parent: CallId;
}

const SHAPE = /^([0-9a-f]{2})-([0-9a-f]{32})-([0-9a-f]{16})-[0-9a-f]{2}(-.*)?$/s;
const ZERO_TRACE = '0'.repeat(32);
const ZERO_PARENT = '0'.repeat(16);

/** Null unless it is valid. */
export function parseTraceparent(text: string): TraceParent | null {
  const parts = SHAPE.exec(text);
  if (parts === null) {
    return null;
  }
  const [, version, trace, parent, more] = parts;
  if (version === 'ff' || (version === '00' && more !== undefined) || trace === ZERO_TRACE || parent === ZERO_PARENT) {
    return null;
  }
  return { trace: Buffer.from(trace!, 'hex'), parent: CallId.parse(parent!) };
}

/** `traceparent` as it leaves: what the request has, else one of our own. */
export function traceparentOut(present: string | undefined, trace: Buffer, call: CallId): string {
  return present === undefined || present === '' ? `00-${trace.toString('hex')}-${call}-01` : present;
}

/** Blanks are those of HTTP; String.trim would take more. */
function trim(text: string): string {
  return text.replace(/^[ \t]+|[ \t]+$/g, '');
}

/** Undefined: a member without `=` has no key. */
function keyAndValue(member: string): [string, string] | undefined {
  const semicolon = member.indexOf(';');
  const plain = semicolon < 0 ? member : member.slice(0, semicolon);
  const equals = plain.indexOf('=');
  return equals < 0 ? undefined : [trim(plain.slice(0, equals)), trim(plain.slice(equals + 1))];
}

/** `baggage` as it leaves; undefined if it would be empty. */
export function baggageOut(present: string | undefined, envelope: Buffer): string | undefined {
  const members = (present ?? '').split(',').map(trim);
  const others = members.filter((member) => member !== '' && keyAndValue(member)?.[0] !== KEY).join(',');
  const own = `${KEY}=${toHeader(envelope)}`;
  if (others === '') {
    return own;
  }
  return Buffer.byteLength(others) + 1 + own.length <= MAX_BAGGAGE_BYTES ? `${others},${own}` : others;
}

/** An envelope that came in `baggage`. */
export interface Bridged {
  /** Its text, base64url; not checked yet. */
  envelope: string;
  traceparent: TraceParent;
}

/** Looks for an envelope in a request that has none in the usual carrier. */
export function bridgeIn(traceparent: string | undefined, baggage: string | undefined): Bridged | null {
  if (baggage === undefined || traceparent === undefined || !baggage.includes(KEY)) {
    return null;
  }
  for (const member of baggage.split(',')) {
    const pair = keyAndValue(member);
    if (pair?.[0] === KEY) {
      const parent = parseTraceparent(traceparent);
      return parent === null ? null : { envelope: pair[1], traceparent: parent };
    }
  }
  return null;
}
