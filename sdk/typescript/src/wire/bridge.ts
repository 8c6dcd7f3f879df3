/**
 * The bridge carries envelopes across hops that run only OpenTelemetry, in the W3C headers `traceparent` and `baggage`.
 *
 * Such a hop forwards `baggage` unchanged and puts its own span id into `traceparent`. The next scope uses that span id
 * as the id of its call.
 */

import { CallId } from './callid';
import { encodeHeader } from './envelope';

export const TRACEPARENT = 'traceparent';
export const BAGGAGE = 'baggage';

const MAX_BAGGAGE_BYTES = 8192;
const KEY = 'faultloom';

/** A valid `traceparent`. */
export interface Traceparent {
  /** 16 bytes. */
  trace: Buffer;
  parent: CallId;
}

const SHAPE = /^([0-9a-f]{2})-([0-9a-f]{32})-([0-9a-f]{16})-[0-9a-f]{2}(-.*)?$/s;
const ZERO_TRACE = '0'.repeat(32);
const ZERO_PARENT = '0'.repeat(16);

/** Parses a `traceparent`; null if it is invalid. */
export function parseTraceparent(text: string): Traceparent | null {
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

/** The value of a `traceparent` with version 00 and the sampled flag. */
export function formatTraceparent(trace: Buffer, call: CallId): string {
  return `00-${trace.toString('hex')}-${call}-01`;
}

/** Trims HTTP whitespace only; String.trim removes more. */
function trim(text: string): string {
  return text.replace(/^[ \t]+|[ \t]+$/g, '');
}

/** The key and value of a baggage member; undefined if it has no `=`. */
function keyAndValue(member: string): [string, string] | undefined {
  const semicolon = member.indexOf(';');
  const plain = semicolon < 0 ? member : member.slice(0, semicolon);
  const equals = plain.indexOf('=');
  return equals < 0 ? undefined : [trim(plain.slice(0, equals)), trim(plain.slice(equals + 1))];
}

/**
 * Both headers of a request that carries an envelope. `traceparent` and `baggage`: the values that the request has;
 * they are kept. The envelope is left out of `baggage` if it would exceed the limit.
 */
export function injectBridge(
  traceparent: string | undefined,
  baggage: string | undefined,
  envelope: Buffer,
  trace: Buffer,
  call: CallId,
): { traceparent: string; baggage: string } {
  return { traceparent: traceparent || formatTraceparent(trace, call), baggage: addToBaggage(baggage, envelope) };
}

function addToBaggage(present: string | undefined, envelope: Buffer): string {
  const members = (present ?? '').split(',').map(trim);
  const others = members.filter((member) => member !== '' && keyAndValue(member)?.[0] !== KEY).join(',');
  const own = `${KEY}=${encodeHeader(envelope)}`;
  if (others === '') {
    return own;
  }
  return Buffer.byteLength(others) + 1 + own.length <= MAX_BAGGAGE_BYTES ? `${others},${own}` : others;
}

/** An envelope received in `baggage`. */
export interface BridgedEnvelope {
  /** base64url, not verified yet. */
  envelope: string;
  /** The id of the call that it belongs to: the parent id in `traceparent`. */
  call: CallId;
}

/** Finds the envelope of a request that has none in its own carrier. */
export function extractBridge(traceparent: string | undefined, baggage: string | undefined): BridgedEnvelope | null {
  if (baggage === undefined || traceparent === undefined || !baggage.includes(KEY)) {
    return null;
  }
  for (const member of baggage.split(',')) {
    const pair = keyAndValue(member);
    if (pair?.[0] === KEY) {
      const parent = parseTraceparent(traceparent);
      return parent === null ? null : { envelope: pair[1], call: parent.parent };
    }
  }
  return null;
}
