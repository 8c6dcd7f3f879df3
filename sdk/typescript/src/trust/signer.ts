/** Signs the part of an envelope that the sender that starts a request writes. */

import type { CallId } from '../wire/callid';
import { encodeSignedPart, encodeSignedPrefix, Envelope, SignedPart } from '../wire/envelope';
import { FaultloomError } from '../wire/errors';
import { NO_COUNTERS } from '../wire/plan';
import type { Key } from './settings';

/** What the signer adds is left out. */
type Fields = Omit<SignedPart, 'key' | 'environment'>;

/** Signs envelopes for one environment with one key. */
export class Signer {
  constructor(
    private readonly key: Key,
    private readonly environment: string,
  ) {}

  /**
   * Returns the bytes from version to signature. Throws as `encodeSignedPart` does, and `plan_not_permitted` for a plan
   * with a trace key.
   */
  sign(fields: Fields): Buffer {
    if (fields.plan !== null && !this.key.fault) {
      throw new FaultloomError('plan_not_permitted');
    }
    const part = encodeSignedPart({ ...fields, key: this.key.id, environment: this.environment });
    return encodeSignedPrefix(part, this.key.sign(part));
  }

  /** The envelope of a request that starts in this process: no caller receives its history. Throws as `sign`. */
  startEnvelope(fields: Fields, call: CallId): Envelope {
    const signer = { key: this.key.id, environment: this.environment };
    const hop = { call, accept: 0, receiveLimit: 0, evidence: NO_COUNTERS };
    return { ...fields, ...signer, ...hop, signedPrefix: this.sign(fields) };
  }
}
