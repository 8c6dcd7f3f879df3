/** One request of Node's HTTP client that was sent in a scope: its reply, or how it failed. */

import type { ClientRequest, IncomingMessage } from 'node:http';
import type { Call, Scope } from '../scope/scope';
import { within } from '../scope/context';
import type { Kind } from '../wire/plan';
import { CANCELLED, DEADLINE_EXCEEDED, UNAVAILABLE } from './grpc-status';
import { Body, MAX_ALTERED_BYTES, MAX_EAGER_BYTES } from './http-body';
import { takeCarried } from './http-carried';
import { failureCode, hangUp } from './http-errors';
import { MessageHeaders } from './message-headers';
import type { Fn, Loose } from './patch';

export class HttpCall {
  private readonly emit: Fn;
  private readonly destroy: Fn;
  private timedOut = false;
  private given = false;
  /** A reply has begun, and will be recorded when it is known what it brought. */
  private answered = false;

  constructor(
    readonly scope: Scope,
    readonly call: Call,
    private readonly request: ClientRequest,
  ) {
    const loose = request as unknown as Loose;
    this.emit = loose['emit'];
    this.destroy = loose['destroy'];
    loose['emit'] = (...args: unknown[]) => within(scope, () => this.heard(args));
    loose['destroy'] = (error?: unknown) => {
      this.given = true;
      return this.destroy.call(request, error);
    };
  }

  get kind(): Kind | '' {
    return this.call.fault?.kind ?? '';
  }

  /** Was it never sent? */
  get refused(): boolean {
    return this.kind === 'unavailable' || this.kind === 'deadline' || this.kind === 'reset' || this.kind === 'hang';
  }

  /** Ends the request with an error of ours. */
  fail(error: Error): void {
    this.destroy.call(this.request, error);
  }

  private heard(args: unknown[]): unknown {
    try {
      switch (args[0]) {
        case 'response':
          return this.replied(args[1] as IncomingMessage);
        case 'upgrade':
        case 'connect':
          this.scope.replied(this.call, (args[1] as IncomingMessage).statusCode ?? 0, null, true);
          break;
        case 'timeout':
          this.timedOut = true;
          break;
        case 'error':
          this.failed(args[1]);
          break;
        case 'close':
          this.failed(undefined);
      }
    } catch {
      // the application hears what it would have heard
    }
    return this.emit.apply(this.request, args);
  }

  private failed(error: unknown): void {
    if (this.answered) {
      return;
    }
    let code = failureCode(error);
    if (this.given || error === undefined) {
      // ended by the application: because it took too long, or for reasons of its own
      code = this.timedOut || code === DEADLINE_EXCEEDED ? DEADLINE_EXCEEDED : CANCELLED;
    }
    if (this.refused && !this.given) {
      code = this.kind === 'unavailable' || this.kind === 'reset' ? UNAVAILABLE : DEADLINE_EXCEEDED;
    }
    this.scope.failed(this.call, code, null, !this.refused && this.request.socket != null);
  }

  private replied(response: IncomingMessage): unknown {
    const { scope, call, kind } = this;
    const status = response.statusCode ?? 0;
    this.answered = true;
    if (kind === 'status') {
      scope.replied(call, call.fault!.arg, null, false);
      return this.emit.call(this.request, 'response', response);
    }
    const { tail, coding, history } = takeCarried(new MessageHeaders(response));
    const lost = kind === 'lost-reply';
    const record = (late: Buffer | null): void => {
      const found = late ?? history;
      if (lost) {
        scope.failed(call, UNAVAILABLE, found, found === null);
      } else {
        scope.replied(call, status, found, found === null);
      }
    };
    const changed = lost || kind === 'empty-reply' || kind === 'corrupt-reply';
    if (!tail && !changed) {
      record(null);
      return this.emit.call(this.request, 'response', response);
    }
    const length = Number(response.headers['content-length'] ?? Infinity);
    const reply = new Reply(response, changed || length <= MAX_EAGER_BYTES, () => {
      if (lost) {
        this.fail(hangUp());
        return true;
      }
      return this.emit.call(this.request, 'response', response) as boolean;
    });
    reply.body = new Body(call.id, tail, coding, kind, {
      data: (chunk) => reply.data(chunk),
      end: (error) => {
        if (!tail) {
          record(null);
        }
        reply.end(error);
      },
      history: record,
    });
    scope.begun(call, status);
    return reply.begin(tail, kind === 'empty-reply');
  }
}

/** Stands between the parser and the application: what the parser pushes goes through a body first. */
class Reply {
  body!: Body;
  private readonly push: Fn;
  private readonly headers: MessageHeaders;
  private readonly chunks: Buffer[] = [];
  private bytes = 0;
  private over = false;

  constructor(
    private readonly response: IncomingMessage,
    /** Read it to its end before the application hears of it. */
    private eager: boolean,
    private readonly announce: () => boolean,
  ) {
    const loose = response as unknown as Loose;
    this.push = loose['push'];
    this.headers = new MessageHeaders(response);
    loose['push'] = (chunk: Buffer | null) => {
      if (chunk === null) {
        this.body.end();
        return false;
      }
      return this.body.feed(chunk);
    };
    const destroy = loose['_destroy'] as Fn;
    loose['_destroy'] = (error: unknown, done: unknown) => {
      if (!this.over) {
        this.over = true;
        this.body.abandon();
        this.release(false);
      }
      destroy.call(response, error, done);
    };
  }

  begin(tail: boolean, empty: boolean): boolean {
    if (tail || empty) {
      this.headers.remove('content-encoding');
    }
    if (this.eager) {
      return true;
    }
    this.headers.remove('content-length');
    return this.announce();
  }

  data(chunk: Buffer): boolean {
    if (this.eager) {
      this.chunks.push(Buffer.from(chunk));
      this.bytes += chunk.length;
      if (this.bytes > MAX_ALTERED_BYTES) {
        this.release(false);
      }
      return true;
    }
    this.push.call(this.response, chunk);
    return this.response.readableLength < this.response.readableHighWaterMark;
  }

  end(error?: Error): void {
    if (this.over) {
      return;
    }
    this.over = true;
    if (error !== undefined) {
      this.release(false);
      this.response.destroy(error);
      return;
    }
    this.release(true);
    this.push.call(this.response, null);
  }

  /** Hands out what was read first. */
  private release(complete: boolean): void {
    if (!this.eager) {
      return;
    }
    this.eager = false;
    const body = Buffer.concat(this.chunks.splice(0));
    if (complete && this.headers.get('content-length') !== undefined) {
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
