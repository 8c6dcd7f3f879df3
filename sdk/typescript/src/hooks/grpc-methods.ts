/**
 * Where the envelopes of a channel's unary calls go, by method.
 *
 *   metadata ──a reply says so──▶ field ──a reply says so no more, no answer──▶ metadata
 *                                 field ──an answer without a history──▶ never
 */

import { takesField } from '../wire/history';

const MAX_METHODS = 1024;

/** The largest serialized message, without the field, that takes an envelope along. */
export const MAX_MESSAGE_BYTES = 65_536;

export class Methods {
  /** True: field, false: never, else: metadata. */
  private readonly known = new Map<string, boolean>();

  /** Do the requests of this method have their envelopes in a field? */
  inField(method: string): boolean {
    return this.known.get(method) === true;
  }

  /** Learns from a call's end. `sentField`: its envelope left in a field; `history`: the one that answers it, or null. */
  ended(method: string, sentField: boolean, answered: boolean, history: Buffer | null): void {
    if (this.known.get(method) === false) {
      return;
    }
    if (!answered) {
      if (sentField) {
        this.known.delete(method);
      }
    } else if (history === null) {
      if (sentField) {
        this.set(method, false);
      }
    } else if (takesField(history)) {
      this.set(method, true);
    } else {
      this.known.delete(method);
    }
  }

  private set(method: string, field: boolean): void {
    if (this.known.size < MAX_METHODS || this.known.has(method)) {
      this.known.set(method, field);
    }
  }
}
