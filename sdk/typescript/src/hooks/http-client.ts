/**
 * Node's HTTP client: http.request, http.get and their https kin, with agents and kept connections, and so everything built
 * on them (axios, node-fetch, got, superagent).
 *
 * A call is decided about when the request is made; the envelope goes into the headers when they leave, so that what the
 * application set until then is known. A call that a fault keeps from being made gets a socket that leads nowhere.
 */

import type { Agent, ClientRequest, RequestOptions } from 'node:http';
import { STATUS_CODES } from 'node:http';
import { urlToHttpOptions } from 'node:url';
import { current, outside } from '../scope/context';
import type { Call, Scope } from '../scope/scope';
import { wait, waitMs } from '../scope/wait';
import { ACCEPT_TAIL } from '../wire/envelope';
import { rawHttpName } from '../wire/names';
import { HttpCall } from './http-call';
import { leavesAtOnce, setEnvelope, withEnvelope } from './http-envelope';
import { Address, systemError } from './http-errors';
import type { Fn, Loose, Patch } from './patch';
import { emptyReply, StandIn } from './stand-in';

export function hookHttpClient(patch: Patch, module: Loose, port: number): void {
  let ours: Fn;
  patch.wrap(module, 'request', (request) => {
    ours = (...args) => traced(request, module, port, args);
    return ours;
  });
  // Node's own calls what it has inside
  patch.wrap(module, 'get', () => (...args) => {
    const request = ours(...args) as ClientRequest;
    request.end();
    return request;
  });
}

function traced(make: Fn, module: Loose, port: number, args: unknown[]): ClientRequest {
  const scope = current();
  if (scope === undefined) {
    return keepOutside(make(...args));
  }
  let prepared: Prepared | null = null;
  try {
    prepared = prepare(scope, module, port, args);
  } catch {
    // what Node would refuse it shall refuse itself
  }
  return prepared === null ? make(...args) : send(make, prepared);
}

/** Kept connections outlive the request that opened them; what they report to others must not run in its scope. */
function keepOutside(request: ClientRequest): ClientRequest {
  const loose = request as unknown as Loose;
  const emit = loose['emit'] as Fn;
  loose['emit'] = (...args: unknown[]) => outside(() => emit.apply(request, args));
  return request;
}

interface Prepared {
  scope: Scope;
  call: Call;
  options: RequestOptions;
  callback: unknown;
  /** Null: the application makes its connections itself. */
  agent: Agent | null;
  address: Address;
}

function prepare(scope: Scope, module: Loose, port: number, args: unknown[]): Prepared | null {
  const first = args[0];
  const url = typeof first === 'string' ? new URL(first) : first instanceof URL ? first : null;
  const rest = url === null ? args : args.slice(1);
  const given = typeof rest[0] === 'function' ? {} : ((rest[0] ?? {}) as RequestOptions);
  const callback = rest.find((one) => typeof one === 'function');
  const options: RequestOptions = url === null ? { ...given } : { ...urlToHttpOptions(url), ...given };
  const method = (options.method ?? 'GET').toUpperCase();
  if (method === 'CONNECT') {
    return null;
  }
  const address = {
    host: String(options.hostname ?? options.host ?? 'localhost'),
    port: Number(options.port ?? options.defaultPort ?? (options.agent as Loose | undefined)?.['defaultPort'] ?? port),
  };
  let path = options.path ?? '/';
  let authority = address.host.includes(':') && !address.host.startsWith('[') ? `[${address.host}]:${address.port}` : `${address.host}:${address.port}`;
  const behindProxy = /^https?:\/\//i.test(path) ? new URL(path) : null;
  if (behindProxy !== null) {
    path = behindProxy.pathname;
    authority = behindProxy.port === '' ? `${behindProxy.hostname}:80` : behindProxy.host;
  }
  const accept = scope.envelope.history && method !== 'HEAD' ? ACCEPT_TAIL : 0;
  const call = scope.send(true, scope.process.peer(authority), rawHttpName(method, path), accept, 0);
  if (call === null) {
    return null;
  }
  return { scope, call, options, callback, agent: agentOf(options, module), address };
}

function agentOf(options: RequestOptions, module: Loose): Agent | null {
  const standard = ((options as Loose)['_defaultAgent'] ?? module['globalAgent']) as Agent;
  if (options.agent === false) {
    return new (standard.constructor as new () => Agent)();
  }
  const given = options.agent as Agent | null | undefined;
  return given ?? (typeof options.createConnection === 'function' ? null : standard);
}

function send(make: Fn, { scope, call, options, callback, agent, address }: Prepared): ClientRequest {
  const kind = call.fault?.kind;
  let connect: ((request: ClientRequest, go: () => void) => void) | null = null;
  if (kind === 'delay') {
    connect = (request, go) => delay(scope, call, options, request, go);
  } else if (kind === 'unavailable' || kind === 'status' || kind === 'deadline' || kind === 'reset' || kind === 'hang') {
    connect = (request) => stand(scope, call, address, request);
  }
  const early = leavesAtOnce(options.headers);
  if (early) {
    const list = withEnvelope(scope, call, options.headers);
    options.headers = (Array.isArray(options.headers) ? list.flat() : Object.fromEntries(list)) as RequestOptions['headers'];
  }
  if (connect === null) {
    options.agent = agent ?? undefined;
  } else {
    options.agent = through(agent, options, connect);
  }
  const request = make(options, callback) as ClientRequest;
  if (connect !== null && agent !== null) {
    (request as unknown as Loose)['agent'] = agent;
  }
  new HttpCall(scope, call, request);
  if (!early) {
    const loose = request as unknown as Loose;
    const implicit = loose['_implicitHeader'] as Fn;
    loose['_implicitHeader'] = () => {
      try {
        setEnvelope(scope, call, request);
      } catch {
        // it goes out without one
      }
      implicit.call(request);
    };
  }
  return request;
}

/** An agent that makes the connection in our way, and else is the one it stands for. */
function through(agent: Agent | null, options: RequestOptions, connect: (request: ClientRequest, go: () => void) => void): Agent {
  const inner = (agent ?? ownConnections(options)) as unknown as Loose;
  const outer = Object.create(inner) as Loose;
  outer['addRequest'] = (request: ClientRequest, ...rest: unknown[]) => connect(request, () => inner['addRequest'](request, ...rest));
  return outer as unknown as Agent;
}

/** What Node does for an application that makes its connections itself. */
function ownConnections(options: RequestOptions): object {
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
      const socket: unknown = options.createConnection!(all as Parameters<NonNullable<RequestOptions['createConnection']>>[0], done as never);
      if (socket !== undefined) {
        done(null, socket);
      }
    },
  };
}

/** Waits before the connection is asked for; the request's own timeout comes first if it is shorter. */
function delay(scope: Scope, call: Call, options: RequestOptions, request: ClientRequest, go: () => void): void {
  const loose = request as unknown as Loose;
  const destroy = loose['destroy'] as Fn;
  let waiting = true;
  const over = (): void => {
    waiting = false;
    stop();
    unwatch();
  };
  const unwatch = watchTimeout(request, options, waitMs(call.fault!));
  const stop = wait(scope.process.receiver, call.fault!, () => {
    if (waiting) {
      over();
      go();
    }
  });
  loose['destroy'] = (error?: unknown) => {
    const result: unknown = destroy.call(request, error);
    if (waiting) {
      over();
      // Node ends a request only when it has a socket
      request.onSocket(new StandIn());
    }
    return result;
  };
}

/** Lets a request hear of its timeout while it has no socket that could tell; returns what ends that. */
function watchTimeout(request: ClientRequest, options: RequestOptions, within: number): () => void {
  let timer: NodeJS.Timeout | undefined;
  const watch = (ms: unknown): void => {
    clearTimeout(timer);
    if (typeof ms === 'number' && ms > 0 && ms < within) {
      timer = setTimeout(() => request.emit('timeout'), ms);
    }
  };
  const loose = request as unknown as Loose;
  const setTimeoutOf = loose['setTimeout'] as Fn;
  loose['setTimeout'] = (ms: unknown, callback: unknown) => {
    watch(ms);
    return setTimeoutOf.call(request, ms, callback);
  };
  watch(options.timeout);
  return () => {
    clearTimeout(timer);
    delete loose['setTimeout'];
  };
}

/** Plays a call that is not made. */
function stand(scope: Scope, call: Call, address: Address, request: ClientRequest): void {
  const socket = new StandIn();
  const fault = call.fault!;
  request.onSocket(socket);
  const broken = (error: Error): void => {
    socket.destroy(error);
  };
  const timeOut = (): void => {
    // what a program that waits for it does is end the request
    request.emit('timeout');
    setImmediate(() => broken(systemError('connect', 'ETIMEDOUT', address)));
  };
  switch (fault.kind) {
    case 'unavailable':
      setImmediate(broken, systemError('connect', 'ECONNREFUSED', address));
      break;
    case 'reset':
      setImmediate(broken, systemError('read', 'ECONNRESET'));
      break;
    case 'deadline':
      setImmediate(timeOut);
      break;
    case 'status': {
      const status = Number(fault.arg) >= 200 && Number(fault.arg) <= 999 ? Number(fault.arg) : 500;
      request.once('finish', () => socket.push(emptyReply(status, STATUS_CODES[status] ?? '')));
      break;
    }
    default: {
      const stop = wait(scope.process.receiver, fault, timeOut);
      request.once('close', stop);
    }
  }
}
