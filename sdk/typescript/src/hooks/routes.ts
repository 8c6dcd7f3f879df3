/** What the callee calls a request: the route template of its framework (`GET /cart/{user}`), else the normalised path. */

import { subscribe } from 'node:diagnostics_channel';
import type { IncomingMessage } from 'node:http';
import { normalHttpName, rawHttpName } from '../wire/names';
import type { Loose } from './patch';

/** Fastify's requests by Node's. */
const fastifyRequests = new WeakMap<object, Loose>();

/** Learns which route serves a request of Fastify, which says so when an instance is made (since 3.27). */
export function watchFastify(): void {
  subscribe('fastify.initialization', (message) => {
    try {
      (message as Loose)['fastify'].addHook('onRequest', (request: Loose, _reply: unknown, done: () => void) => {
        fastifyRequests.set(request['raw'], request);
        done();
      });
    } catch {
      // an instance that takes no hooks: its requests go by their paths
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
    // getters of other people's objects
  }
  // Express cuts what a router has matched off `url`
  const target = (request as unknown as Loose)['originalUrl'] ?? request.url ?? '/';
  return normalHttpName(rawHttpName(method, String(target)));
}

function expressRoute(request: Loose): string | undefined {
  const path: unknown = request['route']?.path;
  if (typeof path !== 'string' || typeof request['baseUrl'] !== 'string') {
    return undefined;
  }
  // a router's own parameters are not told, only what they were
  const base = request['baseUrl'] === '' ? '' : normalHttpName(`X ${request['baseUrl']}`).slice(2);
  return base !== '' && path === '/' ? base : base + path;
}

function fastifyRoute(request: object): string | undefined {
  const seen = fastifyRequests.get(request);
  const path: unknown = seen?.['routeOptions']?.url ?? seen?.['routerPath'];
  return typeof path === 'string' ? path : undefined;
}

/** `/cart/:user` → `/cart/{user}` */
function template(path: string): string {
  return path.replace(/:(\w+)(?:\([^)]*\))?[?*+]?/g, '{$1}');
}
