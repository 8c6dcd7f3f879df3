/** A request of Node's HTTP/2 client in a scope, from when it is sent to its reply or failure. */

import type { ClientHttp2Session, ClientHttp2Stream } from 'node:http2';
import { withScope } from '../../scope/context';
import { waitForFault } from '../../scope/fault-wait';
import type { OutgoingCall, Scope } from '../../scope/scope';
import { CANCELLED, DEADLINE_EXCEEDED, UNAVAILABLE } from '../../wire/grpc-codes';
import { FaultEffect, replyEffect, sendsAfterWait, unsentEffect } from '../faults';
import { ArrivedReply } from '../http/arrived-reply';
import { MAX_EAGER_BYTES } from '../http/body';
import { microseconds } from '../http/connect-timer';
import { Address, failureCode, systemError } from '../http/errors';
import { MessageHeaders } from '../http/message-headers';
import { Reply } from '../http/reply';
import { takeTrailer } from '../http/reply-headers';
import type { Fn, Loose } from '../patch';
import { recordEffect } from '../record';
import type { LooseHeaders } from './headers';

/** The arguments of the events `response` and `trailers`. */
type HeadersEvent = [name: string, headers: LooseHeaders, flags: number, rawHeaders?: string[]];

export class Http2Call {
  private readonly emit: Fn;
  private readonly destroy: Fn;
  private timedOut = false;
  /** Whether the request has not been passed to Node yet. */
  private isWithheld = false;
  /** Whether the application ended the request. */
  private endedByApplication = false;
  /** Whether a reply has begun. It is recorded when its history has arrived. */
  private hasReply = false;
  /** A reply that passes through a Body. */
  private reply: Reply | null = null;
  /** A reply whose history comes in a trailer. */
  private awaiting: ArrivedReply | null = null;
  /** Events that follow a reply which is read eagerly. */
  private queued: unknown[][] = [];
  private connectionFailed: () => void = () => undefined;

  constructor(
    private readonly scope: Scope,
    private readonly call: OutgoingCall,
    private readonly effect: FaultEffect,
    private readonly session: ClientHttp2Session,
    private readonly stream: ClientHttp2Stream,
    private readonly address: Address,
  ) {
    const loose = this.loose;
    this.emit = loose['emit'];
    this.destroy = loose['destroy'];
    const close = loose['close'] as Fn;
    const push = loose['push'] as Fn;
    loose['emit'] = (...args: unknown[]) => withScope(scope, () => this.onEvent(args));
    loose['destroy'] = (error?: unknown) => {
      if (!stream.destroyed && this.isConnected) {
        this.endedByApplication = true;
      }
      if (this.reply !== null) {
        loose['push'] = push; // Node ends what the application can still read
      }
      return this.destroy.call(stream, error);
    };
    loose['close'] = (...args: unknown[]) => {
      if (!stream.closed) {
        this.endedByApplication = true;
        this.reply?.cancel();
      }
      const result: unknown = close.apply(stream, args);
      if (this.isWithheld) {
        setImmediate(() => void this.destroy.call(stream)); // Node would wait until the request is sent
      }
      return result;
    };
  }

  private get loose(): Loose {
    return this.stream as unknown as Loose;
  }

  /** Whether the stream is open, so that it is the application that destroys it. */
  private get isConnected(): boolean {
    return this.endedByApplication || (!this.stream.closed && !this.session.destroyed);
  }

  /** The request was sent. */
  sent(): void {
    if (!this.session.connecting) {
      return;
    }
    const startMs = performance.now();
    const end = (): void => {
      this.session.removeListener('connect', end);
      if (this.call.connectUs === 0) {
        this.scope.setConnectTime(this.call, microseconds(startMs, performance.now()));
      }
    };
    this.session.once('connect', end);
    this.connectionFailed = end;
  }

  /** Delays the request, which `proceed` sends, or simulates its fault. */
  disturb(proceed: () => void): void {
    const { scope, call, effect } = this;
    const waitEnded = (elapsed: boolean): void => {
      if (this.stream.destroyed) {
        return;
      }
      if (sendsAfterWait(call.fault, effect, elapsed)) {
        this.isWithheld = false;
        this.sent();
        proceed();
      } else {
        this.simulate();
      }
    };
    this.isWithheld = true;
    if (!effect.sends) {
      this.discardWrites();
    }
    if (effect.waitMs > 0) {
      const cancelWait = waitForFault(scope.service.receiver, effect.waitMs, waitEnded);
      this.stream.once('close', cancelWait);
    } else {
      setImmediate(waitEnded, true);
    }
  }

  /** The application can still write to a request that is not sent. */
  private discardWrites(): void {
    const discard = (...args: unknown[]): void => (args.at(-1) as () => void)();
    for (const name of ['_write', '_writev', '_final']) {
      this.loose[name] = discard;
    }
    this.stream.uncork(); // corked until it is sent
  }

  /** Ends a call that is not sent, with the outcome of its fault. */
  private simulate(): void {
    const { effect, stream, address } = this;
    const destroy = (error?: Error): void => void this.destroy.call(stream, error);
    switch (effect.outcome) {
      case 'refused':
        destroy(canceled(systemError('connect', 'ECONNREFUSED', address)));
        break;
      case 'reset':
        destroy(systemError('read', 'ECONNRESET'));
        break;
      case 'status': {
        const rawHeaders = [':status', String(effect.status), 'content-length', '0'];
        stream.once('end', () => destroy());
        stream.emit('response', { ':status': effect.status, 'content-length': '0' }, 0, rawHeaders);
        stream.push(null);
        break;
      }
      default:
        // an application that listens for a timeout ends the request itself
        stream.emit('timeout');
        setImmediate(() => stream.destroyed || destroy(systemError('connect', 'ETIMEDOUT', address)));
    }
  }

  private onEvent(args: unknown[]): unknown {
    try {
      switch (args[0]) {
        case 'response':
          return this.onResponse(args as HeadersEvent);
        case 'trailers':
          this.onTrailers(args as HeadersEvent);
          if (this.reply?.isHolding) {
            this.queued.push(args);
            return true;
          }
          break;
        case 'timeout':
          this.timedOut = true;
          break;
        case 'error':
          this.onFailure(args[1]);
          break;
        case 'close':
          this.awaiting?.record(null);
          this.onFailure(undefined);
      }
    } catch {
      // the application gets the event in any case
    }
    return this.emit.apply(this.stream, args);
  }

  private onFailure(error: unknown): void {
    if (this.hasReply) {
      return;
    }
    const { scope, call, effect } = this;
    this.connectionFailed();
    if (this.endedByApplication) {
      // after a timeout or for reasons of its own
      const code = this.timedOut || failureCode(error) === DEADLINE_EXCEEDED ? DEADLINE_EXCEEDED : CANCELLED;
      scope.recordFailure(call, code, null, effect.sends && !this.stream.pending);
    } else if (!effect.sends) {
      recordEffect(scope, call, unsentEffect(effect), null);
    } else {
      // a server that resets a stream without an error only closes it
      const failed = error === undefined ? UNAVAILABLE : failureCode(error);
      recordEffect(scope, call, replyEffect('http', call.fault, { failed, history: false }), null);
    }
  }

  private onTrailers([, headers, , rawHeaders]: HeadersEvent): void {
    const history = takeTrailer(new MessageHeaders({ headers, rawHeaders: rawHeaders ?? [] }));
    this.awaiting?.record(history);
    this.awaiting = null;
  }

  private onResponse(event: HeadersEvent): unknown {
    const { scope, call, stream } = this;
    const [, headers, , rawHeaders] = event;
    const status = Number(headers[':status'] ?? 0);
    const announce = (): boolean => this.emit.apply(stream, event) as boolean;
    this.hasReply = true;
    if (!this.effect.sends) {
      recordEffect(scope, call, unsentEffect(this.effect), null);
      return announce();
    }
    const own = new MessageHeaders({ headers, rawHeaders: rawHeaders ?? [] });
    const arrived = new ArrivedReply(scope, call, status, own);
    if (arrived.isUnchanged) {
      if (arrived.awaitsTrailer) {
        scope.replyStarted(call, status);
        this.awaiting = arrived;
      } else {
        arrived.record(null);
      }
      return announce();
    }
    const length = Number(headers['content-length'] ?? Infinity);
    const eager = arrived.isAltered || length <= MAX_EAGER_BYTES;
    const reply = new Reply(stream, own, () => this.isConnected, eager, () => {
      if (arrived.isLost) {
        this.destroy.call(stream, systemError('read', 'ECONNRESET'));
        return true;
      }
      announce();
      process.nextTick(() => {
        for (const args of this.queued.splice(0)) {
          withScope(scope, () => void this.emit.apply(stream, args));
        }
      });
      return true; // Node does not read a response that nobody listens for
    });
    this.reply = reply;
    reply.body = arrived.openBody(reply);
    reply.begin(arrived.removesEncoding, arrived.isAltered);
    if (reply.isHolding) {
      stream.read(0); // Node delivers a body only when it is read
    }
    return true;
  }
}

/** The error of the streams of a session that cannot connect. */
function canceled(cause: Error): Error {
  const error = new Error(`The pending stream has been canceled (caused by: ${cause.message})`, { cause });
  return Object.assign(error, { code: 'ERR_HTTP2_STREAM_CANCEL' });
}
