/**
 * The callee's name for a request: the route template of its framework (`GET /cart/{user}`), else the normalized path.
 */

import type { IncomingMessage } from 'node:http';
import { normalizeHttpName, rawHttpName } from '../../wire/names';
import type { Loose } from '../patch';
import { expressRoute } from './express-routes';
import { fastifyRoute } from './fastify-routes';
import { koaRoute } from './koa-routes';

/** A template that says nothing about the path: `/*`, or Nest's `/api{*path}` for requests without a route. */
const CATCH_ALL = /(?:^\/?|[^/])(?:\*|\{\*[^}]*\})$/;

export function routeName(request: IncomingMessage): string {
  const method = request.method ?? 'GET';
  const loose = request as unknown as Loose;
  try {
    const path = expressRoute(loose) ?? fastifyRoute(request) ?? koaRoute(request);
    if (path !== undefined && !CATCH_ALL.test(path)) {
      return `${method} ${path === '' ? '/' : path}`;
    }
  } catch {
    // getters of the framework may throw
  }
  // Express removes the part that a router has matched from `url`
  const target = loose['originalUrl'] ?? request.url ?? '/';
  return normalizeHttpName(rawHttpName(method, String(target)));
}
