/** Signs the part of an envelope that the sender that starts a request writes. */

import type { CallId } from '../wire/callid';
import { encodeSignedPart, encodeSignedPrefix, Envelope, SignedPart } from '../wire/envelope';
import { FaultloomError } from '../wire/errors';
import { NO_COUNTERS } from '../wire/plan';
import type { Key } from './settings';

/**
 * Returns the bytes from version to signature. Throws as `encodeSignedPart` does, and `plan_not_permitted` for a plan
 * with a trace key.
 */
export function sign(key: Key, fields: Omit<SignedPart, 'key'>): Buffer {
  if (fields.plan !== null && !key.fault) {
    throw new FaultloomError('plan_not_permitted');
  }
  const part = encodeSignedPart({ ...fields, key: key.id });
  return encodeSignedPrefix(part, key.sign(part));
}

/** The envelope of a request that starts in this process, so that no caller receives its history. Throws as `sign`. */
export function startEnvelope(key: Key, fields: Omit<SignedPart, 'key'>, call: CallId): Envelope {
  const signedPrefix = sign(key, fields);
  return { ...fields, key: key.id, call, accept: 0, receiveLimit: 0, evidence: NO_COUNTERS, signedPrefix };
}
