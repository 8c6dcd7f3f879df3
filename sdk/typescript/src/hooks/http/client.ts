/**
 * Node's HTTP client: http.request, http.get and their https equivalents, with agents and kept connections, and thus
 * everything built on them (axios, node-fetch, got, superagent).
 *
 * A call begins when the request is created. The envelope is added when the headers are sent, after all changes by the
 * application. A call that a fault prevents from being sent gets a socket without a connection.
 */

import type { Agent, ClientRequest, RequestOptions } from 'node:http';
import { STATUS_CODES } from 'node:http';
import { urlToHttpOptions } from 'node:url';
import { currentScope, isUnscoped, untracedRequest, withScope } from '../../scope/context';
import { waitForFault } from '../../scope/fault-wait';
import type { OutgoingCall, Scope } from '../../scope/scope';
import { addUnscopedHttp } from '../../scope/unscoped';
import { ACCEPT_TAIL } from '../../wire/envelope';
import { rawHttpName } from '../../wire/names';
import { FaultEffect, faultEffect } from '../faults';
import type { Fn, Loose, Patch } from '../patch';
import { HttpCall } from './call';
import { Address, systemError } from './errors';
import { sendsHeadersAtOnce, setEnvelope, withEnvelope } from './request-headers';
import { emptyReply, UnconnectedSocket } from './unconnected-socket';

export function hookHttpClient(patch: Patch, module: Loose, port: number): void {
  let tracedRequest: Fn;
  patch.wrap(module, 'request', (request) => {
    tracedRequest = (...args) => traced(request, module, port, args);
    return tracedRequest;
  });
  // Node's own `get` would call the original `request`
  patch.wrap(module, 'get', () => (...args) => {
    const request = tracedRequest(...args) as ClientRequest;
    request.end();
    return request;
  });
}

function traced(make: Fn, module: Loose, port: number, args: unknown[]): ClientRequest {
  const scope = currentScope();
  if (scope === undefined) {
    if (isUnscoped()) {
      countUnscoped(port, args);
    }
    return detachEvents(make(...args));
  }
  let prepared: Prepared | null = null;
  try {
    prepared = prepare(scope, module, port, args);
  } catch {
    // arguments that Node itself rejects
  }
  return prepared === null ? make(...args) : send(make, prepared);
}

/** Counts a request that belongs to no scope. */
function countUnscoped(port: number, args: unknown[]): void {
  try {
    const target = describe(port, args);
    if (target.method !== 'CONNECT') {
      addUnscopedHttp(target.authority, target.method, target.path);
    }
  } catch {
    // arguments that Node itself rejects
  }
}

/** Emits events in no scope: a kept connection may have been opened in the scope of another request. */
export function detachEvents<T extends object>(request: T): T {
  const untraced = untracedRequest();
  const loose = request as unknown as Loose;
  const emit = loose['emit'] as Fn;
  loose['emit'] = (...args: unknown[]) => withScope(untraced, () => emit.apply(request, args));
  return request;
}

interface Prepared {
  scope: Scope;
  call: OutgoingCall;
  options: RequestOptions;
  callback: unknown;
  /** Null: the application creates its connections itself. */
  agent: Agent | null;
  address: Address;
}

/** What the arguments of a request mean. */
interface Target {
  options: RequestOptions;
  callback: unknown;
  method: string;
  path: string;
  address: Address;
  /** "host:port" of the callee, which a proxy may be in front of. */
  authority: string;
}

function describe(port: number, args: unknown[]): Target {
  const first = args[0];
  const url = typeof first === 'string' ? new URL(first) : first instanceof URL ? first : null;
  const rest = url === null ? args : args.slice(1);
  const explicit = typeof rest[0] === 'function' ? {} : ((rest[0] ?? {}) as RequestOptions);
  const callback = rest.find((one) => typeof one === 'function');
  const options: RequestOptions = url === null ? { ...explicit } : { ...urlToHttpOptions(url), ...explicit };
  const method = (options.method ?? 'GET').toUpperCase();
  const address = {
    host: String(options.hostname ?? options.host ?? 'localhost'),
    port: Number(options.port ?? options.defaultPort ?? (options.agent as Loose | undefined)?.['defaultPort'] ?? port),
  };
  let path = options.path ?? '/';
  const isIpv6 = address.host.includes(':') && !address.host.startsWith('[');
  let authority = isIpv6 ? `[${address.host}]:${address.port}` : `${address.host}:${address.port}`;
  const proxied = /^https?:\/\//i.test(path) ? new URL(path) : null;
  if (proxied !== null) {
    path = proxied.pathname;
    authority = proxied.port === '' ? `${proxied.hostname}:80` : proxied.host;
  }
  return { options, callback, method, path, address, authority };
}

function prepare(scope: Scope, module: Loose, port: number, args: unknown[]): Prepared | null {
  const { options, callback, method, path, address, authority } = describe(port, args);
  if (method === 'CONNECT') {
    return null;
  }
  const accept = scope.envelope.history && method !== 'HEAD' ? ACCEPT_TAIL : 0;
  const call = scope.beginCall(true, scope.service.peerName(authority), rawHttpName(method, path), accept, 0);
  if (call === null) {
    return null;
  }
  return { scope, call, options, callback, agent: agentOf(options, module), address };
}

function agentOf(options: RequestOptions, module: Loose): Agent | null {
  const defaultAgent = ((options as Loose)['_defaultAgent'] ?? module['globalAgent']) as Agent;
  if (options.agent === false) {
    return new (defaultAgent.constructor as new () => Agent)();
  }
  const chosen = options.agent as Agent | null | undefined;
  return chosen ?? (typeof options.createConnection === 'function' ? null : defaultAgent);
}

function send(make: Fn, { scope, call, options, callback, agent, address }: Prepared): ClientRequest {
  const effect = faultEffect('http', call.fault, null);
  let connect: Connect | null = null;
  if (!effect.sends) {
    connect = (request) => simulate(scope, effect, address, request);
  } else if (effect.waitMs > 0) {
    connect = (request, proceed) => delay(scope, effect.waitMs, request, proceed);
  }
  const atOnce = sendsHeadersAtOnce(options.headers);
  if (atOnce) {
    const list = withEnvelope(scope, call, options.headers);
    options.headers = (
      Array.isArray(options.headers) ? list.flat() : Object.fromEntries(list)
    ) as RequestOptions['headers'];
  }
  if (connect === null) {
    options.agent = agent ?? undefined;
  } else {
    options.agent = replaceConnect(agent, options, connect);
  }
  const request = make(options, callback) as ClientRequest;
  if (connect !== null && agent !== null) {
    (request as unknown as Loose)['agent'] = agent;
  }
  new HttpCall(scope, call, effect, request);
  if (!atOnce) {
    const loose = request as unknown as Loose;
    const implicitHeader = loose['_implicitHeader'] as Fn;
    loose['_implicitHeader'] = () => {
      try {
        setEnvelope(scope, call, request);
      } catch {
        // the request goes out without an envelope
      }
      implicitHeader.call(request);
    };
  }
  return request;
}

/** Connects a request; `proceed` does what its agent would do. */
type Connect = (request: ClientRequest, proceed: () => void) => void;

/** An agent that connects by `connect` and inherits everything else. */
function replaceConnect(agent: Agent | null, options: RequestOptions, connect: Connect): Agent {
  const inner = (agent ?? agentlessConnections(options)) as unknown as Loose;
  const outer = Object.create(inner) as Loose;
  outer['addRequest'] = (request: ClientRequest, ...rest: unknown[]) =>
    connect(request, () => inner['addRequest'](request, ...rest));
  return outer as unknown as Agent;
}

/** What Node does for an application that creates its connections itself. */
function agentlessConnections(options: RequestOptions): object {
  return {
    protocol: options.protocol,
    addRequest(request: ClientRequest, all: RequestOptions) {
      const done = (error: Error | null, socket?: unknown): void => {
        if (error) {
          request.destroy(error);
        } else {
          request.onSocket(socket as Parameters<ClientRequest['onSocket']>[0]);
        }
      };
      const socket: unknown = options.createConnection!(
        all as Parameters<NonNullable<RequestOptions['createConnection']>>[0],
        done as never,
      );
      if (socket !== undefined) {
        done(null, socket);
      }
    },
  };
}

/** Waits before the request is connected. A shorter timeout of the request itself ends the wait. */
function delay(scope: Scope, waitMs: number, request: ClientRequest, proceed: () => void): void {
  const loose = request as unknown as Loose;
  const destroy = loose['destroy'] as Fn;
  let isWaiting = true;
  const endWait = (): void => {
    isWaiting = false;
    cancelWait();
    stopTimeouts();
  };
  const stopTimeouts = emitTimeouts(request, waitMs);
  const cancelWait = waitForFault(scope.service.receiver, waitMs, () => {
    if (isWaiting) {
      endWait();
      proceed();
    }
  });
  loose['destroy'] = (error?: unknown) => {
    const result: unknown = destroy.call(request, error);
    if (isWaiting) {
      endWait();
      // Node ends a request only after it has a socket
      request.onSocket(new UnconnectedSocket());
    }
    return result;
  };
}

/** Emits the timeouts below `waitMs` of a request that has no socket yet. Returns a function that stops this. */
function emitTimeouts(request: ClientRequest, waitMs: number): () => void {
  let timer: NodeJS.Timeout | undefined;
  const setTimer = (ms: unknown): void => {
    clearTimeout(timer);
    if (typeof ms === 'number' && ms > 0 && ms < waitMs) {
      timer = setTimeout(() => request.emit('timeout'), ms);
    }
  };
  const loose = request as unknown as Loose;
  const requestSetTimeout = loose['setTimeout'] as Fn;
  loose['setTimeout'] = (ms: unknown, callback: unknown) => {
    setTimer(ms);
    return requestSetTimeout.call(request, ms, callback);
  };
  setTimer(timeoutOf(request));
  return () => {
    clearTimeout(timer);
    delete loose['setTimeout'];
  };
}

/** The timeout of a request, as its agent would set it on the socket; 0: none. */
function timeoutOf(request: ClientRequest): number {
  const loose = request as unknown as Loose;
  const timeout: unknown = loose['timeout'] ?? loose['agent']?.options?.timeout;
  return typeof timeout === 'number' ? timeout : 0;
}

/** Ends a call that is not sent, with the outcome of its fault. */
function simulate(scope: Scope, effect: FaultEffect, address: Address, request: ClientRequest): void {
  const socket = new UnconnectedSocket();
  socket.setTimeout(timeoutOf(request));
  request.onSocket(socket);
  const end = (): void => {
    switch (effect.outcome) {
      case 'refused':
        socket.destroy(systemError('connect', 'ECONNREFUSED', address));
        break;
      case 'reset':
        socket.destroy(systemError('read', 'ECONNRESET'));
        break;
      default:
        // an application that listens for a timeout ends the request itself
        request.emit('timeout');
        setImmediate(() => socket.destroy(systemError('connect', 'ETIMEDOUT', address)));
    }
  };
  if (effect.outcome === 'status') {
    request.once('finish', () => socket.push(emptyReply(effect.status, STATUS_CODES[effect.status] ?? '')));
  } else if (effect.waitMs > 0) {
    request.once('close', waitForFault(scope.service.receiver, effect.waitMs, end));
  } else {
    setImmediate(end);
  }
}
