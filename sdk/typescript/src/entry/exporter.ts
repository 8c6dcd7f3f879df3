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
import { atExit } from './exit';

const MAX_QUEUE = 256;
const MAX_BATCH = 64;
const LINGER_MS = 1000;
const REQUEST_MS = 5000;
const COMPLAIN_MS = 60_000;

// as they are before hooks and the application's tests change them
const send = { 'http:': http.request, 'https:': https.request };
const { setTimeout, clearTimeout, setImmediate } = globalThis;

/** A history that is finished, and what its spans need besides. */
export interface Finished {
  trace: Buffer;
  hasParent: boolean;
  history: Buffer;
}

/** A batch on its way; without a request nothing of it has left. */
interface Sending {
  batch: Finished[];
  request: http.ClientRequest | null;
}

export class Exporter {
  private queue: Finished[] = [];
  private timer: NodeJS.Timeout | null = null;
  private sending: Sending | null = null;
  private exitWatched = false;
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
    if (!this.exitWatched) {
      this.exitWatched = true;
      atExit(this);
    }
    if (this.queue.length >= MAX_BATCH) {
      this.soon(0);
    } else if (this.timer === null) {
      this.soon(LINGER_MS);
    }
  }

  pending(): boolean {
    return this.queue.length > 0 || this.sending !== null;
  }

  rest(): { url: string; bodies: string[] } {
    const left = this.queue;
    this.queue = [];
    const socket = this.sending?.request?.socket;
    if (this.sending !== null && (socket == null || socket.connecting)) {
      left.unshift(...this.sending.batch); // not a byte of it has left
    }
    const bodies: string[] = [];
    for (let at = 0; at < left.length; at += MAX_BATCH) {
      bodies.push(document(left.slice(at, at + MAX_BATCH).flatMap(spans)));
    }
    return { url: this.endpoint.href, bodies };
  }

  lostBodies(count: number): void {
    if (count > 0) {
      complain(`the last histories did not get to ${this.endpoint.host}`);
    }
  }

  /** Resolves when everything that was added has left or is lost, at the latest after `ms`. */
  flush(ms: number): Promise<void> {
    return new Promise((resolve) => {
      if (!this.pending()) {
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
    if (this.sending !== null) {
      return;
    }
    if (this.queue.length === 0) {
      const waiting = this.whenIdle;
      this.whenIdle = [];
      waiting.forEach((one) => one());
      return;
    }
    const sending: Sending = { batch: this.queue.splice(0, MAX_BATCH), request: null };
    this.sending = sending;
    outside(() => {
      encode(sending.batch, [], (body) => {
        this.post(sending, body, (delivered) => this.sent(sending.batch.length, delivered));
      });
    });
  }

  private sent(count: number, delivered: boolean): void {
    this.sending = null;
    if (!delivered) {
      this.lose(count);
    }
    if (this.queue.length >= MAX_BATCH || this.whenIdle.length > 0) {
      this.drain();
    } else if (this.queue.length > 0) {
      this.soon(LINGER_MS);
    }
  }

  private post(sending: Sending, text: string, done: (delivered: boolean) => void): void {
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
      sending.request?.destroy();
    }, REQUEST_MS);
    late.unref();
    try {
      const body = Buffer.from(text);
      const headers = { 'content-type': 'application/json', 'content-length': body.length };
      // a connection of its own: one that was kept might be closed from the other end just now
      const how = { method: 'POST', headers, agent: false };
      const request = send[this.endpoint.protocol as keyof typeof send](this.endpoint, how, (response) => {
        response.resume();
        response.on('error', () => end(false));
        response.on('end', () => end(response.statusCode! >= 200 && response.statusCode! <= 299));
      });
      sending.request = request;
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

/** The spans of a history. What cannot be read (a callee sent something else than a history) has none. */
function spans({ trace, hasParent, history }: Finished): ResourceSpans[] {
  try {
    const decoded = readHistory(history);
    return typeof decoded === 'string' ? [] : resourceSpans(trace, hasParent, decoded);
  } catch {
    return []; // a timer's exception would end the application
  }
}

function document(all: ResourceSpans[]): string {
  return JSON.stringify({ resourceSpans: all });
}

/** The body of a request, made one history at a time: replies that wait for this thread go first. */
function encode(batch: readonly Finished[], done: ResourceSpans[], then: (body: string) => void, at = 0): void {
  const finished = batch[at];
  if (finished === undefined) {
    then(document(done));
    return;
  }
  setImmediate(() => {
    done.push(...spans(finished));
    encode(batch, done, then, at + 1);
  });
}
