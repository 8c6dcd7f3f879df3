/**
 * Handing over what is left when a process ends, for at most a second.
 *
 * Node ends in three ways: nothing is left to do (`beforeExit`, work may go on), SIGTERM (work may go on if somebody listens),
 * or process.exit (no work goes on: a worker thread sends while the main thread stands still).
 */

import { Worker } from 'node:worker_threads';

const FLUSH_MS = 1000;

/** What may have something left. */
export interface Leaving {
  pending(): boolean;
  flush(ms: number): Promise<void>;
  /** Bodies that have not left, given away once. */
  rest(): { url: string; bodies: string[] };
  /** Of bodies that were given away: so many did not arrive. */
  lostBodies(count: number): void;
}

/** The others may be ignored (nohup, background jobs of a shell), which listening would undo. */
const SIGNAL = 'SIGTERM';

/** Marks our listener, also that of another copy of this package: an application with nobody else's ends by the signal. */
const OURS = Symbol.for('faultloom.signal');

const all: Leaving[] = [];

/** Call it once per exporter. */
export function atExit(leaving: Leaving): void {
  all.push(leaving);
  if (all.length === 1) {
    watch();
  }
}

function flush(): Promise<unknown> {
  return Promise.all(all.map((one) => one.flush(FLUSH_MS)));
}

function watch(): void {
  let flushed = false;
  process.on('beforeExit', () => {
    if (!flushed && all.some((one) => one.pending())) {
      flushed = true; // once: an endpoint that hangs must not hold the process again
      void flush();
    }
  });
  const listener = (): void => {
    if (process.listeners(SIGNAL).every((one) => OURS in one)) {
      void flush().then(() => {
        process.removeListener(SIGNAL, listener);
        process.kill(process.pid, SIGNAL);
      });
    } // else the application decides when it ends
  };
  Object.defineProperty(listener, OURS, { value: true });
  process.on(SIGNAL, listener);
  process.on('exit', () => {
    for (const one of all) {
      try {
        sendStandingStill(one);
      } catch {
        // the end is no time for complaints
      }
    }
  });
}

const WORKER = `
const { bodies, url, left } = require('node:worker_threads').workerData;
const { request } = require(url.startsWith('https:') ? 'node:https' : 'node:http');
for (const body of bodies) {
  const headers = { 'content-type': 'application/json', 'content-length': Buffer.byteLength(body) };
  const outgoing = request(url, { method: 'POST', headers }, (response) => {
    response.resume();
    response.on('end', () => {
      if (response.statusCode >= 200 && response.statusCode <= 299) {
        Atomics.sub(left, 0, 1);
        Atomics.notify(left, 0);
      }
    });
  });
  outgoing.on('error', () => {
    Atomics.add(left, 0, 0x10000);
    Atomics.notify(left, 0);
  });
  outgoing.end(body);
}`;

function sendStandingStill(leaving: Leaving): void {
  const { url, bodies } = leaving.rest();
  if (bodies.length === 0) {
    return;
  }
  // how many bodies have not arrived; a failure adds 65,536, so that the wait ends
  const left = new Int32Array(new SharedArrayBuffer(4));
  left[0] = bodies.length;
  new Worker(WORKER, {
    eval: true,
    // neither --require nor NODE_OPTIONS: no hooks in there
    execArgv: [],
    env: { ...process.env, NODE_OPTIONS: '' },
    workerData: { url, bodies, left },
    stdout: true,
    stderr: true,
  });
  const deadline = Date.now() + FLUSH_MS;
  for (let now = left[0]!; now > 0 && now < 0x10000; now = Atomics.load(left, 0)) {
    const ms = deadline - Date.now();
    if (ms <= 0 || Atomics.wait(left, 0, now, ms) === 'timed-out') {
      break;
    }
  }
  leaving.lostBodies(Atomics.load(left, 0) % 0x10000);
}
