/** A request of undici, and thus of fetch, in a scope. */

import { STATUS_CODES } from 'node:http';
import { withScope } from '../../scope/context';
import { waitForFault } from '../../scope/fault-wait';
import type { OutgoingCall, Scope } from '../../scope/scope';
import { FaultEffect, replyEffect, sendsAfterWait, unsentEffect } from '../faults';
import { ArrivedReply } from '../http/arrived-reply';
import { Body, MAX_ALTERED_BYTES, MAX_EAGER_BYTES, timeToRead, waitForEagerBody } from '../http/body';
import { Address, failureCode, systemError } from '../http/errors';
import { recordEffect } from '../record';
import { requestStarts, StartingRequest, timeUntilFailure, timeUntilNow } from './connections';
import { HandlerAdapter, Headers, RequestEvents } from './handler';

export class UndiciCall implements RequestEvents, StartingRequest {
  private body: Body | null = null;
  /** Delivers the headers of a reply that is read eagerly; null if they have been delivered. */
  private announce: ((isComplete: boolean) => void) | null = null;
  private cancelEager: () => void = () => undefined;
  /** Whether the first bytes of the body are delivered with the headers. */
  private releasesEarly = false;
  /** When the first bytes arrived that the caller has not got yet. */
  private undeliveredSinceMs = 0;
  private readonly chunks: Buffer[] = [];
  private bytes = 0;
  /** Number of chunks that were delivered as they arrived. */
  private delivered = 0;
  private trailers: unknown;
  private isSent = false;
  /** By `performance.now()`. */
  sentMs = 0;
  /** Whether undici has a connection for the request. */
  private isConnected = false;
  /** Whether undici reports nothing more. Further events come from this class alone. */
  private isComplete = false;
  /** Whether the caller got the end of the reply or an error, so that it gets nothing more. */
  private isConcluded = false;
  /** Whether the caller gave up. It then gets nothing but an error. */
  private isAborted = false;
  private abortReason: Error | undefined;
  private cancelWait: () => void = () => undefined;

  constructor(
    private readonly scope: Scope,
    private readonly call: OutgoingCall,
    private readonly effect: FaultEffect,
    private readonly out: HandlerAdapter,
    private readonly address: Address,
    private readonly timeoutError: () => Error,
  ) {}

  /** Sends the request by `dispatch`, or simulates its fault. */
  run(dispatch: () => boolean): boolean {
    const { waitMs, sends } = this.effect;
    if (sends && waitMs === 0) {
      return this.send(dispatch);
    }
    const waitEnded = (elapsed: boolean): void => {
      if (this.isConcluded) {
        return; // aborted
      }
      if (sendsAfterWait(this.call.fault, this.effect, elapsed)) {
        withScope(this.scope, () => void this.send(dispatch));
      } else {
        this.simulate();
      }
    };
    if (waitMs > 0) {
      this.cancelWait = waitForFault(this.scope.service.receiver, waitMs, waitEnded);
    } else {
      const immediate = setImmediate(waitEnded, true);
      this.cancelWait = () => clearImmediate(immediate);
    }
    withScope(this.scope, () => this.out.start(this.abort));
    return true;
  }

  private send(dispatch: () => boolean): boolean {
    this.isSent = true;
    this.sentMs = performance.now();
    return dispatch();
  }

  /** Ends a call that is not sent, with the outcome of its fault. */
  private simulate(): void {
    const { outcome, status } = this.effect;
    this.isComplete = true;
    recordEffect(this.scope, this.call, unsentEffect(this.effect), null);
    if (outcome === 'status') {
      const headers = this.out.emptyHeaders();
      headers.set('content-length', '0');
      this.report(() => void this.out.headers(status, headers, STATUS_CODES[status] ?? ''));
      this.conclude();
      return;
    }
    this.conclude(
      outcome === 'refused'
        ? systemError('connect', 'ECONNREFUSED', this.address)
        : outcome === 'reset'
          ? systemError('read', 'ECONNRESET')
          : this.timeoutError(),
    );
  }

  private abortSent: (reason?: Error) => void = () => undefined;

  private readonly abort = (reason?: Error): void => {
    if (this.isConcluded) {
      return;
    }
    const error =
      reason ?? Object.assign(new Error('Request aborted'), { name: 'AbortError', code: 'UND_ERR_ABORTED' });
    this.isAborted = true;
    this.abortReason = reason;
    // a caller that gives up does not get what was read eagerly
    this.announce = null;
    this.chunks.length = 0;
    this.cancelEager();
    if (this.isComplete) {
      this.conclude(error);
    } else if (this.isSent) {
      this.abortSent(reason);
    } else {
      this.cancelWait();
      this.scope.recordFailure(this.call, failureCode(error), null, false);
      this.conclude(error);
    }
  };

  /**
   * The caller got an error from fetch. If the request still waits for its connection, undici reports its end much
   * later, when it has one.
   */
  callerGaveUp(error: unknown): void {
    if (this.isSent && !this.isConnected && !this.isComplete) {
      this.scope.setConnectTime(this.call, timeUntilNow(this.address, this.sentMs));
      this.scope.recordFailure(this.call, failureCode(error), null, false);
    }
  }

  /** Reports an event of our own. As in undici, an exception of the caller's handler ends the request. */
  private report(event: () => void): void {
    if (this.isConcluded) {
      return;
    }
    try {
      withScope(this.scope, event);
    } catch (error) {
      this.abort(error instanceof Error ? error : new Error(String(error)));
    }
  }

  // the events of a request that was sent

  start(abort: (reason?: Error) => void): void {
    this.isConnected = true;
    this.abortSent = abort;
    if (this.isAborted) {
      abort(this.abortReason); // while it waited for its connection
      return;
    }
    withScope(this.scope, () => this.out.start(this.abort));
    requestStarts(this);
  }

  mark(): string {
    return this.call.envelope?.toString('base64url') ?? '\0';
  }

  connected(us: number): void {
    this.scope.setConnectTime(this.call, us);
  }

  upgrade(status: number): void {
    this.scope.recordReply(this.call, status, null, true);
  }

  headers(status: number, headers: Headers, text: string): boolean {
    const { scope, call } = this;
    const arrived = new ArrivedReply(scope, call, status, headers);
    const deliverHeaders = (): boolean => withScope(scope, () => this.out.headers(status, headers, text));
    if (arrived.isUnchanged) {
      arrived.record(null);
      return deliverHeaders();
    }
    if (arrived.removesEncoding) {
      headers.remove('content-encoding');
    }
    const length = Number(headers.get('content-length') ?? Infinity);
    this.undeliveredSinceMs = performance.now();
    this.announce = (isComplete) => {
      if (!isComplete) {
        headers.remove('content-length'); // it includes the tail
      } else if (headers.get('content-length') !== undefined) {
        headers.set('content-length', String(this.bytes));
      }
      deliverHeaders();
    };
    const isHolding = (): boolean => this.announce !== null;
    this.body = arrived.openBody({
      data: (chunk) => this.deliver(chunk),
      end: (error) => {
        if (error !== undefined && !this.isComplete) {
          this.abortSent(error); // the body could not be decoded
        }
        const isEager = this.announce !== null;
        this.release(error === undefined && !arrived.isLost);
        if (isEager && error !== undefined) {
          // a caller that has just got the headers must be able to listen for the error first
          setImmediate(() => this.conclude(error));
          return;
        }
        this.conclude(arrived.isLost ? systemError('read', 'ECONNRESET') : error);
      },
      get isHolding(): boolean {
        return isHolding();
      },
      drop: () => this.drop(),
    });
    if (arrived.isLost) {
      this.announce = null;
    } else if (!arrived.isAltered && arrived.isEncoded && length === Infinity) {
      // fetch never ends if its decoder fails after it has got the headers alone
      this.releasesEarly = true;
      this.cancelEager = waitForEagerBody(() => this.release(false));
    } else if (!arrived.isAltered && length > MAX_EAGER_BYTES) {
      this.announce = null;
      headers.remove('content-length');
      return deliverHeaders();
    } else if (!arrived.isAltered) {
      this.cancelEager = waitForEagerBody(() => this.release(false));
    }
    return true;
  }

  private drop(): void {
    this.chunks.length = 0;
    this.bytes = 0;
  }

  private deliver(chunk: Buffer): boolean {
    if (this.isConcluded || this.isAborted) {
      return true;
    }
    if (this.announce === null) {
      this.delivered++;
      return withScope(this.scope, () => this.out.data(chunk));
    }
    this.chunks.push(Buffer.from(chunk));
    this.bytes += chunk.length;
    if (this.releasesEarly || this.bytes > MAX_ALTERED_BYTES) {
      this.release(false);
    }
    return true;
  }

  /**
   * Delivers what was read eagerly. All of it is in memory, so that it does not matter whether the caller accepts more.
   */
  private release(isComplete: boolean): void {
    this.cancelEager();
    const announce = this.announce;
    this.announce = null;
    if (announce !== null) {
      this.report(() => announce(isComplete));
      for (const chunk of this.chunks.splice(0)) {
        this.report(() => void this.out.data(chunk));
      }
    }
  }

  private conclude(error?: Error): void {
    if (this.isConcluded) {
      return;
    }
    this.isConcluded = true;
    withScope(this.scope, () => {
      if (error === undefined) {
        try {
          this.out.end(this.trailers);
          return;
        } catch (thrown) {
          error = thrown as Error; // as in undici
        }
      }
      this.out.error(error);
    });
  }

  data(chunk: Buffer): boolean {
    if (this.body === null) {
      return withScope(this.scope, () => this.out.data(chunk));
    }
    if (this.announce === null) {
      this.undeliveredSinceMs = performance.now();
    }
    return this.body.feed(chunk);
  }

  end(trailers: unknown): void {
    this.trailers = trailers;
    this.isComplete = true;
    this.out.isOver = true;
    if (this.body === null) {
      this.conclude();
    } else {
      this.body.end();
    }
  }

  error(error: Error): void {
    const { scope, call } = this;
    this.isComplete = true;
    this.out.isOver = true;
    if (!this.isConnected) {
      scope.setConnectTime(call, timeUntilFailure(error, this.sentMs));
    }
    if (this.body === null) {
      recordEffect(scope, call, replyEffect('http', call.fault, { failed: failureCode(error), history: false }), null);
      this.conclude(error);
      return;
    }
    const before = this.delivered;
    const isEager = this.announce !== null;
    this.body.abandon();
    this.release(false);
    if (!isEager && this.delivered === before) {
      this.conclude(error);
      return;
    }
    setTimeout(() => this.conclude(error), timeToRead(this.undeliveredSinceMs));
  }
}
