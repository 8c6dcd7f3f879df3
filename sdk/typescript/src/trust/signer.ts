/** Making what is passed on: the part of an envelope that is written and signed once, by whoever starts a request. */

import { encodePassedOn, encodeSigned, Signed } from '../wire/envelope';
import { FaultloomError } from '../wire/errors';
import type { Key } from './settings';

/** Version byte to signature. Throws as `encodeSigned` does, and `plan_not_permitted` for a plan and a trace key. */
export function sign(key: Key, what: Omit<Signed, 'key'>): Buffer {
  if (what.plan !== null && !key.fault) {
    throw new FaultloomError('plan_not_permitted');
  }
  const part = encodeSigned({ ...what, key: key.id });
  return encodePassedOn(part, key.sign(part));
}
