/** A request of Node's HTTP client in a scope, from its sending to its reply or failure. */

import type { ClientRequest, IncomingMessage } from 'node:http';
import type { Socket } from 'node:net';
import { withScope } from '../../scope/context';
import type { OutgoingCall, Scope } from '../../scope/scope';
import { CANCELLED, DEADLINE_EXCEEDED } from '../../wire/grpc-codes';
import { FaultEffect, replyEffect, unsentEffect } from '../faults';
import type { Fn, Loose } from '../patch';
import { recordEffect } from '../record';
import { ArrivedReply } from './arrived-reply';
import { Body, BodyReader, MAX_ALTERED_BYTES, MAX_EAGER_BYTES, timeToRead, waitForEagerBody } from './body';
import { measureConnection } from './connect-timer';
import { failureCode, hangUp } from './errors';
import { MessageHeaders } from './message-headers';

export class HttpCall {
  private readonly emit: Fn;
  private readonly destroy: Fn;
  private timedOut = false;
  /** Ends the time for the connection, if there is none yet. */
  private connectionFailed: () => void = () => undefined;
  /** Whether the application ended the request. */
  private endedByApplication = false;
  /** Whether a reply has begun. It is recorded when its history has arrived. */
  private hasReply = false;
  /** A reply that passes through a Body. */
  private reply: Reply | null = null;
  /** Events that follow an error that is withheld. */
  private withheld: unknown[][] | null = null;

  constructor(
    readonly scope: Scope,
    readonly call: OutgoingCall,
    private readonly effect: FaultEffect,
    private readonly request: ClientRequest,
  ) {
    const loose = request as unknown as Loose;
    this.emit = loose['emit'];
    this.destroy = loose['destroy'];
    loose['emit'] = (...args: unknown[]) => withScope(scope, () => this.onEvent(args));
    loose['destroy'] = (error?: unknown) => {
      if (!request.destroyed && this.reply?.cancel()) {
        loose['res'] = null; // the application gets the error of a request without a reply
      }
      this.endedByApplication = true;
      return this.destroy.call(request, error);
    };
  }

  private onEvent(args: unknown[]): unknown {
    if (this.withheld !== null) {
      this.withheld.push(args);
      return true;
    }
    try {
      if (args[0] === 'error' || args[0] === 'close') {
        if (this.reply?.afterReading(() => this.emitWithheld())) {
          this.withheld = [args];
          return true;
        }
      }
      switch (args[0]) {
        case 'socket':
          this.connectionFailed = measureConnection(this.scope, this.call, args[1] as Socket);
          break;
        case 'response':
          return this.onResponse(args[1] as IncomingMessage);
        case 'upgrade':
        case 'connect':
          this.scope.recordReply(this.call, (args[1] as IncomingMessage).statusCode ?? 0, null, true);
          break;
        case 'timeout':
          this.timedOut = true;
          break;
        case 'error':
          this.onFailure(args[1]);
          break;
        case 'close':
          this.onFailure(undefined);
      }
    } catch {
      // the application gets the event in any case
    }
    return this.emit.apply(this.request, args);
  }

  private emitWithheld(): void {
    const all = this.withheld ?? [];
    this.withheld = null;
    withScope(this.scope, () => all.forEach((args) => void this.emit.apply(this.request, args)));
  }

  private onFailure(error: unknown): void {
    if (this.hasReply) {
      return;
    }
    const { scope, call, effect } = this;
    this.connectionFailed();
    if (this.endedByApplication || (error === undefined && effect.sends)) {
      // the application gave up, after a timeout or for reasons of its own
      const code = this.timedOut || failureCode(error) === DEADLINE_EXCEEDED ? DEADLINE_EXCEEDED : CANCELLED;
      scope.recordFailure(call, code, null, effect.sends && this.request.socket != null);
    } else if (!effect.sends) {
      recordEffect(scope, call, unsentEffect(effect), null);
    } else {
      recordEffect(scope, call, replyEffect('http', call.fault, { failed: failureCode(error), history: false }), null);
    }
  }

  private onResponse(response: IncomingMessage): unknown {
    const { scope, call } = this;
    const status = response.statusCode ?? 0;
    this.hasReply = true;
    if (!this.effect.sends) {
      recordEffect(scope, call, unsentEffect(this.effect), null);
      return this.emit.call(this.request, 'response', response);
    }
    const arrived = new ArrivedReply(scope, call, status, new MessageHeaders(response));
    if (arrived.isUnchanged) {
      arrived.record(null);
      return this.emit.call(this.request, 'response', response);
    }
    const length = Number(response.headers['content-length'] ?? Infinity);
    const reply = new Reply(response, arrived.isAltered || length <= MAX_EAGER_BYTES, () => {
      if (arrived.isLost) {
        this.destroy.call(this.request, hangUp());
        return true;
      }
      return this.emit.call(this.request, 'response', response) as boolean;
    });
    this.reply = reply;
    reply.body = arrived.openBody(reply);
    return reply.begin(arrived.removesEncoding, arrived.isAltered);
  }
}

/** A reply between the parser and the application: the chunks that the parser pushes pass through a Body. */
class Reply implements BodyReader {
  body!: Body;
  private readonly push: Fn;
  private readonly headers: MessageHeaders;
  private readonly chunks: Buffer[] = [];
  private bytes = 0;
  /** Whether the parser has delivered the end of the body. The rest of it may still be decoded. */
  private bodyEnded = false;
  /** Whether the application has got the end of the body, or gets none. */
  private isFinished = false;
  /** Whether the application gave up the request before it got the response. */
  private isCancelled = false;
  /** When the first bytes arrived that the application has not got yet. */
  private undeliveredSinceMs = performance.now();
  private cancelEager: () => void = () => undefined;
  /** Number of chunks that were delivered as they arrived. */
  private delivered = 0;
  /** Until when an error is withheld after bytes that were withheld. */
  private readableUntilMs = 0;
  private readonly waiting: (() => void)[] = [];

  constructor(
    private readonly response: IncomingMessage,
    /** Whether the application gets the response only when its body has been read. */
    private eager: boolean,
    /** Emits the response; returns whether it has a listener. */
    private readonly announce: () => boolean,
  ) {
    const loose = response as unknown as Loose;
    this.push = loose['push'];
    this.headers = new MessageHeaders(response);
    loose['push'] = (chunk: Buffer | null) => {
      if (this.isFinished || this.bodyEnded) {
        return false; // Node ends a response whose connection has ended
      }
      if (chunk === null) {
        this.bodyEnded = true;
        this.body.end();
        return false;
      }
      if (!this.eager) {
        this.undeliveredSinceMs = performance.now();
      }
      return this.body.feed(chunk);
    };
    const destroy = loose['destroy'] as Fn;
    loose['destroy'] = (error: unknown) => {
      const byApplication = response.socket?.destroyed === false;
      const isWithheld = !byApplication && this.afterReading(() => void destroy.call(response, error));
      if (isWithheld) {
        return response;
      }
      this.connectionEnded();
      return destroy.call(response, error) as unknown;
    };
  }

  /**
   * Runs the action when the application has had time to read what was withheld, and all actions in the order of the
   * calls. Returns false if there is nothing to wait for; the caller then acts itself.
   */
  afterReading(action: () => void): boolean {
    const waitMs = this.connectionEnded();
    if (waitMs === 0 && this.waiting.length === 0) {
      return false;
    }
    if (this.waiting.push(action) === 1) {
      const run = (): void => {
        this.waiting.splice(0).forEach((one) => one());
      };
      setTimeout(run, waitMs);
    }
    return true;
  }

  /**
   * The body breaks off here, unless it has ended. Delivers what was withheld, and returns for how many milliseconds
   * the application may read it before it gets an error.
   */
  connectionEnded(): number {
    if (this.bodyEnded) {
      this.release(false); // the event follows the response, even if the rest of the body is still being decoded
    } else if (!this.isFinished) {
      this.isFinished = true;
      const before = this.delivered;
      const wasEager = this.eager;
      this.body.abandon();
      this.release(false);
      if (wasEager || this.delivered > before) {
        this.readableUntilMs = performance.now() + timeToRead(this.undeliveredSinceMs);
      }
    }
    return Math.max(0, this.readableUntilMs - performance.now());
  }

  /**
   * The application gives up the request. Returns whether it has not got the response; it must not get it afterwards.
   */
  cancel(): boolean {
    if (!this.eager) {
      return false;
    }
    this.eager = false;
    this.isCancelled = true;
    this.isFinished = true;
    this.cancelEager();
    this.chunks.length = 0;
    if (!this.bodyEnded) {
      this.body.abandon();
    }
    return true;
  }

  begin(removesEncoding: boolean, isAltered: boolean): boolean {
    if (removesEncoding) {
      this.headers.remove('content-encoding');
    }
    if (!this.eager) {
      this.headers.remove('content-length');
      return this.announce();
    }
    if (!isAltered) {
      this.cancelEager = waitForEagerBody(() => this.release(false));
    }
    return true;
  }

  data(chunk: Buffer): boolean {
    if (this.isCancelled) {
      return true;
    }
    if (this.eager) {
      this.chunks.push(Buffer.from(chunk));
      this.bytes += chunk.length;
      if (this.bytes > MAX_ALTERED_BYTES) {
        this.release(false);
      }
      return true;
    }
    this.delivered++;
    this.push.call(this.response, chunk);
    return this.response.readableLength < this.response.readableHighWaterMark;
  }

  get isHolding(): boolean {
    return this.eager;
  }

  drop(): void {
    this.chunks.length = 0;
    this.bytes = 0;
  }

  end(error?: Error): void {
    if (this.isFinished) {
      return;
    }
    this.isFinished = true;
    if (error !== undefined) {
      this.release(false);
      this.response.destroy(error);
      return;
    }
    this.release(true);
    this.push.call(this.response, null);
  }

  /** Delivers what was read eagerly. */
  private release(isComplete: boolean): void {
    this.cancelEager();
    if (!this.eager) {
      return;
    }
    this.eager = false;
    const body = Buffer.concat(this.chunks.splice(0));
    if (!isComplete) {
      this.headers.remove('content-length'); // it includes the tail
    } else if (this.headers.get('content-length') !== undefined) {
      this.headers.set('content-length', String(body.length));
    }
    if (!this.announce()) {
      this.response.resume();
    }
    if (body.length > 0) {
      this.push.call(this.response, body);
    }
  }
}
