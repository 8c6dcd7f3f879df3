/** The scope of the running code: it follows callbacks, promises and timers by AsyncLocalStorage. */

import { AsyncLocalStorage } from 'node:async_hooks';
import { VERSION } from '../version';
import type { Scope } from './scope';

// a second copy of the SDK, inlined in a bundle or installed beside this one, shares it
const SHARED = Symbol.for(`faultloom.scope.${VERSION}`);
const shared = globalThis as unknown as Record<symbol, AsyncLocalStorage<Scope | undefined> | undefined>;
const storage = (shared[SHARED] ??= new AsyncLocalStorage<Scope | undefined>());

/** The scope to send in, or undefined: outside any, or in one that has answered already. */
export function current(): Scope | undefined {
  const scope = storage.getStore();
  return scope === undefined || scope.over ? undefined : scope;
}

/** Runs a function, and all that it sets going, within a scope (undefined: outside any). */
export function within<A extends unknown[], T>(scope: Scope | undefined, run: (...args: A) => T, ...args: A): T {
  return storage.run(scope, run, ...args);
}

/** Runs a function outside any scope: what it sets going belongs to nobody's request. */
export function outside<T>(run: () => T): T {
  return storage.run(undefined, run);
}

/** Does the code that runs now run within this scope (undefined: outside any)? Then there is no need to change over. */
export function isIn(scope: Scope | undefined): boolean {
  return storage.getStore() === scope;
}
