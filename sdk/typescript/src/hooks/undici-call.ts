/** One request of undici (and so of fetch) that is sent in a scope. */

import { STATUS_CODES } from 'node:http';
import type { Call, Scope } from '../scope/scope';
import { within } from '../scope/context';
import { wait } from '../scope/wait';
import type { Kind } from '../wire/plan';
import { DEADLINE_EXCEEDED, UNAVAILABLE } from './grpc-status';
import { Body, MAX_ALTERED_BYTES, MAX_EAGER_BYTES } from './http-body';
import { takeCarried } from './http-carried';
import { Address, failureCode, systemError } from './http-errors';
import { Headers, Speaker, Told } from './undici-handler';

export class UndiciCall implements Told {
  private body: Body | null = null;
  /** What is said once the body has been read. */
  private announce: ((complete: boolean) => void) | null = null;
  private readonly chunks: Buffer[] = [];
  private bytes = 0;
  private trailers: unknown;
  private over = false;
  private sent = false;
  /** Nothing more comes of the request; what is said now is said by us alone. */
  private complete = false;
  /** Why the caller gave up meanwhile. */
  private aborted: Error | null = null;
  private stopWaiting: () => void = () => undefined;

  constructor(
    private readonly scope: Scope,
    private readonly call: Call,
    private readonly out: Speaker,
    private readonly address: Address,
    private readonly timeout: () => Error,
  ) {}

  get kind(): Kind | '' {
    return this.call.fault?.kind ?? '';
  }

  /** Sends it by `go`, or plays its fault. */
  run(go: () => boolean): boolean {
    switch (this.kind) {
      case 'unavailable':
        return this.later(() => this.fail(UNAVAILABLE, systemError('connect', 'ECONNREFUSED', this.address)));
      case 'reset':
        return this.later(() => this.fail(UNAVAILABLE, systemError('read', 'ECONNRESET')));
      case 'deadline':
        return this.later(() => this.fail(DEADLINE_EXCEEDED, this.timeout()));
      case 'status':
        return this.later(() => this.answer());
      case 'hang':
        return this.waiting(() => this.fail(DEADLINE_EXCEEDED, this.timeout()));
      case 'delay':
        return this.waiting(() => within(this.scope, () => void this.send(go)));
      default:
        return this.send(go);
    }
  }

  private send(go: () => boolean): boolean {
    this.sent = true;
    return go();
  }

  private later(then: () => void): boolean {
    return this.before(then, (done) => {
      const soon = setImmediate(done);
      return () => clearImmediate(soon);
    });
  }

  private waiting(then: () => void): boolean {
    return this.before(then, (done) => wait(this.scope.process.receiver, this.call.fault!, done));
  }

  /** Lets time pass in which the caller may give up. */
  private before(then: () => void, pass: (done: () => void) => () => void): boolean {
    this.stopWaiting = pass(() => {
      if (!this.over) {
        then();
      }
    });
    within(this.scope, () => this.out.start(this.abort));
    return true;
  }

  private abortSent: (reason?: Error) => void = () => undefined;

  private readonly abort = (reason?: Error): void => {
    const error = reason ?? Object.assign(new Error('Request aborted'), { name: 'AbortError', code: 'UND_ERR_ABORTED' });
    if (this.complete) {
      this.aborted ??= error;
      this.out.wake();
    } else if (this.sent) {
      // who gave up does not want to hear what was read meanwhile
      this.announce = null;
      this.chunks.length = 0;
      this.abortSent(reason);
    } else if (!this.over) {
      this.stopWaiting();
      this.fail(failureCode(error), error);
    }
  };

  /** Says something on our own; what the caller's handler throws ends the request, as undici has it. */
  private say(work: () => void): void {
    if (this.aborted === null) {
      try {
        within(this.scope, work);
      } catch (error) {
        this.aborted = error instanceof Error ? error : new Error(String(error));
      }
    }
  }

  private fail(code: number, error: Error): void {
    this.over = true;
    this.scope.failed(this.call, code, null, false);
    within(this.scope, () => this.out.error(error));
  }

  private answer(): void {
    this.over = this.complete = true;
    const given = Number(this.call.fault!.arg);
    const status = given >= 200 && given <= 999 ? given : 500;
    this.scope.replied(this.call, this.call.fault!.arg, null, false);
    const headers = this.out.noHeaders();
    headers.set('content-length', '0');
    this.say(() => void this.out.headers(status, headers, STATUS_CODES[status] ?? ''));
    this.finish();
  }

  // what undici tells of a request that was sent

  start(abort: (reason?: Error) => void): void {
    this.abortSent = abort;
    within(this.scope, () => this.out.start(this.abort));
  }

  upgrade(status: number): void {
    this.scope.replied(this.call, status, null, true);
  }

  headers(status: number, headers: Headers, text: string): boolean {
    const { scope, call, kind } = this;
    const { tail, coding, history } = takeCarried(headers);
    const lost = kind === 'lost-reply';
    const changed = lost || kind === 'empty-reply' || kind === 'corrupt-reply';
    const record = (late: Buffer | null): void => {
      const found = late ?? history;
      if (lost) {
        scope.failed(call, UNAVAILABLE, found, found === null);
      } else {
        scope.replied(call, status, found, found === null);
      }
    };
    const begin = (): boolean => within(scope, () => this.out.headers(status, headers, text));
    if (!tail && !changed) {
      record(null);
      return begin();
    }
    scope.begun(call, status);
    if (tail || kind === 'empty-reply') {
      headers.remove('content-encoding');
    }
    const eager = changed || Number(headers.get('content-length') ?? Infinity) <= MAX_EAGER_BYTES;
    if (eager) {
      this.announce = (complete) => {
        if (complete && headers.get('content-length') !== undefined) {
          headers.set('content-length', String(this.bytes));
        }
        begin();
      };
    } else {
      headers.remove('content-length');
    }
    this.body = new Body(call.id, tail, coding, kind, {
      data: (chunk) => this.pass(chunk),
      end: (error) => {
        if (!tail) {
          record(null);
        }
        if (lost) {
          this.out.error(systemError('read', 'ECONNRESET'));
        } else {
          this.finish(error);
        }
      },
      history: record,
    });
    return eager || begin();
  }

  private pass(chunk: Buffer): boolean {
    if (this.announce === null) {
      return within(this.scope, () => this.out.data(chunk));
    }
    this.chunks.push(Buffer.from(chunk));
    this.bytes += chunk.length;
    if (this.bytes > MAX_ALTERED_BYTES) {
      this.release(false);
      this.handOut();
    }
    return true;
  }

  /** Tells of the reply that was read first. */
  private release(complete: boolean): void {
    const announce = this.announce;
    this.announce = null;
    if (announce !== null) {
      this.say(() => announce(complete));
    }
  }

  private handOut(): void {
    for (const held of this.chunks.splice(0)) {
      this.say(() => void this.out.data(held));
    }
  }

  private finish(error?: Error): void {
    this.release(error === undefined);
    if (this.aborted !== null) {
      this.conclude(this.aborted);
      return;
    }
    this.out.flow(() => {
      this.handOut();
      this.out.flow(() => this.conclude(this.aborted ?? error));
    });
  }

  private conclude(why: Error | undefined): void {
    within(this.scope, () => {
      if (why === undefined) {
        try {
          this.out.end(this.trailers);
          return;
        } catch (error) {
          why = error as Error; // as undici has it
        }
      }
      this.out.error(why);
    });
  }

  data(chunk: Buffer): boolean {
    return this.body === null ? within(this.scope, () => this.out.data(chunk)) : this.body.feed(chunk);
  }

  end(trailers: unknown): void {
    this.trailers = trailers;
    this.complete = true;
    if (this.body === null) {
      within(this.scope, () => this.out.end(trailers));
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
    this.scope.failed(this.call, failureCode(error), null, true);
    within(this.scope, () => this.out.error(error));
  }
}
