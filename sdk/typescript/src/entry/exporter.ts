/**
 * Exports finished histories to an OpenTelemetry collector by OTLP/HTTP in JSON. Each history is sent at most once, and
 * replies never wait for an export. Histories that cannot be delivered are dropped and counted; a warning appears at
 * most once a minute.
 */

import * as http from 'node:http';
import * as https from 'node:https';
import { withoutScope } from '../scope/context';
import type { FinishedHistory, HistorySink } from '../scope/service';
import { warn } from '../warn';
import { readHistory } from '../wire/history';
import { ResourceSpans, resourceSpans } from '../wire/otlp';
import { Flushable, flushAtExit } from './exit';

const MAX_QUEUE = 256;
const MAX_BATCH = 64;
const MAX_DELAY_MS = 1000;
const REQUEST_TIMEOUT_MS = 5000;
const WARNING_INTERVAL_MS = 60_000;

// taken before hooks and the application's tests replace them
const send = { 'http:': http.request, 'https:': https.request };
const { setTimeout, clearTimeout, setImmediate } = globalThis;

/** The batch that is being sent. `request` is null until the body has been encoded. */
interface Sending {
  batch: FinishedHistory[];
  request: http.ClientRequest | null;
}

export class Exporter implements HistorySink, Flushable {
  private queue: FinishedHistory[] = [];
  private timer: NodeJS.Timeout | null = null;
  private sending: Sending | null = null;
  private flushesAtExit = false;
  private lost = 0;
  private lastWarningMs = -Infinity;
  private whenIdle: (() => void)[] = [];

  constructor(private readonly endpoint: URL) {}

  /** Reads FAULTLOOM_EXPORT. Null if it is not set, or, with a warning, if it is not an http:// or https:// address. */
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
      // the warning follows
    }
    warn('FAULTLOOM_EXPORT is not an http:// or https:// address: nothing is exported');
    return null;
  }

  /** Queues a history; it is sent within a second. */
  add(finished: FinishedHistory): void {
    if (this.queue.length >= MAX_QUEUE) {
      this.countLost(1);
      return;
    }
    this.queue.push(finished);
    if (!this.flushesAtExit) {
      this.flushesAtExit = true;
      flushAtExit(this);
    }
    if (this.queue.length >= MAX_BATCH) {
      this.schedule(0);
    } else if (this.timer === null) {
      this.schedule(MAX_DELAY_MS);
    }
  }

  hasPending(): boolean {
    return this.queue.length > 0 || this.sending !== null;
  }

  takeUnsent(): { url: string; bodies: string[] } {
    const unsent = this.queue;
    this.queue = [];
    const socket = this.sending?.request?.socket;
    if (this.sending !== null && (socket == null || socket.connecting)) {
      unsent.unshift(...this.sending.batch); // no byte has been sent yet
    }
    const bodies: string[] = [];
    for (let at = 0; at < unsent.length; at += MAX_BATCH) {
      bodies.push(encodeBody(unsent.slice(at, at + MAX_BATCH).flatMap(spans)));
    }
    return { url: this.endpoint.href, bodies };
  }

  reportUndelivered(count: number): void {
    if (count > 0) {
      warn(`the last histories could not be delivered to ${this.endpoint.host}`);
    }
  }

  /** Resolves when all queued histories have been sent or dropped, after at most `timeoutMs`. */
  flush(timeoutMs: number): Promise<void> {
    return new Promise((resolve) => {
      if (!this.hasPending()) {
        resolve();
        return;
      }
      // this timer keeps the process alive until the flush has finished
      const timer = setTimeout(resolve, timeoutMs);
      this.whenIdle.push(() => {
        clearTimeout(timer);
        resolve();
      });
      this.drain();
    });
  }

  private schedule(ms: number): void {
    if (this.timer !== null) {
      clearTimeout(this.timer);
    }
    // in no scope: the timer must not keep the current scope alive
    this.timer = withoutScope(() => setTimeout(() => this.drain(), ms));
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
    withoutScope(() => {
      encodeBatch(sending.batch, [], (body) => {
        this.post(sending, body, (delivered) => this.batchDone(sending.batch.length, delivered));
      });
    });
  }

  private batchDone(count: number, delivered: boolean): void {
    this.sending = null;
    if (!delivered) {
      this.countLost(count);
    }
    if (this.queue.length >= MAX_BATCH || this.whenIdle.length > 0) {
      this.drain();
    } else if (this.queue.length > 0) {
      this.schedule(MAX_DELAY_MS);
    }
  }

  private post(sending: Sending, text: string, done: (delivered: boolean) => void): void {
    let finished = false;
    const end = (delivered: boolean): void => {
      if (!finished) {
        finished = true;
        clearTimeout(timer);
        done(delivered);
      }
    };
    const timer = setTimeout(() => {
      end(false);
      sending.request?.destroy();
    }, REQUEST_TIMEOUT_MS);
    timer.unref();
    try {
      const body = Buffer.from(text);
      const headers = { 'content-type': 'application/json', 'content-length': body.length };
      // a new connection each time: the collector may be closing a kept one
      const options = { method: 'POST', headers, agent: false };
      const request = send[this.endpoint.protocol as keyof typeof send](this.endpoint, options, (response) => {
        response.resume();
        response.on('error', () => end(false));
        response.on('end', () => end(response.statusCode! >= 200 && response.statusCode! <= 299));
      });
      sending.request = request;
      request.on('error', () => end(false));
      // an export does not keep the process alive; `flush` has its own timer
      request.on('socket', (socket) => socket.unref());
      request.end(body);
    } catch {
      end(false);
    }
  }

  private countLost(count: number): void {
    this.lost += count;
    const now = Date.now();
    if (now - this.lastWarningMs >= WARNING_INTERVAL_MS) {
      const noun = this.lost === 1 ? 'history' : 'histories';
      warn(`${this.lost} ${noun} could not be delivered to ${this.endpoint.host}`);
      this.lastWarningMs = now;
      this.lost = 0;
    }
  }
}

/** The spans of a history; none if it is malformed, which happens if a callee returned an invalid history. */
function spans({ trace, hasParent, history }: FinishedHistory): ResourceSpans[] {
  try {
    const decoded = readHistory(history);
    return typeof decoded === 'string' ? [] : resourceSpans(trace, hasParent, decoded);
  } catch {
    return []; // an exception in a timer would end the application
  }
}

function encodeBody(spans: ResourceSpans[]): string {
  return JSON.stringify({ resourceSpans: spans });
}

/** Encodes a batch, one history per turn of the event loop, so that replies are not delayed. */
function encodeBatch(
  batch: readonly FinishedHistory[],
  done: ResourceSpans[],
  then: (body: string) => void,
  at = 0,
): void {
  const finished = batch[at];
  if (finished === undefined) {
    then(encodeBody(done));
    return;
  }
  setImmediate(() => {
    done.push(...spans(finished));
    encodeBatch(batch, done, then, at + 1);
  });
}
