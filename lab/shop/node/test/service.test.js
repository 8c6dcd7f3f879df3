'use strict';

const assert = require('node:assert/strict');
const { spawn } = require('node:child_process');
const { once } = require('node:events');
const net = require('node:net');
const path = require('node:path');
const { test } = require('node:test');
const grpc = require('@grpc/grpc-js');
const health = require('grpc-health-check');
const { listenAddress } = require('../service');

function start(name, environment) {
  const env = { PATH: process.env.PATH, ...environment };
  const child = spawn(process.execPath, [path.join(__dirname, '..', `${name}.js`)], {
    env,
    stdio: ['ignore', 'ignore', 'pipe'],
  });
  let stderr = '';
  child.stderr.on('data', (part) => (stderr += part));
  return { child, ended: once(child, 'close').then(([code]) => ({ code, stderr })) };
}

async function listening() {
  const server = net.createServer();
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  return server;
}

async function freePort() {
  const server = await listening();
  const { port } = server.address();
  server.close();
  await once(server, 'close');
  return port;
}

for (const name of ['currency', 'payment']) {
  test(`${name} answers health checks and stops on SIGTERM`, async (t) => {
    const port = await freePort();
    const { child, ended } = start(name, { PORT: String(port) });
    t.after(() => child.kill('SIGKILL'));
    const client = new grpc.Client(`127.0.0.1:${port}`, grpc.credentials.createInsecure());
    t.after(() => client.close());
    await new Promise((resolve, reject) => {
      client.waitForReady(Date.now() + 20_000, (error) => (error ? reject(error) : resolve()));
    });
    const { path: method, requestSerialize, responseDeserialize } = health.service.Check;
    const reply = await new Promise((resolve, reject) => {
      const done = (error, value) => (error ? reject(error) : resolve(value));
      client.makeUnaryRequest(method, requestSerialize, responseDeserialize, { service: '' }, done);
    });
    assert.equal(reply.status, 'SERVING');
    const begin = Date.now();
    child.kill('SIGTERM');
    assert.deepEqual(await ended, { code: 0, stderr: '' });
    assert.ok(Date.now() - begin < 2000);
  });
}

test('invalid settings are reported', async () => {
  for (const [environment, message] of [
    [{}, 'payment: PORT must be a port number, not ""\n'],
    [{ PORT: '70000' }, 'payment: PORT must be a port number, not "70000"\n'],
  ]) {
    assert.deepEqual(await start('payment', environment).ended, { code: 1, stderr: message });
  }
  assert.equal(listenAddress({ PORT: '0', BIND: '' }), '127.0.0.1:0');
  assert.equal(listenAddress({ PORT: '1', BIND: '::1' }), '[::1]:1');
});

test('a port in use is reported in one line', async (t) => {
  const server = await listening();
  t.after(() => server.close());
  const { code, stderr } = await start('currency', { PORT: String(server.address().port) }).ended;
  assert.equal(code, 1);
  assert.match(stderr, /^currency: .+\n$/);
});
