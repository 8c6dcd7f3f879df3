/**
 * Node's HTTP/2 client: requests of the sessions of `http2.connect`. Requests of gRPC are left to the hooks of
 * @grpc/grpc-js, and those of undici, which have an envelope, to its own.
 *
 * A call that a fault delays, or prevents from being sent, gets a stream that waits for its session as if that were
 * still connecting. The session and its other streams are not affected.
 */

import type { ClientHttp2Session, ClientHttp2Stream } from 'node:http2';
import { promisify } from 'node:util';
import { currentScope, isUnscoped } from '../../scope/context';
import type { OutgoingCall, Scope } from '../../scope/scope';
import { addUnscopedHttp } from '../../scope/unscoped';
import { isFramed } from '../../wire/carrier';
import { ACCEPT_TAIL, HTTP_HEADER } from '../../wire/envelope';
import { rawHttpName } from '../../wire/names';
import { faultEffect } from '../faults';
import { detachEvents } from '../http/client';
import { Address } from '../http/errors';
import { withEnvelope } from '../http/request-headers';
import { Fn, Loose, Patch, prototypeHook } from '../patch';
import { Http2Call } from './call';
import { headerOf, isGrpc, LooseHeaders } from './headers';

/** Destinations of sessions. */
const addresses = new WeakMap<object, Address>();

export function hookHttp2Client(patch: Patch, http2: Loose): void {
  const hookSession = prototypeHook((prototype) => patch.wrap(prototype, 'request', hookRequest));
  let connectHooked: Fn = () => undefined;
  patch.wrap(http2, 'connect', (connect) => {
    connectHooked = (...args) => {
      const session = connect(...args) as ClientHttp2Session;
      hookSession(session);
      addresses.set(session, addressOf(args[0]));
      return session;
    };
    return connectHooked;
  });
  Object.defineProperty(http2['connect'], promisify.custom, {
    configurable: true,
    value: (authority: unknown, options: unknown) =>
      new Promise((resolve, reject) => {
        const session = connectHooked(authority, options, () => {
          session.removeListener('error', reject);
          resolve(session);
        }) as ClientHttp2Session;
        session.once('error', reject);
      }),
  });
}

/** The destination of `http2.connect`, as Node derives it. */
function addressOf(authority: unknown): Address {
  const url = (typeof authority === 'string' ? new URL(authority) : authority) as Partial<URL>;
  const port = url.port !== '' && url.port !== undefined ? Number(url.port) : url.protocol === 'http:' ? 80 : 443;
  return { host: String(url.hostname || url.host || 'localhost').replace(/^\[|\]$/g, ''), port };
}

function hookRequest(request: Fn): Fn {
  return function (this: ClientHttp2Session, ...args: unknown[]) {
    const untouched = (): ClientHttp2Stream => request.apply(this, args) as ClientHttp2Stream;
    const target = describe(this, args[0]);
    if (target === null) {
      return untouched();
    }
    const scope = currentScope();
    if (scope !== undefined) {
      return traced(scope, request, this, target, args) ?? untouched();
    }
    if (isUnscoped()) {
      addUnscopedHttp(target.authority, target.method, target.path);
    }
    return detachEvents(untouched());
  };
}

interface Target {
  headers: LooseHeaders;
  method: string;
  path: string;
  address: Address;
  authority: string;
}

/** The target of a request; null if it is not traced, or if Node rejects it. */
function describe(session: ClientHttp2Session, given: unknown): Target | null {
  const isObject = given === undefined || (typeof given === 'object' && !Array.isArray(given));
  if (!isObject || session.destroyed || session.closed) {
    return null;
  }
  const headers = (given ?? {}) as LooseHeaders;
  const method = String(headers[':method'] ?? 'GET').toUpperCase();
  const address = addresses.get(session);
  const isOfOtherHook = isGrpc(headers) || headerOf(headers, HTTP_HEADER) !== undefined;
  if (address === undefined || method === 'CONNECT' || isOfOtherHook) {
    return null;
  }
  const host = address.host.includes(':') ? `[${address.host}]` : address.host;
  return { headers, method, path: String(headers[':path'] ?? '/'), address, authority: `${host}:${address.port}` };
}

/** Returns null if the scope has finished. */
function traced(
  scope: Scope,
  request: Fn,
  session: ClientHttp2Session,
  target: Target,
  args: readonly unknown[],
): ClientHttp2Stream | null {
  const { method, path, authority, address } = target;
  const accept = scope.envelope.history && method !== 'HEAD' ? ACCEPT_TAIL : 0;
  const call = scope.beginCall(true, scope.service.peerName(authority), rawHttpName(method, path), accept, 0);
  if (call === null) {
    return null;
  }
  const effect = faultEffect('http', call.fault, null);
  const headers = outgoingHeaders(scope, call, target.headers);
  const send = (from: object): ClientHttp2Stream =>
    request.call(from, headers, ...args.slice(1)) as ClientHttp2Stream;
  try {
    if (effect.sends && effect.waitMs === 0) {
      const stream = send(session);
      new Http2Call(scope, call, effect, session, stream, address).sent();
      return stream;
    }
    const { stream, proceed } = withhold(session, send);
    new Http2Call(scope, call, effect, session, stream, address).disturb(proceed);
    return stream;
  } catch (error) {
    scope.recordFailure(call, 2, null, false); // Node has rejected the request
    throw error;
  }
}

/** Headers with the envelope, and with the symbol that marks sensitive ones. */
function outgoingHeaders(scope: Scope, call: OutgoingCall, headers: LooseHeaders): LooseHeaders {
  const out = Object.fromEntries(withEnvelope(scope, call, Object.entries(headers))) as LooseHeaders;
  for (const symbol of Object.getOwnPropertySymbols(headers)) {
    (out as Loose)[symbol] = (headers as Loose)[symbol];
  }
  if (call.envelope !== null && isFramed((name) => headerOf(headers, name)) && headerOf(headers, 'te') === undefined) {
    out['te'] = 'trailers'; // such a reply has its history there
  }
  return out;
}

/** Creates the stream of a request without sending it, which `proceed` does. */
function withhold(
  session: ClientHttp2Session,
  make: (from: object) => ClientHttp2Stream,
): { stream: ClientHttp2Stream; proceed: () => void } {
  let connected: (() => void) | null = null;
  const connecting = Object.create(session) as Loose;
  Object.defineProperty(connecting, 'connecting', { value: true });
  Object.defineProperty(connecting, 'once', {
    value: (_event: string, listener: () => void) => void (connected = listener),
  });
  for (const symbol of Object.getOwnPropertySymbols(session)) {
    if (symbol.description === 'kPendingRequestCalls') {
      Object.defineProperty(connecting, symbol, { value: null, writable: true });
    }
  }
  const stream = make(connecting);
  const own = stream as unknown as Loose;
  for (const symbol of Object.getOwnPropertySymbols(stream)) {
    if (own[symbol] === connecting) {
      own[symbol] = session;
    }
  }
  return {
    stream,
    proceed() {
      if (connected === null) {
        return;
      }
      if (session.connecting) {
        session.once('connect', connected);
      } else {
        connected();
      }
    },
  };
}
