/**
 * The carrier of the envelopes of a channel's unary calls, by method.
 *
 *   metadata ──a reply announces the field──▶ field ──a reply without it, or no reply──▶ metadata
 *                                              field ──a reply without a history──▶ metadata for good
 */

import { takesField } from '../../wire/history';

const MAX_METHODS = 1024;

/** The largest serialized message that carries an envelope, without the field. */
export const MAX_MESSAGE_BYTES = 65_536;

export class MethodCarriers {
  /** True: the field; false: metadata for good; no entry: metadata. */
  private readonly fieldByMethod = new Map<string, boolean>();

  /** Whether requests of this method carry their envelopes in the field. */
  usesField(method: string): boolean {
    return this.fieldByMethod.get(method) === true;
  }

  /** Updates the carrier of a method when a call has ended. `history`: the history of this call, or null. */
  callEnded(method: string, envelopeInField: boolean, isAnswered: boolean, history: Buffer | null): void {
    if (this.fieldByMethod.get(method) === false) {
      return;
    }
    if (!isAnswered) {
      if (envelopeInField) {
        this.fieldByMethod.delete(method);
      }
    } else if (history === null) {
      if (envelopeInField) {
        this.set(method, false);
      }
    } else if (takesField(history)) {
      this.set(method, true);
    } else {
      this.fieldByMethod.delete(method);
    }
  }

  private set(method: string, usesField: boolean): void {
    if (this.fieldByMethod.size < MAX_METHODS || this.fieldByMethod.has(method)) {
      this.fieldByMethod.set(method, usesField);
    }
  }
}
