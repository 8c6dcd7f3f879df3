/**
 * undici has two handler interfaces: onConnect, onHeaders, … (until 7, and inside 7), and onRequestStart,
 * onResponseStart, … (since 7). RequestEvents is common to both. `createHandler` creates a handler of either kind, and
 * HandlerAdapter calls one.
 */

import type { ReplyHeaders } from '../http/reply-headers';
import type { Fn, Loose } from '../patch';

/** The headers of a reply, in the form of either interface. */
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

/** The events of a request. */
export interface RequestEvents {
  /** The request is about to be sent; `abort` ends it. */
  start(abort: (reason?: Error) => void): void;
  upgrade(status: number): void;
  /** Returns whether more may follow at once, as does `data`. */
  headers(status: number, headers: Headers, text: string): boolean;
  data(chunk: Buffer): boolean;
  end(trailers: unknown): void;
  error(error: Error): void;
}

export type Handler = Loose;

function hasControllers(handler: Handler): boolean {
  return typeof handler['onRequestStart'] === 'function';
}

/** A handler with the interface of `original` that passes its events to `events`, and others to `original`. */
export function createHandler(original: Handler, events: RequestEvents, out: HandlerAdapter): Handler {
  const own: Handler = hasControllers(original)
    ? {
        onRequestStart: (controller: Loose, context: unknown) => {
          out.controller = controller;
          out.context = context;
          events.start((reason) => controller['abort'](reason));
        },
        onRequestUpgrade: (controller: Loose, status: number, headers: unknown, socket: unknown) => {
          events.upgrade(status);
          original['onRequestUpgrade']?.(controller, status, headers, socket);
        },
        onResponseStart: (controller: Loose, status: number, headers: Record<string, string>, text: string) => {
          if (status < 200) {
            original['onResponseStart']?.(controller, status, headers, text);
          } else {
            events.headers(status, new Headers({ ...headers }), text);
          }
        },
        onResponseData: (_controller: Loose, chunk: Buffer) => void events.data(chunk),
        onResponseEnd: (_controller: Loose, trailers: unknown) => events.end(trailers),
        onResponseError: (controller: Loose, error: Error) => {
          out.controller ??= controller;
          events.error(error);
        },
      }
    : {
        onConnect: (abort: (reason?: Error) => void, context: unknown) => {
          out.context = context;
          events.start(abort);
        },
        onUpgrade: (status: number, headers: unknown, socket: unknown) => {
          events.upgrade(status);
          return original['onUpgrade']?.(status, headers, socket) as unknown;
        },
        onHeaders: (status: number, headers: Buffer[], resume: () => void, text: string) => {
          if (status < 200) {
            return original['onHeaders']?.(status, headers, resume, text) as unknown;
          }
          out.resume = resume;
          return events.headers(status, new Headers([...headers]), text);
        },
        onData: (chunk: Buffer) => events.data(chunk),
        onComplete: (trailers: unknown) => events.end(trailers),
        onError: (error: Error) => events.error(error),
      };
  for (const name of ['onResponseStarted', 'onBodySent', 'onRequestSent']) {
    if (typeof original[name] === 'function') {
      own[name] = (...args: unknown[]) => original[name](...args) as unknown;
    }
  }
  return own;
}

/** Calls a handler of either kind. */
export class HandlerAdapter implements RequestEvents {
  /** undici's controller; ours for a request that is not sent. */
  controller: Loose | null = null;
  context: unknown = {};
  resume: () => void = () => undefined;
  /** Whether undici has ended the request. Its functions must then not be called: they refer to a closed connection. */
  isOver = false;

  constructor(private readonly handler: Handler) {}

  start(abort: (reason?: Error) => void): void {
    if (hasControllers(this.handler)) {
      this.controller = this.wrapController(this.controller, abort);
      this.handler['onRequestStart'](this.controller, this.context);
    } else {
      this.handler['onConnect']?.(abort, this.context);
    }
  }

  upgrade(): void {}

  headers(status: number, headers: Headers, text: string): boolean {
    if (hasControllers(this.handler)) {
      this.handler['onResponseStart']?.(this.controller, status, headers.form, text);
      return true;
    }
    const form = headers.form as Buffer[];
    return this.handler['onHeaders'](status, form, () => this.isOver || this.resume(), text) !== false;
  }

  data(chunk: Buffer): boolean {
    if (hasControllers(this.handler)) {
      this.handler['onResponseData']?.(this.controller, chunk);
      return true;
    }
    return this.handler['onData'](chunk) !== false;
  }

  /** A controller that also reports to us. Without a real one, for a request that is not sent, it does nothing else. */
  private wrapController(real: Loose | null, abort: (reason?: Error) => void): Loose {
    const idle = { paused: false, aborted: false, reason: null, rawHeaders: [], rawTrailers: [] };
    const own: Loose = {
      abort,
      pause: () => this.isOver || real?.['pause'](),
      resume: () => this.isOver || real?.['resume'](),
    };
    return new Proxy(real ?? idle, {
      get(target, key) {
        const value: unknown = own[key] ?? Reflect.get(target, key, target);
        return typeof value === 'function' && !Object.hasOwn(own, key) ? (value as Fn).bind(target) : value;
      },
    });
  }

  end(trailers: unknown): void {
    if (hasControllers(this.handler)) {
      this.handler['onResponseEnd']?.(this.controller, trailers ?? {});
    } else {
      this.handler['onComplete'](trailers ?? []);
    }
  }

  error(error: Error): void {
    if (hasControllers(this.handler)) {
      this.controller ??= this.wrapController(null, () => undefined);
      this.handler['onResponseError']?.(this.controller, error);
    } else {
      this.handler['onError'](error);
    }
  }

  /** Empty headers, in the form of the handler's interface. */
  emptyHeaders(): Headers {
    return new Headers(hasControllers(this.handler) ? {} : []);
  }
}
