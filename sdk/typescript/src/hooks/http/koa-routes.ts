/**
 * The route of @koa/router or koa-router that serves a request of Koa. The router puts the layers that match the path
 * into the context; a router that koa-mount mounts sees only the rest of the path.
 */

import { anyOpenScope } from '../../scope/unscoped';
import type { Loose, Patch } from '../patch';
import { normalizedSegment, routeTemplate } from './route-template';

/** Koa's contexts by Node's requests. */
const contexts = new WeakMap<object, Loose>();

/** Hooks a copy of Koa 2 or 3. */
export function hookKoa(patch: Patch, koa: Loose): void {
  patch.wrap(
    koa['prototype'] as Loose,
    'createContext',
    (createContext) =>
      function (this: unknown, request: object, response: unknown) {
        const context = createContext.call(this, request, response) as Loose;
        if (anyOpenScope()) {
          contexts.set(request, context);
        }
        return context;
      },
  );
}

/** The template of a request's route; undefined if no route serves it. */
export function koaRoute(request: object): string | undefined {
  const context = contexts.get(request);
  const matched: unknown = context?.['matched'];
  if (context === undefined || !Array.isArray(matched)) {
    return undefined;
  }
  const method: unknown = context['method'];
  // without methods: middleware
  const routes = (matched as Loose[]).filter((layer) => (layer['methods'] as unknown[]).includes(method));
  // the route that was entered last, if several match
  const route = routes.find((layer) => layer['path'] === context['routerPath']) ?? routes.at(-1);
  const path: unknown = route?.['path'];
  return typeof path === 'string' ? mountPrefix(context, route!) + routeTemplate(path) : undefined;
}

/** What precedes the part of the path that the route matches. */
function mountPrefix(context: Loose, route: Loose): string {
  const parts = String(context['originalUrl']).split(/[?#]/, 1)[0]!.split('/');
  for (let mounted = 1; mounted <= parts.length; mounted++) {
    if (route['match'](['', ...parts.slice(mounted)].join('/')) === true) {
      return parts.slice(0, mounted).map(normalizedSegment).join('/');
    }
  }
  return '';
}
