// A call begins when the application makes it: the time to connect is part of it, and is recorded separately.
'use strict';

const assert = require('node:assert');
const http = require('node:http');
const https = require('node:https');
const net = require('node:net');
const { test } = require('node:test');
const { app, certificate, events, tracedRequest } = require('./support.js');
const { connect, unary } = require('./apps/grpc.js');

const DEADLINE_MS = 250;

/** The port of a server whose queue is full: the kernel drops requests for further connections. */
async function fullServer(t) {
  const { port } = await app(t, 'full.js', { sdk: false });
  for (;;) {
    const socket = net.connect(port, '127.0.0.1');
    socket.on('error', () => undefined);
    t.after(() => socket.destroy());
    const isConnected = await new Promise((resolve) => {
      socket.once('connect', () => resolve(true));
      socket.setTimeout(500, () => resolve(false));
    });
    if (!isConnected) {
      return port;
    }
  }
}

const signal = () => AbortSignal.timeout(DEADLINE_MS);
const ignore = () => undefined;

const CLIENTS = {
  'http with a timeout': (port) =>
    new Promise((resolve) => {
      const request = http.get({ host: '127.0.0.1', port, path: '/x', timeout: DEADLINE_MS });
      request.on('timeout', () => request.destroy());
      request.on('error', ignore);
      request.on('close', resolve);
    }),
  'http with a signal': (port) =>
    new Promise((resolve) => {
      const request = http.get({ host: '127.0.0.1', port, path: '/x', signal: signal() });
      request.on('error', ignore);
      request.on('close', resolve);
    }),
  fetch: (port) => fetch(`http://127.0.0.1:${port}/x`, { signal: signal() }).catch(ignore),
  'fetch without a deadline': (port) => {
    const controller = new AbortController();
    setTimeout(() => controller.abort(), DEADLINE_MS);
    return fetch(`http://127.0.0.1:${port}/x`, { signal: controller.signal }).catch(ignore);
  },
  // its signal has no effect until it is connected
  undici: async (port) => {
    const { Agent, request } = require('undici');
    const dispatcher = new Agent({ connect: { timeout: DEADLINE_MS } });
    await request(`http://127.0.0.1:${port}/x`, { dispatcher }).catch(ignore);
    await dispatcher.destroy();
  },
  grpc: async (port) => {
    const client = connect(`127.0.0.1:${port}`);
    await unary(client, 'hello', { deadline: Date.now() + DEADLINE_MS });
    client.close();
  },
};

test('a call that is given up while it connects lasts as long as the deadline', async (t) => {
  const port = await fullServer(t);
  const { port: healthy } = await countingServer(t);
  for (const [name, call] of Object.entries(CLIENTS)) {
    await tracedRequest([], () => call(healthy)); // a first call loads its code, which may take long
    const { segment } = await tracedRequest([], () => call(port));
    const [sent, failed] = segment.events;
    assert.match(events(segment)[1], /^FAILED [14]( gap)?$/, `${name}: ${events(segment)}`);
    const lastedMs = (failed.atUs - sent.atUs) / 1000;
    // the deadline began earlier; without the time to connect, it would be near 0
    assert.ok(lastedMs >= DEADLINE_MS / 2, `${name}: ${lastedMs} ms`);
    const connectMs = failed.connectUs / 1000;
    if (name === 'grpc') {
      assert.strictEqual(connectMs, 0, 'gRPC does not expose it');
    } else {
      assert.ok(connectMs >= DEADLINE_MS / 2 && connectMs <= lastedMs + 1, `${name}: ${connectMs} of ${lastedMs} ms`);
    }
  }
});

const agents = new Map();
function keepAliveAgent(module) {
  if (!agents.has(module)) {
    agents.set(module, new module.Agent({ keepAlive: true, rejectUnauthorized: false }));
  }
  return agents.get(module);
}

function get(module, port) {
  return new Promise((resolve, reject) => {
    const request = module.get({ host: '127.0.0.1', port, path: '/hello', agent: keepAliveAgent(module) }, (response) => {
      response.resume();
      response.on('end', resolve);
    });
    request.on('error', reject);
  });
}

async function getByUndici(name, port) {
  const { request } = require(name);
  const { body } = await request(`http://127.0.0.1:${port}/hello`);
  await body.text();
}

const KEEPING_CLIENTS = {
  http: (port) => get(http, port),
  fetch: async (port) => void (await (await fetch(`http://127.0.0.1:${port}/hello`)).text()),
  'undici 6': (port) => getByUndici('undici', port),
  'undici 7': (port) => getByUndici('undici7', port),
};

const CALLS = 8;

async function countingServer(t) {
  let connections = 0;
  const server = http.createServer((_request, response) => response.end('hello'));
  server.on('connection', () => connections++);
  await new Promise((resolve) => server.listen(0, '127.0.0.1', resolve));
  t.after(() => {
    server.close();
    server.closeAllConnections();
  });
  return { port: server.address().port, connections: () => connections };
}

function connectTimes(segment) {
  return segment.events.filter((e) => 'connectUs' in e).map((e) => e.connectUs);
}

for (const [name, call] of Object.entries(KEEPING_CLIENTS)) {
  test(`the first call of ${name} on a connection has the time for it`, async (t) => {
    const { port, connections } = await countingServer(t);
    const { segment } = await tracedRequest([], async () => {
      for (let i = 0; i < CALLS; i++) {
        await call(port);
      }
    });
    const times = connectTimes(segment);
    const lastedUs = segment.events[1].atUs - segment.events[0].atUs;
    assert.ok(times[0] > 0 && times[0] <= lastedUs + 1, `${times[0]} of ${lastedUs} µs`);
    // undici may open a second connection before the first one is free
    assert.ok(connections() < CALLS);
    assert.strictEqual(times.filter((us) => us > 0).length, connections(), `${times}`);
    // a connection that a request without a scope has opened
    const other = await countingServer(t);
    for (let i = 0; i < CALLS; i++) {
      await call(other.port);
    }
    const before = other.connections();
    const { segment: later } = await tracedRequest([], () => call(other.port));
    assert.strictEqual(connectTimes(later)[0] > 0, other.connections() > before);
  });
}

test('the time for a connection includes its TLS handshake', async (t) => {
  const pair = certificate(t);
  if (pair === null) {
    return;
  }
  const server = https.createServer(pair, (_request, response) => response.end('hello'));
  await new Promise((resolve) => server.listen(0, '127.0.0.1', resolve));
  t.after(() => server.close());
  const { port } = server.address();
  // a proxy in front of it delays the handshake
  const proxy = net.createServer((socket) => {
    const upstream = net.connect(port, '127.0.0.1');
    socket.on('error', () => upstream.destroy());
    socket.on('data', (chunk) => setTimeout(() => upstream.write(chunk), 30));
    upstream.pipe(socket);
  });
  await new Promise((resolve) => proxy.listen(0, '127.0.0.1', resolve));
  t.after(() => proxy.close());
  const { segment } = await tracedRequest([], async () => {
    await get(https, proxy.address().port);
    await get(https, proxy.address().port);
  });
  keepAliveAgent(https).destroy();
  const [first, second] = connectTimes(segment);
  assert.ok(first >= 25_000, `${first} µs`);
  assert.strictEqual(second, 0);
});
