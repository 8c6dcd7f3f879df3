/**
 * Calls of this process that belonged to no request while a scope was open: the latest ones, and their number. Each
 * scope records those that were sent during its life.
 */

import * as path from 'node:path';
import { VERSION } from '../version';
import { normalizeHttpName, rawHttpName } from '../wire/names';

/** A call without a scope. Equal ones are counted together. */
export interface UnscopedCall {
  readonly http: boolean;
  readonly peer: string;
  /** The gRPC method, or "METHOD /path", normalized. */
  readonly name: string;
  /** Where the program made the call, or empty. */
  readonly site: string;
}

interface SentCall {
  readonly http: boolean;
  readonly authority: string;
  /** Not normalized. */
  readonly name: string;
  readonly site: string;
}

/** Of more calls than this only the number is known. */
const MAX_LATEST = 64;
const MAX_FRAMES = 50;

interface State {
  openScopes: number;
  count: number;
  /** The call with number n, from 0, is at n modulo MAX_LATEST. */
  latest: SentCall[];
}

// shared with further copies of the SDK of this version, as the current scope is
const STATE = Symbol.for(`faultloom.unscoped.${VERSION}`);
const shared = globalThis as unknown as Record<symbol, State | undefined>;
const state = (shared[STATE] ??= { openScopes: 0, count: 0, latest: [] });

/** A scope was opened. Returns the number of all unscoped calls before it. */
export function scopeOpened(): number {
  state.openScopes++;
  return state.count;
}

export function scopeClosed(): void {
  state.openScopes--;
}

export function anyOpenScope(): boolean {
  return state.openScopes > 0;
}

/** Counts a gRPC call. */
export function addUnscopedGrpc(authority: string, name: string): void {
  add({ http: false, authority, name, site: callSite() });
}

/** Counts an HTTP request. */
export function addUnscopedHttp(authority: string, method: string, target: string): void {
  add({ http: true, authority, name: rawHttpName(method, target), site: callSite() });
}

function add(call: SentCall): void {
  state.latest[state.count % MAX_LATEST] = call;
  state.count++;
}

/** The calls after the first `before`, and the number of those of which nothing else is known. */
export function unscopedSince(
  before: number,
  peerName: (authority: string) => string,
): { calls: UnscopedCall[]; more: number } {
  const calls: UnscopedCall[] = [];
  const from = Math.max(before, state.count - MAX_LATEST);
  for (let n = from; n < state.count; n++) {
    const { http, authority, name, site } = state.latest[n % MAX_LATEST]!;
    calls.push({ http, peer: peerName(authority), name: http ? normalizeHttpName(name) : name, site });
  }
  return { calls, more: from - before };
}

/** The folder of the SDK's modules; null if they are in a bundle. */
const SDK = path.basename(__dirname) === 'scope' ? path.dirname(__dirname) + path.sep : null;

/** The application's innermost line, as "file.js:31". Empty if only libraries are on the stack, or in a bundle. */
function callSite(): string {
  if (SDK === null) {
    return '';
  }
  const { prepareStackTrace, stackTraceLimit } = Error;
  try {
    Error.stackTraceLimit = MAX_FRAMES;
    Error.prepareStackTrace = (_error, frames) => frames;
    const frames = new Error().stack as unknown as NodeJS.CallSite[];
    const frame = frames.find((one) => isApplication(one.getFileName() ?? ''));
    return frame === undefined ? '' : `${path.basename(frame.getFileName()!)}:${frame.getLineNumber()}`;
  } catch {
    return ''; // frozen by the application
  } finally {
    Error.stackTraceLimit = stackTraceLimit;
    Error.prepareStackTrace = prepareStackTrace;
  }
}

function isApplication(file: string): boolean {
  const isFile = path.isAbsolute(file) || file.startsWith('file://');
  return isFile && !file.startsWith(SDK!) && !/[\\/]node_modules[\\/]/.test(file);
}
