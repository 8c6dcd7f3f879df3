/** Verifies received envelopes: the checks of the format, in order, and the replay check. */

import type { CallId } from '../wire/callid';
import {
  decodeVerified,
  decodeEnvelope,
  decodeHeader,
  Envelope,
  MAX_EXPIRY_S,
  MAX_HEADER_CHARS,
} from '../wire/envelope';
import type { ErrorCode } from '../wire/errors';
import type { TrustSettings } from './settings';
import { TrustSource } from './trust-source';

/** Maximum number of entries in the replay cache; the oldest are evicted first. */
export const REPLAY_CACHE_SIZE = 65_536;

/** The accepted envelope, the code of the failed check, or null without trust settings. */
export type AcceptResult = Envelope | ErrorCode | null;

export class Receiver {
  private readonly replayCache: ReplayCache;

  constructor(
    readonly source: TrustSource,
    replayCacheSize = REPLAY_CACHE_SIZE,
  ) {
    this.replayCache = new ReplayCache(replayCacheSize);
  }

  /** A receiver whose settings never change. */
  static fixed(settings: TrustSettings | null): Receiver {
    return new Receiver(TrustSource.fixed(settings));
  }

  /**
   * Verifies the envelope of a gRPC request. `now`: unix seconds; `attempt`: the value of `grpc-previous-rpc-attempts`,
   * or 0.
   */
  accept(raw: Buffer, now: number, attempt: number): AcceptResult {
    return this.acceptRaw(raw, now, attempt, undefined);
  }

  /** Verifies the envelope in the header of an HTTP request; see `accept`. */
  acceptHeader(text: string, now: number, attempt: number): AcceptResult {
    return this.acceptText(text, now, attempt, undefined);
  }

  /** Verifies an envelope that came in `baggage`. `call`: the parent id in `traceparent`; see `accept`. */
  acceptBridged(text: string, call: CallId, now: number, attempt: number): AcceptResult {
    return this.acceptText(text, now, attempt, call);
  }

  /** `bridged`: the call id that replaces the one in the hop part, for an envelope received over a bridge. */
  private acceptRaw(raw: Buffer, now: number, attempt: number, bridged: CallId | undefined): AcceptResult {
    const settings = this.source.settings();
    if (settings === null) {
      return null;
    }
    const unverified = decodeEnvelope(raw);
    if (typeof unverified === 'string') {
      return unverified;
    }
    if (isZero(raw, unverified.partEnd, unverified.hopAt)) {
      return 'unsigned';
    }
    const e = unverified.envelope;
    const key = settings.key(e.key);
    if (key === undefined) {
      return 'unknown_key';
    }
    if (!key.verifies(raw, unverified.partAt, unverified.partEnd)) {
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
    if (unverified.hasPlan && !key.fault) {
      return 'plan_not_permitted';
    }
    const envelope = decodeVerified(unverified);
    if (typeof envelope === 'string') {
      return envelope;
    }
    if (bridged !== undefined) {
      // the hop before us cannot return a history
      envelope.call = bridged;
      envelope.accept = 0;
      envelope.receiveLimit = 0;
    }
    if (envelope.plan !== null) {
      const request = `${envelope.trace.toString('latin1')}${envelope.call}${attempt}`;
      if (!this.replayCache.admit(request, envelope.expires, now)) {
        return 'replayed';
      }
    }
    return envelope;
  }

  private acceptText(text: string, now: number, attempt: number, bridged: CallId | undefined): AcceptResult {
    if (this.source.settings() === null) {
      return null;
    }
    if (text.length > MAX_HEADER_CHARS) {
      return 'oversized';
    }
    const raw = decodeHeader(text);
    return raw === undefined ? 'malformed' : this.acceptRaw(raw, now, attempt, bridged);
  }

  /** Whether faults may fire at this service now. They may not without valid trust settings. */
  faultsEnabled(): boolean {
    return this.source.settings()?.faultsEnabled ?? false;
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

/** The requests that were accepted, with their expiry times, oldest first. */
class ReplayCache {
  private readonly expiries = new Map<string, number>();

  constructor(private readonly max: number) {}

  /** Adds a request; false if it is present and has not expired. */
  admit(key: string, expires: number, now: number): boolean {
    const expiry = this.expiries.get(key);
    if (expiry !== undefined) {
      if (expiry > now) {
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
