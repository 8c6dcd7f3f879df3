/**
 * Hands finished histories to an OpenTelemetry collector: OTLP/HTTP JSON, once each, never at the expense of a reply. What
 * cannot be handed over is lost, counted, and said at most once a minute.
 */

import * as http from 'node:http';
import * as https from 'node:https';
import { complain } from '../complain';
import { outside } from '../scope/context';
import { readHistory } from '../wire/history';
import { ResourceSpans, resourceSpans } from '../wire/otlp';

const MAX_QUEUE = 256;
const MAX_BATCH = 64;
const LINGER_MS = 1000;
const REQUEST_MS = 5000;
const COMPLAIN_MS = 60_000;

// as they are before hooks and the application's tests change them
const send = { 'http:': http.request, 'https:': https.request };
const { setTimeout, clearTimeout } = globalThis;

/** A history that is finished, and what its spans need besides. */
export interface Finished {
  trace: Buffer;
  hasParent: boolean;
  history: Buffer;
}

export class Exporter {
  private queue: Finished[] = [];
  private timer: NodeJS.Timeout | null = null;
  private sending = false;
  private lost = 0;
  private toldMs = -Infinity;
  private whenIdle: (() => void)[] = [];

  constructor(private readonly endpoint: URL) {}

  /** By FAULTLOOM_EXPORT; null if it is not set or no http:// or https:// address (then one line says so). */
  static fromEnvironment(environment: NodeJS.ProcessEnv): Exporter | null {
    const text = environment['FAULTLOOM_EXPORT'];
    if (text === undefined || text === '') {
      return null;
    }
    try {
      const endpoint = new URL(text);
      if (endpoint.protocol in send && endpoint.hostname !== '') {
        return new Exporter(endpoint);
      }
    } catch {
      // said below
    }
    complain('FAULTLOOM_EXPORT is not an http:// or https:// address: nothing is exported');
    return null;
  }

  /** Takes a history; it leaves within a second. */
  add(finished: Finished): void {
    if (this.queue.length >= MAX_QUEUE) {
      this.lose(1);
      return;
    }
    this.queue.push(finished);
    if (this.queue.length >= MAX_BATCH) {
      this.soon(0);
    } else if (this.timer === null) {
      this.soon(LINGER_MS);
    }
  }

  /** Resolves when everything that was added has left or is lost, at the latest after `ms`. */
  flush(ms: number): Promise<void> {
    return new Promise((resolve) => {
      if (this.queue.length === 0 && !this.sending) {
        resolve();
        return;
      }
      // this timer keeps the process alive: it is what the process waits for
      const late = setTimeout(resolve, ms);
      this.whenIdle.push(() => {
        clearTimeout(late);
        resolve();
      });
      this.drain();
    });
  }

  private soon(ms: number): void {
    if (this.timer !== null) {
      clearTimeout(this.timer);
    }
    // whoever answers a request now must not have his scope kept for a second
    this.timer = outside(() => setTimeout(() => this.drain(), ms));
    this.timer.unref();
  }

  private drain(): void {
    if (this.timer !== null) {
      clearTimeout(this.timer);
      this.timer = null;
    }
    if (this.sending) {
      return;
    }
    if (this.queue.length === 0) {
      const waiting = this.whenIdle;
      this.whenIdle = [];
      waiting.forEach((one) => one());
      return;
    }
    const batch = this.queue.splice(0, MAX_BATCH);
    this.sending = true;
    outside(() =>
      this.post(batch, (delivered) => {
        this.sending = false;
        if (!delivered) {
          this.lose(batch.length);
        }
        if (this.queue.length >= MAX_BATCH || this.whenIdle.length > 0) {
          this.drain();
        } else if (this.queue.length > 0) {
          this.soon(LINGER_MS);
        }
      }),
    );
  }

  private post(batch: Finished[], done: (delivered: boolean) => void): void {
    let over = false;
    const end = (delivered: boolean): void => {
      if (!over) {
        over = true;
        clearTimeout(late);
        done(delivered);
      }
    };
    const late = setTimeout(() => {
      end(false);
      request?.destroy();
    }, REQUEST_MS);
    late.unref();
    let request: http.ClientRequest | undefined;
    try {
      const body = Buffer.from(encode(batch));
      request = send[this.endpoint.protocol as keyof typeof send](
        this.endpoint,
        { method: 'POST', headers: { 'content-type': 'application/json', 'content-length': body.length } },
        (response) => {
          response.resume();
          response.on('error', () => end(false));
          response.on('end', () => end(response.statusCode! >= 200 && response.statusCode! <= 299));
        },
      );
      request.on('error', () => end(false));
      // a process that is otherwise done does not stay for this; `flush` has a timer of its own
      request.on('socket', (socket) => socket.unref());
      request.end(body);
    } catch {
      end(false);
    }
  }

  private lose(count: number): void {
    this.lost += count;
    const now = Date.now();
    if (now - this.toldMs >= COMPLAIN_MS) {
      complain(`${this.lost} ${this.lost === 1 ? 'history was' : 'histories were'} lost on the way to ${this.endpoint.host}`);
      this.toldMs = now;
      this.lost = 0;
    }
  }
}

/** The body of a request. What cannot be read (a callee sent something else than a history) has no spans. */
function encode(batch: readonly Finished[]): string {
  const all: ResourceSpans[] = [];
  for (const { trace, hasParent, history } of batch) {
    const decoded = readHistory(history);
    if (typeof decoded !== 'string') {
      all.push(...resourceSpans(trace, hasParent, decoded));
    }
  }
  return JSON.stringify({ resourceSpans: all });
}
