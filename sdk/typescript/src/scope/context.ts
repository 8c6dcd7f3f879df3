/** The scope of the running code. It follows callbacks, promises and timers by AsyncLocalStorage. */

import { AsyncLocalStorage } from 'node:async_hooks';
import { VERSION } from '../version';
import type { Scope } from './scope';

// shared with further copies of the SDK of this version, in a bundle or in another node_modules folder
const STORAGE = Symbol.for(`faultloom.scope.${VERSION}`);
const shared = globalThis as unknown as Record<symbol, AsyncLocalStorage<Scope | undefined> | undefined>;
const storage = (shared[STORAGE] ??= new AsyncLocalStorage<Scope | undefined>());

/** The scope for outgoing calls; undefined if there is none or it has finished. */
export function currentScope(): Scope | undefined {
  const scope = storage.getStore();
  return scope === undefined || scope.finished ? undefined : scope;
}

/** Runs a function, and everything it starts, in a scope (undefined: in none). */
export function withScope<A extends unknown[], T>(scope: Scope | undefined, run: (...args: A) => T, ...args: A): T {
  return storage.run(scope, run, ...args);
}

/** Runs a function, and everything it starts, in no scope. */
export function withoutScope<T>(run: () => T): T {
  return storage.run(undefined, run);
}

/** Whether the running code is in this scope already (undefined: in none), so that no switch is needed. */
export function isCurrentScope(scope: Scope | undefined): boolean {
  return storage.getStore() === scope;
}
