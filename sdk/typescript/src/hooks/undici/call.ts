/** A request of undici, and thus of fetch, in a scope. */

import { STATUS_CODES } from 'node:http';
import { withScope } from '../../scope/context';
import { waitForFault } from '../../scope/fault-wait';
import type { OutgoingCall, Scope } from '../../scope/scope';
import { FaultEffect, replyEffect, sendsAfterWait, unsentEffect } from '../faults';
import { ArrivedReply } from '../http/arrived-reply';
import { Body, MAX_ALTERED_BYTES, MAX_EAGER_BYTES } from '../http/body';
import { Address, failureCode, systemError } from '../http/errors';
import { recordEffect } from '../record';
import { HandlerAdapter, Headers, RequestEvents } from './handler';

export class UndiciCall implements RequestEvents {
  private body: Body | null = null;
  /** Delivers the headers after the body has been read; null if they have been delivered. */
  private announce: ((isComplete: boolean) => void) | null = null;
  private readonly chunks: Buffer[] = [];
  private bytes = 0;
  private trailers: unknown;
  /** Whether a call that was not sent has ended. */
  private isFinished = false;
  private isSent = false;
  /** Whether undici reports nothing more. Further events come from this class alone. */
  private isComplete = false;
  /** The error with which the caller aborted after that. */
  private aborted: Error | null = null;
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
      if (this.isFinished) {
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
    return dispatch();
  }

  /** Ends a call that is not sent, with the outcome of its fault. */
  private simulate(): void {
    const { outcome, status } = this.effect;
    this.isFinished = true;
    recordEffect(this.scope, this.call, unsentEffect(this.effect), null);
    if (outcome === 'status') {
      this.isComplete = true;
      const headers = this.out.emptyHeaders();
      headers.set('content-length', '0');
      this.report(() => void this.out.headers(status, headers, STATUS_CODES[status] ?? ''));
      this.finish();
      return;
    }
    const error =
      outcome === 'refused'
        ? systemError('connect', 'ECONNREFUSED', this.address)
        : outcome === 'reset'
          ? systemError('read', 'ECONNRESET')
          : this.timeoutError();
    withScope(this.scope, () => this.out.error(error));
  }

  private abortSent: (reason?: Error) => void = () => undefined;

  private readonly abort = (reason?: Error): void => {
    const error =
      reason ?? Object.assign(new Error('Request aborted'), { name: 'AbortError', code: 'UND_ERR_ABORTED' });
    if (this.isComplete) {
      this.aborted ??= error;
      this.out.wake();
    } else if (this.isSent) {
      // a caller that aborts does not get what was read eagerly
      this.announce = null;
      this.chunks.length = 0;
      this.abortSent(reason);
    } else if (!this.isFinished) {
      this.cancelWait();
      this.isFinished = true;
      this.scope.recordFailure(this.call, failureCode(error), null, false);
      withScope(this.scope, () => this.out.error(error));
    }
  };

  /** Reports an event of our own. As in undici, an exception of the caller's handler ends the request. */
  private report(event: () => void): void {
    if (this.aborted === null) {
      try {
        withScope(this.scope, event);
      } catch (error) {
        this.aborted = error instanceof Error ? error : new Error(String(error));
      }
    }
  }

  // the events of a request that was sent

  start(abort: (reason?: Error) => void): void {
    this.abortSent = abort;
    withScope(this.scope, () => this.out.start(this.abort));
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
    const eager = arrived.isAltered || Number(headers.get('content-length') ?? Infinity) <= MAX_EAGER_BYTES;
    if (eager) {
      this.announce = (isComplete) => {
        if (isComplete && headers.get('content-length') !== undefined) {
          headers.set('content-length', String(this.bytes));
        }
        deliverHeaders();
      };
    } else {
      headers.remove('content-length');
    }
    this.body = arrived.openBody({
      data: (chunk) => this.deliver(chunk),
      end: (error) => {
        if (arrived.isLost) {
          this.out.error(systemError('read', 'ECONNRESET'));
        } else {
          this.finish(error);
        }
      },
    });
    return eager || deliverHeaders();
  }

  private deliver(chunk: Buffer): boolean {
    if (this.announce === null) {
      return withScope(this.scope, () => this.out.data(chunk));
    }
    this.chunks.push(Buffer.from(chunk));
    this.bytes += chunk.length;
    if (this.bytes > MAX_ALTERED_BYTES) {
      this.release(false);
      this.deliverChunks();
    }
    return true;
  }

  /** Delivers the headers of a reply that was read eagerly. */
  private release(isComplete: boolean): void {
    const announce = this.announce;
    this.announce = null;
    if (announce !== null) {
      this.report(() => announce(isComplete));
    }
  }

  private deliverChunks(): void {
    for (const chunk of this.chunks.splice(0)) {
      this.report(() => void this.out.data(chunk));
    }
  }

  private finish(error?: Error): void {
    this.release(error === undefined);
    if (this.aborted !== null) {
      this.conclude(this.aborted);
      return;
    }
    this.out.whenReady(() => {
      this.deliverChunks();
      this.out.whenReady(() => this.conclude(this.aborted ?? error));
    });
  }

  private conclude(error: Error | undefined): void {
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
    return this.body === null ? withScope(this.scope, () => this.out.data(chunk)) : this.body.feed(chunk);
  }

  end(trailers: unknown): void {
    this.trailers = trailers;
    this.isComplete = true;
    if (this.body === null) {
      withScope(this.scope, () => this.out.end(trailers));
    } else {
      this.body.end();
    }
  }

  error(error: Error): void {
    if (this.body !== null) {
      this.body.abandon();
      this.finish(error);
      return;
    }
    const { scope, call } = this;
    recordEffect(scope, call, replyEffect('http', call.fault, { failed: failureCode(error), history: false }), null);
    withScope(scope, () => this.out.error(error));
  }
}
