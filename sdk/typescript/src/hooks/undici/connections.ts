/**
 * Measures how long undici's connections take, by its diagnostics channels. A connection belongs to a client, whose
 * requests wait for it: the first request on it has spent the time, as far as it was waiting.
 */

import { channel } from 'node:diagnostics_channel';
import type { Address } from '../http/errors';
import { microseconds } from '../http/connect-timer';
import type { Loose } from '../patch';

/** Times of `performance.now()`. */
interface Attempt {
  startMs: number;
  endMs: number;
}

/** A request that is about to be sent on a connection. */
export interface StartingRequest {
  /** What its headers contain, and those of no other request. */
  mark(): string;
  sentMs: number;
  connected(us: number): void;
}

const MAX_ADDRESSES = 1000;
const MAX_ATTEMPTS = 100;

/** When the attempts began that have not ended, by host and port. One whose client is destroyed never ends. */
const attempts = new Map<string, number[]>();
/** The connections that no request has used, and the errors of those that failed. */
const ended = new WeakMap<object, Attempt>();
let starting: StartingRequest | null = null;

function keyOf({ host, port }: Address): string {
  return `${host}:${port}`;
}

function addressOf(message: unknown): Address {
  const { hostname, port, protocol } = (message as Loose)['connectParams'] as Loose;
  return { host: String(hostname), port: Number(port) || (protocol === 'https:' ? 443 : 80) };
}

function attemptBegan(message: unknown): void {
  const key = keyOf(addressOf(message));
  const begun = attempts.get(key) ?? [];
  if (begun.length < MAX_ATTEMPTS && (begun.length > 0 || attempts.size < MAX_ADDRESSES)) {
    begun.push(performance.now());
    attempts.set(key, begun);
  }
}

function attemptEnded(message: unknown, result: unknown): void {
  const key = keyOf(addressOf(message));
  const begun = attempts.get(key);
  const startMs = begun?.pop();
  if (begun?.length === 0) {
    attempts.delete(key);
  }
  if (startMs !== undefined && typeof result === 'object' && result !== null) {
    ended.set(result, { startMs, endMs: performance.now() });
  }
}

function headersSent(message: unknown): void {
  const { socket, headers } = message as { socket: object; headers: unknown };
  const attempt = ended.get(socket);
  if (attempt === undefined) {
    return;
  }
  ended.delete(socket);
  if (starting !== null && String(headers).includes(starting.mark())) {
    starting.connected(waited(attempt, starting.sentMs));
  }
}

function waited({ startMs, endMs }: Attempt, sentMs: number): number {
  return microseconds(Math.max(startMs, sentMs), endMs);
}

let isMeasuring = false;

/** Measures connections from now on. */
export function measureConnections(): void {
  if (isMeasuring) {
    return;
  }
  isMeasuring = true;
  const subscribe = (name: string, receive: (message: unknown) => void): void =>
    channel(`undici:client:${name}`).subscribe((message) => {
      try {
        receive(message);
      } catch {
        // another version's message
      }
    });
  subscribe('beforeConnect', attemptBegan);
  subscribe('connected', (message) => attemptEnded(message, (message as Loose)['socket']));
  subscribe('connectError', (message) => attemptEnded(message, (message as Loose)['error']));
  subscribe('sendHeaders', headersSent);
}

/** undici has a connection for this request and sends its headers at once. */
export function requestStarts(request: StartingRequest): void {
  starting = request;
}

/** How long a request has waited for a connection that failed with this error, in µs; 0: none failed with it. */
export function timeUntilFailure(error: Error, sentMs: number): number {
  const attempt = ended.get(error);
  return attempt === undefined ? 0 : waited(attempt, sentMs);
}

/** How long a request has waited until now for a connection to this address, in µs; 0: there is no attempt. */
export function timeUntilNow(address: Address, sentMs: number): number {
  const startMs = attempts.get(keyOf(address))?.[0];
  return startMs === undefined ? 0 : waited({ startMs, endMs: performance.now() }, sentMs);
}
