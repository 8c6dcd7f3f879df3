/**
 * undici, the one inside Node (fetch) and the package: requests are decided about where a dispatcher is asked to make them,
 * below fetch's redirects and the application's own interceptors.
 */

import { current } from '../scope/context';
import type { Scope } from '../scope/scope';
import { ACCEPT_TAIL, HTTP_HEADER } from '../wire/envelope';
import { rawHttpName } from '../wire/names';
import { listed, withEnvelope } from './http-envelope';
import { Fn, Loose, Patch, Unsupported } from './patch';
import { UndiciCall } from './undici-call';
import { Handler, listen, Speaker } from './undici-handler';

/** Hooks the package. */
export function hookUndici(patch: Patch, undici: Loose): void {
  hookDispatcher(patch, undici['Agent']?.prototype as Loose | undefined);
}

/** Where all dispatchers' `dispatch` is, above the class of one of them. */
function hookDispatcher(patch: Patch, prototype: Loose | undefined): void {
  let owner = prototype;
  while (owner !== undefined && owner !== null && !Object.hasOwn(owner, 'dispatch')) {
    owner = Object.getPrototypeOf(owner) as Loose | undefined;
  }
  if (owner === undefined || owner === null) {
    throw new Unsupported('has no dispatch');
  }
  if (hooked.has(owner)) {
    return;
  }
  patch.wrap(owner, 'dispatch', (dispatch) =>
    function (this: Loose, options: Loose, handler: Handler) {
      const scope = current();
      return scope === undefined ? dispatch.call(this, options, handler) : traced(scope, this, dispatch, options, handler);
    },
  );
  hooked.add(owner);
}

const hooked = new WeakSet<object>();
const DISPATCHER = Symbol.for('undici.globalDispatcher.1');

/** Hooks global fetch. The undici inside Node is loaded when it is first needed, and only then can it be hooked. */
export function hookFetch(patch: Patch): void {
  const all = globalThis as unknown as Loose;
  if (typeof all['fetch'] !== 'function') {
    return;
  }
  let known: unknown;
  patch.wrap(all, 'fetch', (fetch) =>
    function (this: unknown, ...args: unknown[]) {
      if (current() === undefined) {
        return fetch.apply(this, args);
      }
      try {
        void all['Headers'];
        const dispatcher: unknown = all[DISPATCHER];
        if (dispatcher !== known && typeof dispatcher === 'object' && dispatcher !== null) {
          known = dispatcher;
          hookDispatcher(new Patch(), dispatcher as Loose);
        }
      } catch {
        // a dispatcher of somebody's own: its requests go out as they are
      }
      return (fetch.apply(this, args) as Promise<unknown>).catch((error: unknown) => {
        throw timedOut(error, args[1]);
      });
    },
  );
}

/** A program that gave a signal gets what a signal's timeout would have given it. */
function timedOut(error: unknown, init: unknown): unknown {
  const cause = (error as Error | undefined)?.cause;
  const hasSignal = (init as RequestInit | undefined)?.signal != null;
  return hasSignal && cause instanceof Error && timeouts.has(cause) ? signalTimeout() : error;
}

const timeouts = new WeakSet<Error>();

function signalTimeout(): Error {
  return new DOMException('The operation was aborted due to timeout', 'TimeoutError');
}

function headersTimeout(): Error {
  const error = new Error('Headers Timeout Error');
  Object.assign(error, { name: 'HeadersTimeoutError', code: 'UND_ERR_HEADERS_TIMEOUT' });
  timeouts.add(error);
  return error;
}

function traced(scope: Scope, dispatcher: Loose, dispatch: Fn, options: Loose, handler: Handler): boolean {
  let call: UndiciCall | null = null;
  let outgoing = options;
  const out = new Speaker(handler);
  try {
    const headers = listed(options['headers']);
    if (!headers.some((name, i) => i % 2 === 0 && name.toLowerCase() === HTTP_HEADER)) {
      [call, outgoing] = begin(scope, dispatcher, options, headers, out);
    } // else a dispatcher hands it on to another one
  } catch {
    call = null;
  }
  if (call === null) {
    return dispatch.call(dispatcher, options, handler) as boolean;
  }
  const heard = listen(handler, call, out);
  return call.run(() => dispatch.call(dispatcher, outgoing, heard) as boolean);
}

function begin(scope: Scope, dispatcher: Loose, options: Loose, headers: string[], out: Speaker): [UndiciCall | null, Loose] {
  const origin = new URL(String(options['origin'] ?? own(dispatcher, 'url')));
  const port = origin.port === '' ? (origin.protocol === 'https:' ? 443 : 80) : Number(origin.port);
  const method = String(options['method'] ?? 'GET').toUpperCase();
  if (method === 'CONNECT') {
    return [null, options];
  }
  const accept = scope.envelope.history && method !== 'HEAD' ? ACCEPT_TAIL : 0;
  const name = rawHttpName(method, String(options['path'] ?? '/'));
  const sent = scope.send(true, scope.process.peer(`${origin.hostname}:${port}`), name, accept, 0);
  if (sent === null) {
    return [null, options];
  }
  const timeout = (): Error => (options['signal'] == null ? headersTimeout() : signalTimeout());
  const call = new UndiciCall(scope, sent, out, { host: origin.hostname, port }, timeout);
  return [call, { ...options, headers: withEnvelope(scope, sent, headers).flat() }];
}

/** What a dispatcher for one origin keeps under a symbol of this description. */
function own(dispatcher: Loose, description: string): unknown {
  const symbol = Object.getOwnPropertySymbols(dispatcher).find((one) => one.description === description);
  return symbol === undefined ? undefined : dispatcher[symbol];
}
