/**
 * A reply whose headers have arrived: the carrier of its history, and what a fault does to it. Shared by http and
 * undici.
 */

import type { OutgoingCall, Scope } from '../../scope/scope';
import { CallEffect, replyEffect } from '../faults';
import { recordEffect } from '../record';
import { Alteration, alterationOf, Body, BodyReader } from './body';
import { ReplyCarrier, ReplyHeaders, takeReplyCarrier } from './reply-headers';

export class ArrivedReply {
  private readonly carrier: ReplyCarrier;
  private readonly effect: CallEffect;
  private readonly alteration: Alteration;

  /** Removes our headers from `headers`. */
  constructor(
    private readonly scope: Scope,
    private readonly call: OutgoingCall,
    private readonly status: number,
    headers: ReplyHeaders,
  ) {
    this.carrier = takeReplyCarrier(headers, status);
    this.effect = this.effectWith(this.carrier.history);
    this.alteration = alterationOf(this.effect);
  }

  private effectWith(history: Buffer | null): CallEffect {
    return replyEffect('http', this.call.fault, { status: this.status, history: history !== null });
  }

  /** Whether the body reaches the application as it arrives. The reply is then complete for the scope: `record` it. */
  get isUnchanged(): boolean {
    return !this.carrier.tail && this.alteration === 'none';
  }

  /** Whether the history comes in a trailer. The body is then complete when its last bytes arrive. */
  get awaitsTrailer(): boolean {
    return this.carrier.trailer;
  }

  /** Whether the body must be decoded to find the tail. */
  get isEncoded(): boolean {
    return this.carrier.tail && this.carrier.coding !== '' && this.carrier.coding !== 'identity';
  }

  /** Whether a fault alters the body, so that it must be read completely. */
  get isAltered(): boolean {
    return this.alteration !== 'none';
  }

  /** Whether the application gets a broken connection instead of the reply. */
  get isLost(): boolean {
    return this.effect.outcome === 'reset';
  }

  /** Whether the application gets a body that is not in the content coding of the headers. */
  get removesEncoding(): boolean {
    return (this.carrier.tail && this.isAltered) || this.effect.outcome === 'empty';
  }

  /** Records the end of the call. `tailHistory`: the history from the tail, or null. */
  record(tailHistory: Buffer | null): void {
    const history = tailHistory ?? this.carrier.history;
    recordEffect(this.scope, this.call, this.effectWith(history), history);
  }

  /** The body of a reply that changes on its way to `reader`. It records the end of the call before `reader.end`. */
  openBody(reader: BodyReader): Body {
    this.scope.replyStarted(this.call, this.status);
    const { tail, coding } = this.carrier;
    return new Body(this.call.id, tail, coding, this.alteration, {
      data: (chunk) => reader.data(chunk),
      end: (error) => {
        if (!tail) {
          this.record(null);
        }
        reader.end(error);
      },
      get isHolding(): boolean {
        return reader.isHolding;
      },
      drop: () => reader.drop(),
      history: (history) => this.record(history),
    });
  }
}
