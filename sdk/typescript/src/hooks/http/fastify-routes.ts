/** The route of Fastify that serves a request. Fastify announces new instances on a diagnostics channel since 3.27. */

import { subscribe } from 'node:diagnostics_channel';
import type { Loose } from '../patch';
import { routeTemplate } from './route-template';

/** Fastify's request objects by Node's. */
const requests = new WeakMap<object, Loose>();

export function watchFastify(): void {
  subscribe('fastify.initialization', (message) => {
    try {
      (message as Loose)['fastify'].addHook('onRequest', (request: Loose, _reply: unknown, done: () => void) => {
        requests.set(request['raw'], request);
        done();
      });
    } catch {
      // an instance without hooks; its requests are named by their paths
    }
  });
}

/** The template of a request's route; undefined if no route serves it. */
export function fastifyRoute(request: object): string | undefined {
  const fastify = requests.get(request);
  if (fastify === undefined || fastify['is404'] === true) {
    return undefined;
  }
  const path: unknown = fastify['routeOptions']?.url ?? fastify['routerPath'];
  return typeof path === 'string' ? routeTemplate(path) : undefined;
}
