/**
 * undici, both the copy inside Node (fetch) and the package. A call begins in a dispatcher's `dispatch`, below fetch's
 * redirects and the application's interceptors.
 */

import { currentScope } from '../../scope/context';
import type { Scope } from '../../scope/scope';
import { ACCEPT_TAIL, HTTP_HEADER } from '../../wire/envelope';
import { rawHttpName } from '../../wire/names';
import { faultEffect } from '../faults';
import { flatHeaders, withEnvelope } from '../http/request-headers';
import { Fn, Loose, Patch, Unsupported } from '../patch';
import { UndiciCall } from './call';
import { createHandler, Handler, HandlerAdapter } from './handler';

/** Hooks the package. */
export function hookUndici(patch: Patch, undici: Loose): void {
  hookDispatcher(patch, undici['Agent']?.prototype as Loose | undefined);
}

/** Hooks the `dispatch` that all dispatchers inherit, found from the prototype of one of them. */
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
  patch.wrap(
    owner,
    'dispatch',
    (dispatch) =>
      function (this: Loose, options: Loose, handler: Handler) {
        const scope = currentScope();
        return scope === undefined
          ? dispatch.call(this, options, handler)
          : traced(scope, this, dispatch, options, handler);
      },
  );
  hooked.add(owner);
}

const hooked = new WeakSet<object>();
const DISPATCHER = Symbol.for('undici.globalDispatcher.1');

/** Hooks the global fetch. Node loads its undici lazily, so the dispatcher is hooked at the first traced request. */
export function hookFetch(patch: Patch): void {
  const globals = globalThis as unknown as Loose;
  if (typeof globals['fetch'] !== 'function') {
    return;
  }
  let hookedDispatcher: unknown;
  patch.wrap(
    globals,
    'fetch',
    (fetch) =>
      function (this: unknown, ...args: unknown[]) {
        if (currentScope() === undefined) {
          return fetch.apply(this, args);
        }
        try {
          void globals['Headers']; // loads Node's undici, which sets the dispatcher
          const dispatcher: unknown = globals[DISPATCHER];
          if (dispatcher !== hookedDispatcher && typeof dispatcher === 'object' && dispatcher !== null) {
            hookedDispatcher = dispatcher;
            hookDispatcher(new Patch(), dispatcher as Loose);
          }
        } catch {
          // an unsupported dispatcher; its requests go out unchanged
        }
        return (fetch.apply(this, args) as Promise<unknown>).catch((error: unknown) => {
          throw asSignalTimeout(error, args[1]);
        });
      },
  );
}

/** For a request with a signal, an injected timeout becomes the error of a timed-out signal. */
function asSignalTimeout(error: unknown, init: unknown): unknown {
  const cause = (error as Error | undefined)?.cause;
  const hasSignal = (init as RequestInit | undefined)?.signal != null;
  return hasSignal && cause instanceof Error && injectedTimeouts.has(cause) ? signalTimeout() : error;
}

const injectedTimeouts = new WeakSet<Error>();

function signalTimeout(): Error {
  return new DOMException('The operation was aborted due to timeout', 'TimeoutError');
}

function headersTimeout(): Error {
  const error = new Error('Headers Timeout Error');
  Object.assign(error, { name: 'HeadersTimeoutError', code: 'UND_ERR_HEADERS_TIMEOUT' });
  injectedTimeouts.add(error);
  return error;
}

function traced(scope: Scope, dispatcher: Loose, dispatch: Fn, options: Loose, handler: Handler): boolean {
  let call: UndiciCall | null = null;
  let outgoing = options;
  const out = new HandlerAdapter(handler);
  try {
    const headers = flatHeaders(options['headers']);
    if (!headers.some((name, i) => i % 2 === 0 && name.toLowerCase() === HTTP_HEADER)) {
      [call, outgoing] = beginCall(scope, dispatcher, options, headers, out);
    } // otherwise another dispatcher has begun the call and passes it on
  } catch {
    call = null;
  }
  if (call === null) {
    return dispatch.call(dispatcher, options, handler) as boolean;
  }
  const tracingHandler = createHandler(handler, call, out);
  return call.run(() => dispatch.call(dispatcher, outgoing, tracingHandler) as boolean);
}

function beginCall(
  scope: Scope,
  dispatcher: Loose,
  options: Loose,
  headers: string[],
  out: HandlerAdapter,
): [UndiciCall | null, Loose] {
  const origin = new URL(String(options['origin'] ?? symbolProperty(dispatcher, 'url')));
  const port = origin.port === '' ? (origin.protocol === 'https:' ? 443 : 80) : Number(origin.port);
  const method = String(options['method'] ?? 'GET').toUpperCase();
  if (method === 'CONNECT') {
    return [null, options];
  }
  const accept = scope.envelope.history && method !== 'HEAD' ? ACCEPT_TAIL : 0;
  const name = rawHttpName(method, String(options['path'] ?? '/'));
  const outgoing = scope.beginCall(true, scope.service.peerName(`${origin.hostname}:${port}`), name, accept, 0);
  if (outgoing === null) {
    return [null, options];
  }
  const limit: unknown = options['headersTimeout'];
  const timeoutMs = typeof limit === 'number' && limit > 0 ? limit : null;
  const timeoutError = (): Error =>
    timeoutMs !== null || options['signal'] == null ? headersTimeout() : signalTimeout();
  const address = { host: origin.hostname, port };
  const call = new UndiciCall(
    scope,
    outgoing,
    faultEffect('http', outgoing.fault, timeoutMs),
    out,
    address,
    timeoutError,
  );
  return [call, { ...options, headers: withEnvelope(scope, outgoing, headers).flat() }];
}

/**
 * The property of a dispatcher under the symbol with this description. A dispatcher for one origin keeps its URL there.
 */
function symbolProperty(dispatcher: Loose, description: string): unknown {
  const symbol = Object.getOwnPropertySymbols(dispatcher).find((one) => one.description === description);
  return symbol === undefined ? undefined : dispatcher[symbol];
}
