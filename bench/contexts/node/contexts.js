// Makes the calls of a plan, with their context or without it. See ../README.md.
'use strict';

const http = require('node:http');
const { AsyncResource } = require('node:async_hooks');

const WORKERS = 32;
const QUEUE_INTERVAL_MS = 3;
/** A cached worker ends after this many jobs, or when it was idle for this long. */
const CACHED_JOBS = 6;
const CACHED_IDLE_MS = 50;
const AFTER_DELAY_MS = 15;

const agent = new http.Agent({ keepAlive: true });
/** Belongs to no request. */
const start = new AsyncResource('start');
const queue = [];

/** Jobs, and workers that wait for one. */
class Pool {
  jobs = [];
  idle = [];

  add(job) {
    const worker = this.idle.shift();
    if (worker) worker(job);
    else this.jobs.push(job);
  }

  /** Hands the job to an idle worker; false if there is none. */
  offer(job) {
    const worker = this.idle.shift();
    if (worker) worker(job);
    return worker !== undefined;
  }

  /** The next job; undefined after `idleMs` without one. */
  take(idleMs) {
    if (this.jobs.length > 0) return Promise.resolve(this.jobs.shift());
    return new Promise((resolve) => {
      let timer;
      const worker = (job) => {
        clearTimeout(timer);
        resolve(job);
      };
      this.idle.push(worker);
      if (idleMs !== undefined) {
        timer = setTimeout(() => {
          this.idle = this.idle.filter((other) => other !== worker);
          resolve(undefined);
        }, idleMs);
      }
    });
  }
}

const pool = new Pool();
const cached = new Pool();

async function poolWorker() {
  for (;;) await (await pool.take())();
}

async function cachedWorker(job) {
  await job();
  for (let i = 1; i < CACHED_JOBS; i++) {
    const next = await cached.take(CACHED_IDLE_MS);
    if (!next) return;
    await next();
  }
}

for (let i = 0; i < WORKERS; i++) poolWorker();
setInterval(() => {
  for (const job of queue.splice(0)) job();
}, QUEUE_INTERVAL_MS);

/** A promise that resolves when the call has ended. */
function begin(request, step) {
  return new Promise((resolve) => {
    const call = () => send(request, step).then(resolve);
    switch (step.mode) {
      case 'context':
        return call();
      case 'todo':
        return start.runInAsyncScope(call);
      case 'pool':
        return pool.add(call);
      case 'cached':
        return cached.offer(call) || cachedWorker(call);
      case 'queue':
        return queue.push(call);
      case 'timer':
        return setTimeout(call, 1);
      case 'after':
        return setTimeout(call, AFTER_DELAY_MS);
      default:
        throw new Error(`unknown mode '${step.mode}'`);
    }
  });
}

function send(request, step) {
  const body = JSON.stringify({ request, steps: step.steps });
  const [host, port] = step.peer.split(':');
  const headers = { 'content-type': 'application/json', 'content-length': Buffer.byteLength(body) };
  return new Promise((resolve) => {
    const call = http.request({ host, port, agent, method: 'POST', path: `/run/${step.call}`, headers }, (reply) => {
      if (reply.statusCode !== 200) console.log(`failed ${step.call} ${reply.statusCode}`);
      reply.resume();
      reply.on('end', resolve);
    });
    call.on('error', (error) => {
      console.log(`failed ${step.call} ${error.message}`);
      resolve();
    });
    call.end(body);
  });
}

const pause = (ms) => new Promise((resolve) => setTimeout(resolve, ms));

async function run(call, work) {
  console.log(`call ${call} ${work.request}`);
  const pending = [];
  for (const step of work.steps) {
    await pause(step.pause_ms);
    const ended = begin(work.request, step);
    if (step.mode === 'after') continue;
    if (step.wait) await ended;
    else pending.push(ended);
  }
  await Promise.all(pending);
}

const server = http.createServer((request, response) => {
  if (request.method !== 'POST') return response.end();
  let text = '';
  request.setEncoding('utf8');
  request.on('data', (piece) => (text += piece));
  request.on('end', async () => {
    await run(request.url.split('/').pop(), JSON.parse(text));
    response.setHeader('content-type', 'application/json');
    response.end('{}');
  });
});
server.listen(Number(process.env.PORT), '127.0.0.1');
