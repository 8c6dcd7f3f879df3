/**
 * undici, both the copy inside Node (fetch) and the package. A call begins in a dispatcher's `dispatch`, below fetch's
 * redirects and the application's interceptors.
 */

import { currentScope, isUnscoped } from '../../scope/context';
import type { Scope } from '../../scope/scope';
import { addUnscopedHttp, anyOpenScope } from '../../scope/unscoped';
import { ACCEPT_TAIL, HTTP_HEADER } from '../../wire/envelope';
import { rawHttpName } from '../../wire/names';
import { faultEffect } from '../faults';
import { flatHeaders, withEnvelope } from '../http/request-headers';
import { Fn, Loose, Patch, Unsupported } from '../patch';
import type { Address } from '../http/errors';
import { UndiciCall } from './call';
import { measureConnections } from './connections';
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
        if (scope !== undefined) {
          return traced(scope, this, dispatch, options, handler);
        }
        if (isUnscoped()) {
          countUnscoped(this, options, handler);
        }
        return dispatch.call(this, options, handler) as unknown;
      },
  );
  hooked.add(owner);
  measureConnections();
}

const hooked = new WeakSet<object>();
const DISPATCHER = Symbol.for('undici.globalDispatcher.1');

/**
 * Hooks the global fetch. Node loads its undici lazily, so the dispatcher is hooked at the first request while a scope
 * is open.
 */
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
        if (!anyOpenScope()) {
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
        const started: FetchedCall = { call: null };
        const before = startingFetch;
        startingFetch = started;
        let response: Promise<unknown>;
        try {
          response = fetch.apply(this, args) as Promise<unknown>;
        } finally {
          startingFetch = before;
        }
        return response.catch((error: unknown) => {
          started.call?.callerGaveUp(error);
          throw asSignalTimeout(error, args[1]);
        });
      },
  );
}

/** The first call of a fetch. Those that follow from redirects are not known. */
interface FetchedCall {
  call: UndiciCall | null;
}

/** The fetch that is being started: it dispatches its first request synchronously. */
let startingFetch: FetchedCall | null = null;

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
    if (!hasEnvelope(headers)) {
      [call, outgoing] = beginCall(scope, dispatcher, options, headers, out);
    } // otherwise another dispatcher has begun the call and passes it on
  } catch {
    call = null;
  }
  if (call === null) {
    return dispatch.call(dispatcher, options, handler) as boolean;
  }
  if (startingFetch !== null) {
    startingFetch.call = call;
  }
  const tracingHandler = createHandler(handler, call, out);
  return call.run(() => dispatch.call(dispatcher, outgoing, tracingHandler) as boolean);
}

/** The options and handlers of requests that were counted: a dispatcher passes them to others. */
const counted = new WeakSet<object>();

/** Counts a request that belongs to no scope, at the first of its dispatchers. */
function countUnscoped(dispatcher: Loose, options: Loose, handler: Handler): void {
  try {
    const isKnown = counted.has(options) || counted.has(handler);
    counted.add(options).add(handler);
    if (isKnown || hasEnvelope(flatHeaders(options['headers']))) {
      return;
    }
    const { method, path, authority } = describe(dispatcher, options);
    if (method !== 'CONNECT') {
      addUnscopedHttp(authority, method, path);
    }
  } catch {
    // arguments that undici itself rejects
  }
}

/** Whether a dispatcher has begun the call and passed it on. */
function hasEnvelope(headers: string[]): boolean {
  return headers.some((name, i) => i % 2 === 0 && name.toLowerCase() === HTTP_HEADER);
}

interface Target {
  method: string;
  path: string;
  address: Address;
  authority: string;
}

function describe(dispatcher: Loose, options: Loose): Target {
  const origin = new URL(String(options['origin'] ?? symbolProperty(dispatcher, 'url')));
  const port = origin.port === '' ? (origin.protocol === 'https:' ? 443 : 80) : Number(origin.port);
  return {
    method: String(options['method'] ?? 'GET').toUpperCase(),
    path: String(options['path'] ?? '/'),
    address: { host: origin.hostname, port },
    authority: `${origin.hostname}:${port}`,
  };
}

function beginCall(
  scope: Scope,
  dispatcher: Loose,
  options: Loose,
  headers: string[],
  out: HandlerAdapter,
): [UndiciCall | null, Loose] {
  const { method, path, address, authority } = describe(dispatcher, options);
  if (method === 'CONNECT') {
    return [null, options];
  }
  const accept = scope.envelope.history && method !== 'HEAD' ? ACCEPT_TAIL : 0;
  const outgoing = scope.beginCall(true, scope.service.peerName(authority), rawHttpName(method, path), accept, 0);
  if (outgoing === null) {
    return [null, options];
  }
  const limit: unknown = options['headersTimeout'];
  const timeoutMs = typeof limit === 'number' && limit > 0 ? limit : null;
  const timeoutError = (): Error =>
    timeoutMs !== null || options['signal'] == null ? headersTimeout() : signalTimeout();
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
