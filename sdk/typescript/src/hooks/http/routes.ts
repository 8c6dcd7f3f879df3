/**
 * The callee's name for a request: the route template of its framework (`GET /cart/{user}`), else the normalized path.
 */

import { subscribe } from 'node:diagnostics_channel';
import type { IncomingMessage } from 'node:http';
import { normalizeHttpName, rawHttpName } from '../../wire/names';
import type { Loose } from '../patch';

/** Fastify's request objects by Node's. */
const fastifyRequests = new WeakMap<object, Loose>();

/** Tracks Fastify's requests. Fastify announces new instances on a diagnostics channel since 3.27. */
export function watchFastify(): void {
  subscribe('fastify.initialization', (message) => {
    try {
      (message as Loose)['fastify'].addHook('onRequest', (request: Loose, _reply: unknown, done: () => void) => {
        fastifyRequests.set(request['raw'], request);
        done();
      });
    } catch {
      // an instance without hooks; its requests are named by their paths
    }
  });
}

export function routeName(request: IncomingMessage): string {
  const method = request.method ?? 'GET';
  try {
    const path = expressRoute(request as unknown as Loose) ?? fastifyRoute(request);
    if (path !== undefined) {
      return `${method} ${template(path)}`;
    }
  } catch {
    // getters of the framework may throw
  }
  // Express removes the part that a router has matched from `url`
  const target = (request as unknown as Loose)['originalUrl'] ?? request.url ?? '/';
  return normalizeHttpName(rawHttpName(method, String(target)));
}

function expressRoute(request: Loose): string | undefined {
  const path: unknown = request['route']?.path;
  if (typeof path !== 'string' || typeof request['baseUrl'] !== 'string') {
    return undefined;
  }
  // the template of a router's own parameters is not known, only their values
  const base = request['baseUrl'] === '' ? '' : normalizeHttpName(`X ${request['baseUrl']}`).slice(2);
  return base !== '' && path === '/' ? base : base + path;
}

function fastifyRoute(request: object): string | undefined {
  const fastify = fastifyRequests.get(request);
  const path: unknown = fastify?.['routeOptions']?.url ?? fastify?.['routerPath'];
  return typeof path === 'string' ? path : undefined;
}

/** `/cart/:user` → `/cart/{user}` */
function template(path: string): string {
  return path.replace(/:(\w+)(?:\([^)]*\))?[?*+]?/g, '{$1}');
}
