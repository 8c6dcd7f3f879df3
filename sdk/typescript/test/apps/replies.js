// Calls the scripted server of `xtask replies` with each client library, see xtask/src/replies/driver.rs.
'use strict';

const http = require('node:http');
const grpc = require('@grpc/grpc-js');
const undici = require('undici');

const NODE = Number(process.versions.node.split('.')[0]);

/** A signal for the caller's limit or cancellation. */
function signalOf({ timeoutMs, cancelMs }) {
  if (timeoutMs > 0) {
    return AbortSignal.timeout(timeoutMs);
  }
  const controller = new AbortController();
  if (cancelMs > 0) {
    setTimeout(() => controller.abort(), cancelMs);
  }
  return controller.signal;
}

/** Names and codes of an error and its causes. */
function typeOf(error) {
  const types = [];
  for (let one = error; one instanceof Error || one instanceof DOMException; one = one.cause) {
    types.push(one.code === undefined ? one.name : `${one.name}:${one.code}`);
  }
  return types.join(' < ') || String(error);
}

async function read(observed, body) {
  for await (const chunk of body ?? []) {
    observed.chunks.push(Buffer.from(chunk));
  }
}

/** The body of a request. */
function bodyOf({ method }) {
  return method === 'POST' ? 'ping' : undefined;
}

async function byFetch(fetch, observed, url, limits) {
  const { method } = limits;
  const response = await fetch(url, { method, body: bodyOf(limits), signal: signalOf(limits) });
  observed.status = response.status;
  await read(observed, response.body);
}

async function byUndici(library, observed, url, limits) {
  const { method } = limits;
  const { statusCode, body } = await library.request(url, { method, body: bodyOf(limits), signal: signalOf(limits) });
  observed.status = statusCode;
  await read(observed, body);
}

function byHttp(observed, url, limits, consume) {
  return new Promise((resolve, reject) => {
    const { agent, method } = limits;
    const request = http.request(url, { agent, method, signal: signalOf(limits) });
    request.end(bodyOf(limits));
    request.on('error', reject);
    request.on('response', (response) => {
      observed.status = response.statusCode;
      consume(response, resolve, reject);
    });
  });
}

function byEvents(response, chunks, resolve, reject) {
  response.on('data', (chunk) => chunks.push(chunk));
  response.on('end', resolve);
  response.on('error', reject);
}

/** The application's own timeout, with Node's `timeout` event. */
function byTimeoutEvent(observed, url, limits) {
  const { agent, method, timeoutMs, cancelMs } = limits;
  if (cancelMs > 0) {
    return Promise.reject(new Unsupported());
  }
  return new Promise((resolve, reject) => {
    const request = http.request(url, { agent, method, timeout: timeoutMs || 5000 });
    request.end(bodyOf(limits));
    request.on('timeout', () => request.destroy(Object.assign(new Error('too slow'), { code: 'ETOOSLOW' })));
    request.on('error', reject);
    request.on('response', (response) => {
      observed.status = response.statusCode;
      byEvents(response, observed.chunks, resolve, reject);
    });
  });
}

class Unsupported extends Error {}

const identity = (bytes) => bytes;

function byGrpc(observed, target, { timeoutMs, cancelMs }, isStream) {
  const at = target.indexOf('/');
  const client = new grpc.Client(target.slice(0, at), grpc.credentials.createInsecure());
  const options = timeoutMs > 0 ? { deadline: Date.now() + timeoutMs } : {};
  const path = target.slice(at);
  return new Promise((resolve, reject) => {
    let call;
    if (isStream) {
      call = client.makeServerStreamRequest(path, identity, identity, Buffer.from('x'), new grpc.Metadata(), options);
      call.on('data', (message) => observed.chunks.push(message, Buffer.from('|')));
      call.on('error', reject);
      call.on('end', resolve);
    } else {
      const done = (error, message) => {
        if (error) {
          reject(error);
        } else {
          observed.chunks.push(message);
          resolve();
        }
      };
      call = client.makeUnaryRequest(path, identity, identity, Buffer.from('x'), new grpc.Metadata(), options, done);
    }
    if (cancelMs > 0) {
      setTimeout(() => call.cancel(), cancelMs);
    }
  }).finally(() => client.close());
}

const undici7 = NODE >= 20 ? require('undici7') : null;

const LIBRARIES = {
  fetch: (...args) => byFetch(globalThis.fetch, ...args),
  http: (observed, url, limits) =>
    byHttp(observed, url, limits, (response, resolve, reject) =>
      byEvents(response, observed.chunks, resolve, reject),
    ),
  'http-iterated': (observed, url, limits) =>
    byHttp(observed, url, limits, (response, resolve, reject) => read(observed, response).then(resolve, reject)),
  'http-timeout': byTimeoutEvent,
  undici: (...args) => byUndici(undici, ...args),
  'undici-fetch': (...args) => byFetch(undici.fetch, ...args),
  ...(undici7 && {
    undici7: (...args) => byUndici(undici7, ...args),
    'undici7-fetch': (...args) => byFetch(undici7.fetch, ...args),
  }),
  grpc: (observed, target, limits) => byGrpc(observed, target, limits, false),
  'grpc-stream': (observed, target, limits) => byGrpc(observed, target, limits, true),
};

async function call(library, limits, target) {
  const observed = { status: 0, chunks: [] };
  let error = '';
  try {
    await LIBRARIES[library](observed, library.startsWith('grpc') ? target : `http://${target}`, limits);
  } catch (thrown) {
    if (thrown instanceof Unsupported) {
      return { unsupported: true };
    }
    error = typeOf(thrown);
  }
  return { status: observed.status, bytes: Buffer.concat(observed.chunks).toString('hex'), error };
}

/** Calls one after the other, which may use the same connection. fetch and undici have an agent of their own. */
async function calls(library, methods, limits, target) {
  const agent = methods.length > 1 ? new http.Agent({ keepAlive: true }) : false;
  const results = [];
  for (const method of methods) {
    results.push(await call(library, { ...limits, agent, method }, target));
  }
  if (agent) {
    agent.destroy();
  }
  return results;
}

process.on('uncaughtException', (error) => {
  console.error(error);
  process.exit(1);
});
process.stdin.on('end', () => process.exit(0)).resume();

const server = http.createServer((request, response) => {
  const [, library, methods, timeoutMs, cancelMs, ...target] = request.url.split('/');
  const limits = { timeoutMs: Number(timeoutMs), cancelMs: Number(cancelMs) };
  calls(library, methods.split(','), limits, target.join('/')).then((results) =>
    response.end(JSON.stringify(results)),
  );
});
server.listen(0, '127.0.0.1', () =>
  console.log(`ready ${server.address().port} ${Object.keys(LIBRARIES).join(' ')}`),
);
