/**
 * The two ways in which undici tells of a request: by a handler of onConnect, onHeaders, … (until 7, and inside 7), or of
 * onRequestStart, onResponseStart, … (since 7). `Told` is what is common, `listen` makes a handler of either kind from it,
 * and `speak` tells a handler of either kind.
 */

import type { ReplyHeaders } from './http-carried';
import type { Fn, Loose } from './patch';

/** A reply's headers, in either form. */
export class Headers implements ReplyHeaders {
  constructor(readonly form: Buffer[] | Record<string, string | string[]>) {}

  get(name: string): string | undefined {
    if (!Array.isArray(this.form)) {
      const value = this.form[name];
      return value === undefined ? undefined : String(value);
    }
    const values: string[] = [];
    for (let i = 0; i + 1 < this.form.length; i += 2) {
      if (String(this.form[i]).toLowerCase() === name) {
        values.push(String(this.form[i + 1]));
      }
    }
    return values.length === 0 ? undefined : values.join(', ');
  }

  remove(name: string): void {
    if (!Array.isArray(this.form)) {
      delete this.form[name];
      return;
    }
    for (let i = this.form.length - 2; i >= 0; i -= 2) {
      if (String(this.form[i]).toLowerCase() === name) {
        this.form.splice(i, 2);
      }
    }
  }

  set(name: string, value: string): void {
    this.remove(name);
    if (Array.isArray(this.form)) {
      this.form.push(Buffer.from(name), Buffer.from(value));
    } else {
      this.form[name] = value;
    }
  }
}

/** What happens to a request. */
export interface Told {
  /** It is about to be sent; `abort` ends it. */
  start(abort: (reason?: Error) => void): void;
  upgrade(status: number): void;
  /** Returns, as does `data`, whether more may come at once. */
  headers(status: number, headers: Headers, text: string): boolean;
  data(chunk: Buffer): boolean;
  end(trailers: unknown): void;
  error(error: Error): void;
}

export type Handler = Loose;

function isNew(handler: Handler): boolean {
  return typeof handler['onRequestStart'] === 'function';
}

/** A handler of the same kind as `like`, which hears for `told`; what is not told of goes to `like`. */
export function listen(like: Handler, told: Told, out: Speaker): Handler {
  const own: Handler = isNew(like)
    ? {
        onRequestStart: (controller: Loose, context: unknown) => {
          out.controller = controller;
          out.context = context;
          told.start((reason) => controller['abort'](reason));
        },
        onRequestUpgrade: (controller: Loose, status: number, headers: unknown, socket: unknown) => {
          told.upgrade(status);
          like['onRequestUpgrade']?.(controller, status, headers, socket);
        },
        onResponseStart: (controller: Loose, status: number, headers: Record<string, string>, text: string) => {
          if (status < 200) {
            like['onResponseStart']?.(controller, status, headers, text);
          } else {
            told.headers(status, new Headers({ ...headers }), text);
          }
        },
        onResponseData: (_controller: Loose, chunk: Buffer) => void told.data(chunk),
        onResponseEnd: (_controller: Loose, trailers: unknown) => told.end(trailers),
        onResponseError: (controller: Loose, error: Error) => {
          out.controller ??= controller;
          told.error(error);
        },
      }
    : {
        onConnect: (abort: (reason?: Error) => void, context: unknown) => {
          out.context = context;
          told.start(abort);
        },
        onUpgrade: (status: number, headers: unknown, socket: unknown) => {
          told.upgrade(status);
          return like['onUpgrade']?.(status, headers, socket) as unknown;
        },
        onHeaders: (status: number, headers: Buffer[], resume: () => void, text: string) => {
          if (status < 200) {
            return like['onHeaders']?.(status, headers, resume, text) as unknown;
          }
          out.resume = resume;
          return told.headers(status, new Headers([...headers]), text);
        },
        onData: (chunk: Buffer) => told.data(chunk),
        onComplete: (trailers: unknown) => told.end(trailers),
        onError: (error: Error) => told.error(error),
      };
  for (const name of ['onResponseStarted', 'onBodySent', 'onRequestSent']) {
    if (typeof like[name] === 'function') {
      own[name] = (...args: unknown[]) => like[name](...args) as unknown;
    }
  }
  return own;
}

/** Tells a handler of either kind. */
export class Speaker implements Told {
  /** Of a request that undici makes; one that is never made has one of ours. */
  controller: Loose | null = null;
  context: unknown = {};
  resume: () => void = () => undefined;
  /** May more be said, as far as the handler told? */
  private wanted = true;
  private pending: (() => void) | null = null;

  constructor(private readonly handler: Handler) {}

  start(abort: (reason?: Error) => void): void {
    if (isNew(this.handler)) {
      this.controller = this.controlled(this.controller, abort);
      this.handler['onRequestStart'](this.controller, this.context);
    } else {
      this.handler['onConnect']?.(abort, this.context);
    }
  }

  upgrade(): void {}

  headers(status: number, headers: Headers, text: string): boolean {
    if (isNew(this.handler)) {
      this.handler['onResponseStart']?.(this.controller, status, headers.form, text);
      return true;
    }
    const form = headers.form as Buffer[];
    return this.say(this.handler['onHeaders'](status, form, () => this.flows(this.resume), text));
  }

  data(chunk: Buffer): boolean {
    if (isNew(this.handler)) {
      this.handler['onResponseData']?.(this.controller, chunk);
      return true;
    }
    return this.say(this.handler['onData'](chunk));
  }

  /** Goes on at once, or when the handler wants more. */
  flow(next: () => void): void {
    if (this.wanted) {
      next();
    } else {
      this.pending = next;
    }
  }

  /** Goes on in any case. */
  wake(): void {
    this.flows(() => undefined);
  }

  private flows(resume: () => void): void {
    this.wanted = true;
    resume();
    const next = this.pending;
    this.pending = null;
    next?.();
  }

  /** A controller that tells us, too; of a request that is not made, nothing else of it does anything. */
  private controlled(real: Loose | null, abort: (reason?: Error) => void): Loose {
    const idle = { paused: false, aborted: false, reason: null, rawHeaders: [], rawTrailers: [] };
    const own: Loose = {
      abort,
      pause: () => {
        this.wanted = false;
        real?.['pause']();
      },
      resume: () => this.flows(() => real?.['resume']()),
    };
    return new Proxy(real ?? idle, {
      get(target, key) {
        const value: unknown = own[key] ?? Reflect.get(target, key, target);
        return typeof value === 'function' && !Object.hasOwn(own, key) ? (value as Fn).bind(target) : value;
      },
    });
  }

  private say(answer: unknown): boolean {
    this.wanted = answer !== false;
    return this.wanted;
  }

  end(trailers: unknown): void {
    if (isNew(this.handler)) {
      this.handler['onResponseEnd']?.(this.controller, trailers ?? {});
    } else {
      this.handler['onComplete'](trailers ?? []);
    }
  }

  error(error: Error): void {
    if (isNew(this.handler)) {
      this.controller ??= this.controlled(null, () => undefined);
      this.handler['onResponseError']?.(this.controller, error);
    } else {
      this.handler['onError'](error);
    }
  }

  /** An empty set of headers, in the handler's form. */
  noHeaders(): Headers {
    return new Headers(isNew(this.handler) ? {} : []);
  }
}
