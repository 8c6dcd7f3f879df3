/**
 * The route of Express that serves a request. It is read when it is dispatched, because `baseUrl` is reset before an
 * error handler of the application replies. Express has only the values of the routers' own parameters in `baseUrl`;
 * their templates are noted when the routers are mounted.
 */

import { anyOpenScope } from '../../scope/unscoped';
import type { Fn, Loose, Patch } from '../patch';
import { hasFixedSegments, normalizedSegment, routeTemplate } from './route-template';

/** What a router or a middleware is mounted at. */
interface Mount {
  /** The value of `baseUrl` in it. */
  readonly url: string;
  /** Its template, without that of the routers around it. */
  readonly segments: readonly string[];
}

/** Templates of layers that are mounted at a path, by layer. */
const templates = new WeakMap<object, readonly string[]>();
/** The prototypes of layers that are hooked: one for each copy of Express. */
const hookedLayers = new WeakSet<object>();
/** The mounts that a request has entered, in order. */
const entered = new WeakMap<object, Mount[]>();
/** The template of the route that was dispatched last; null if it passed the request on. */
const dispatched = new WeakMap<object, string | null>();

/** Hooks a copy of Express 4 or 5. */
export function hookExpress(patch: Patch, express: Loose): void {
  const factory = express['Router'] as Loose;
  patch.wrap(
    typeof factory['use'] === 'function' ? factory : (factory['prototype'] as Loose),
    'use',
    (use) =>
      function (this: Loose, ...args: unknown[]) {
        const result: unknown = use.apply(this, args);
        try {
          noteMounts(patch, this['stack'] as Loose[], args);
        } catch {
          // an unknown version; the values in the path are recorded
        }
        return result;
      },
  );
  patch.wrap(
    express['Route'].prototype as Loose,
    'dispatch',
    (dispatch) =>
      function (this: Loose, request: Loose, response: unknown, done: Fn) {
        if (!anyOpenScope()) {
          return dispatch.call(this, request, response, done) as unknown;
        }
        dispatched.set(request, typeof this['path'] === 'string' ? fullTemplate(request, this['path']) : null);
        return dispatch.call(this, request, response, (error: unknown) => {
          if (!error || error === 'route' || error === 'router') {
            dispatched.set(request, null);
          }
          return done(error) as unknown;
        }) as unknown;
      },
  );
}

/** Notes the templates of the layers that `use` has added. */
function noteMounts(patch: Patch, stack: Loose[], [path, ...handlers]: unknown[]): void {
  if (typeof path !== 'string' || path === '/' || !hasFixedSegments(path)) {
    return;
  }
  const layers = stack.slice(stack.length - handlers.flat(Infinity).length);
  const segments = routeTemplate(path).replace(/\/$/, '').split('/').slice(1);
  for (const layer of layers) {
    const prototype = Object.getPrototypeOf(layer) as Loose;
    if (!hookedLayers.has(prototype)) {
      hookLayers(patch, prototype);
      hookedLayers.add(prototype);
    }
    templates.set(layer, segments);
  }
}

function hookLayers(patch: Patch, layer: Loose): void {
  patch.wrap(
    layer,
    typeof layer['handle_request'] === 'function' ? 'handle_request' : 'handleRequest',
    (handle) =>
      function (this: Loose, request: Loose, ...rest: unknown[]) {
        const segments = templates.get(this);
        if (segments !== undefined && anyOpenScope()) {
          const mounts = entered.get(request) ?? [];
          mounts.push({ url: String(request['baseUrl']), segments });
          entered.set(request, mounts);
        }
        return handle.call(this, request, ...rest) as unknown;
      },
  );
}

/** The template of a request's route; undefined if no route serves it. */
export function expressRoute(request: Loose): string | undefined {
  const template = dispatched.get(request);
  if (template !== undefined) {
    return template ?? undefined;
  }
  // a copy that is not hooked, in a bundle or loaded before
  const path: unknown = request['route']?.path;
  return typeof path === 'string' && typeof request['baseUrl'] === 'string' ? fullTemplate(request, path) : undefined;
}

function fullTemplate(request: Loose, path: string): string {
  const base = baseTemplate(request);
  return base !== '' && path === '/' ? base : base + routeTemplate(path);
}

/** The templates of the routers around a route. */
function baseTemplate(request: Loose): string {
  const url = String(request['baseUrl']);
  const parts = url.split('/').map(normalizedSegment);
  for (const mount of entered.get(request) ?? []) {
    if (url === mount.url || url.startsWith(`${mount.url}/`)) {
      const end = mount.url.split('/').length;
      parts.splice(end - mount.segments.length, mount.segments.length, ...mount.segments);
    }
  }
  return parts.join('/');
}
