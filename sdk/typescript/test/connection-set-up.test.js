// A call begins when the application makes it: the time to connect is part of it.
'use strict';

const assert = require('node:assert');
const http = require('node:http');
const net = require('node:net');
const { test } = require('node:test');
const { app, events, tracedRequest } = require('./support.js');
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
  for (const [name, call] of Object.entries(CLIENTS)) {
    const { segment } = await tracedRequest([], () => call(port));
    const [sent, failed] = segment.events;
    assert.match(events(segment)[1], /^FAILED [14]( gap)?$/, `${name}: ${events(segment)}`);
    const lastedMs = (failed.atUs - sent.atUs) / 1000;
    // The deadline began earlier, before a first call loaded its code. Without the time to connect, it would be near 0.
    assert.ok(lastedMs >= DEADLINE_MS / 2, `${name}: ${lastedMs} ms`);
  }
});
