/** Whether to believe an envelope: the checks of the format in their order, and the memory against replays. */

import type { CallId } from '../wire/callid';
import { complete, Envelope, fromHeader, MAX_EXPIRY_S, MAX_HEADER_CHARS, open } from '../wire/envelope';
import type { ErrorCode } from '../wire/errors';
import type { Settings } from './settings';
import { Source } from './source';

/** The memory against replays holds this many; the oldest leave first. */
export const MAX_SEEN = 65_536;

/** An envelope, why it was refused, or null: deaf. */
export type Acceptance = Envelope | ErrorCode | null;

export class Receiver {
  private readonly seen: Seen;

  constructor(
    readonly source: Source,
    maxSeen = MAX_SEEN,
  ) {
    this.seen = new Seen(maxSeen);
  }

  /** With settings that stay. */
  static fixed(settings: Settings | null): Receiver {
    return new Receiver(Source.fixed(settings));
  }

  /**
   * Judges the envelope of a gRPC request. `now`: unix seconds; `attempt`: the number in `grpc-previous-rpc-attempts`, or 0;
   * `bridged`: the call id that takes the place of the hop part's.
   */
  accept(raw: Buffer, now: number, attempt: number, bridged?: CallId): Acceptance {
    const settings = this.source.settings();
    if (settings === null) {
      return null;
    }
    const o = open(raw);
    if (typeof o === 'string') {
      return o;
    }
    if (isZero(raw, o.partEnd, o.hopAt)) {
      return 'unsigned';
    }
    const e = o.envelope;
    const key = settings.key(e.key);
    if (key === undefined) {
      return 'unknown_key';
    }
    if (!key.verifies(raw, o.partAt, o.partEnd)) {
      return 'bad_signature';
    }
    if (e.environment !== settings.environment) {
      return 'wrong_environment';
    }
    if (e.expires <= now) {
      return 'expired';
    }
    if (e.expires > now + MAX_EXPIRY_S) {
      return 'expiry_too_far';
    }
    if (o.hasPlan && !key.fault) {
      return 'plan_not_permitted';
    }
    const envelope = complete(o);
    if (typeof envelope === 'string') {
      return envelope;
    }
    if (bridged !== undefined) {
      // nobody up there would take a history away
      envelope.call = bridged;
      envelope.accept = 0;
      envelope.receiveLimit = 0;
    }
    if (envelope.plan !== null) {
      const key = `${envelope.trace.toString('latin1')}${envelope.call}${attempt}`;
      if (!this.seen.admit(key, envelope.expires, now)) {
        return 'replayed';
      }
    }
    return envelope;
  }

  /** Judges the envelope of an HTTP request, or of `baggage`; see `accept`. */
  acceptHeader(text: string, now: number, attempt: number, bridged?: CallId): Acceptance {
    if (this.source.settings() === null) {
      return null;
    }
    if (text.length > MAX_HEADER_CHARS) {
      return 'oversized';
    }
    const raw = fromHeader(text);
    return raw === undefined ? 'malformed' : this.accept(raw, now, attempt, bridged);
  }

  /** May faults fire at this service now? A file that became invalid stops them too. */
  faultsOn(): boolean {
    return this.source.settings()?.faultsOn ?? false;
  }
}

function isZero(bytes: Buffer, from: number, end: number): boolean {
  for (let i = from; i < end; i++) {
    if (bytes[i] !== 0) {
      return false;
    }
  }
  return true;
}

/** What was seen and until when it counts, oldest first. */
class Seen {
  private readonly expiries = new Map<string, number>();

  constructor(private readonly max: number) {}

  admit(key: string, expires: number, now: number): boolean {
    const known = this.expiries.get(key);
    if (known !== undefined) {
      if (known > now) {
        return false;
      }
      this.expiries.delete(key);
    }
    for (const [oldest, until] of this.expiries) {
      if (this.expiries.size < this.max && until > now) {
        break;
      }
      this.expiries.delete(oldest);
    }
    this.expiries.set(key, expires);
    return true;
  }
}
