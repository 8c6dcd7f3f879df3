/** Signs the part of an envelope that is written once, by the sender that starts a request. */

import { encodeSignedPart, encodeSignedPrefix, SignedPart } from '../wire/envelope';
import { FaultloomError } from '../wire/errors';
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
