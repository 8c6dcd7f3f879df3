/**
 * Flushes exporters when the process ends, for at most a second.
 *
 * Node.js ends in three ways: the event loop is empty (`beforeExit`; asynchronous work is still possible), SIGTERM
 * (asynchronous work is possible if there is a listener), or process.exit (it is not: a worker thread sends while the
 * main thread blocks).
 */

import { Worker } from 'node:worker_threads';

const FLUSH_MS = 1000;

/** Something to flush. */
export interface Flushable {
  hasPending(): boolean;
  flush(timeoutMs: number): Promise<void>;
  /** Removes and returns the request bodies that have not been sent. */
  takeUnsent(): { url: string; bodies: string[] };
  /** Reports how many of the bodies from `takeUnsent` were not delivered. */
  reportUndelivered(count: number): void;
}

/** Other signals may be ignored by the process (nohup, background jobs of a shell), which a listener would undo. */
const SIGNAL = 'SIGTERM';

/**
 * Marks the listeners of this package, including further copies. A process without other listeners ends by the signal.
 */
const OWN_LISTENER = Symbol.for('faultloom.signal');

const registered: Flushable[] = [];

/** Flushes an exporter when the process ends. Call it once per exporter. */
export function flushAtExit(flushable: Flushable): void {
  registered.push(flushable);
  if (registered.length === 1) {
    listen();
  }
}

function flush(): Promise<unknown> {
  return Promise.all(registered.map((one) => one.flush(FLUSH_MS)));
}

function listen(): void {
  let flushed = false;
  process.on('beforeExit', () => {
    if (!flushed && registered.some((one) => one.hasPending())) {
      flushed = true; // only once: an endpoint that hangs must not keep the process alive
      void flush();
    }
  });
  const listener = (): void => {
    if (process.listeners(SIGNAL).every((one) => OWN_LISTENER in one)) {
      void flush().then(() => {
        process.removeListener(SIGNAL, listener);
        process.kill(process.pid, SIGNAL);
      });
    } // otherwise the application decides when it ends
  };
  Object.defineProperty(listener, OWN_LISTENER, { value: true });
  process.on(SIGNAL, listener);
  process.on('exit', () => {
    for (const one of registered) {
      try {
        sendBlocking(one);
      } catch {
        // the process is ending; errors cannot be handled any more
      }
    }
  });
}

const WORKER = `
const { bodies, url, undelivered } = require('node:worker_threads').workerData;
const { request } = require(url.startsWith('https:') ? 'node:https' : 'node:http');
for (const body of bodies) {
  const headers = { 'content-type': 'application/json', 'content-length': Buffer.byteLength(body) };
  const outgoing = request(url, { method: 'POST', headers }, (response) => {
    response.resume();
    response.on('end', () => {
      if (response.statusCode >= 200 && response.statusCode <= 299) {
        Atomics.sub(undelivered, 0, 1);
        Atomics.notify(undelivered, 0);
      }
    });
  });
  outgoing.on('error', () => {
    Atomics.add(undelivered, 0, 0x10000);
    Atomics.notify(undelivered, 0);
  });
  outgoing.end(body);
}`;

function sendBlocking(flushable: Flushable): void {
  const { url, bodies } = flushable.takeUnsent();
  if (bodies.length === 0) {
    return;
  }
  // the number of undelivered bodies; a failure adds 65,536, which ends the wait
  const undelivered = new Int32Array(new SharedArrayBuffer(4));
  undelivered[0] = bodies.length;
  new Worker(WORKER, {
    eval: true,
    // no --require and no NODE_OPTIONS: the worker must not be hooked
    execArgv: [],
    env: { ...process.env, NODE_OPTIONS: '' },
    workerData: { url, bodies, undelivered },
    stdout: true,
    stderr: true,
  });
  const deadline = Date.now() + FLUSH_MS;
  for (let count = undelivered[0]!; count > 0 && count < 0x10000; count = Atomics.load(undelivered, 0)) {
    const ms = deadline - Date.now();
    if (ms <= 0 || Atomics.wait(undelivered, 0, count, ms) === 'timed-out') {
      break;
    }
  }
  flushable.reportUndelivered(Atomics.load(undelivered, 0) % 0x10000);
}
