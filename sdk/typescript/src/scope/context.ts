/** What the running code works for. It follows callbacks, promises and timers by AsyncLocalStorage. */

import { AsyncLocalStorage } from 'node:async_hooks';
import { VERSION } from '../version';
import type { Scope } from './scope';
import { anyOpenScope } from './unscoped';

/** A request that is not traced, until it is answered. Its calls belong to it, so no scope counts them. */
export interface UntracedRequest {
  readonly isUntraced: true;
  finished: boolean;
}

type Context = Scope | UntracedRequest;

// shared with further copies of the SDK of this version, in a bundle or in another node_modules folder
const STORAGE = Symbol.for(`faultloom.scope.${VERSION}`);
const shared = globalThis as unknown as Record<symbol, AsyncLocalStorage<Context | undefined> | undefined>;
const storage = (shared[STORAGE] ??= new AsyncLocalStorage<Context | undefined>());

/** The scope for outgoing calls; undefined if there is none or it has finished. */
export function currentScope(): Scope | undefined {
  const context = storage.getStore();
  return context === undefined || context.finished || 'isUntraced' in context ? undefined : context;
}

/** Whether the running code belongs to no request, traced or not, while a scope is open. */
export function isUnscoped(): boolean {
  return anyOpenScope() && (storage.getStore()?.finished ?? true);
}

/** The request for which the running code works, if that is not traced. */
export function untracedRequest(): UntracedRequest | undefined {
  const context = storage.getStore();
  return context !== undefined && !context.finished && 'isUntraced' in context ? context : undefined;
}

/** Runs a function, and everything it starts, in a scope (undefined: in none) or for an untraced request. */
export function withScope<A extends unknown[], T>(scope: Context | undefined, run: (...args: A) => T, ...args: A): T {
  return storage.run(scope, run, ...args);
}

/** Runs a function, and everything it starts, in no scope. */
export function withoutScope<T>(run: () => T): T {
  return storage.run(undefined, run);
}

/** Whether the running code is in this scope already (undefined: in none), so that no switch is needed. */
export function isCurrentScope(scope: Context | undefined): boolean {
  return storage.getStore() === scope;
}
