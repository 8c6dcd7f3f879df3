// The current scope: what inherits it and what must not.
'use strict';

const assert = require('node:assert');
const { EventEmitter, once } = require('node:events');
const fs = require('node:fs');
const http = require('node:http');
const { Readable } = require('node:stream');
const { pipeline } = require('node:stream/promises');
const { promisify } = require('node:util');
const { test } = require('node:test');
const { app, chain, descendants, events, faultloom, sendRequest, tracedRequest } = require('./support.js');

const { fault } = faultloom;

const WAYS = {
  'promises and timers': async (call) => {
    await new Promise((resolve) => setTimeout(resolve, 1));
    await new Promise((resolve) => setImmediate(resolve));
    await new Promise((resolve) => process.nextTick(resolve));
    await call();
  },
  'callbacks of the file system': async (call) => {
    await promisify(fs.stat)(__filename);
    await new Promise((resolve) => fs.readFile(__filename, () => resolve(call())));
  },
  streams: async (call) => {
    await pipeline(
      Readable.from(['a', 'b']),
      async function* (source) {
        for await (const chunk of source) {
          yield chunk;
        }
        await call();
      },
      async (source) => {
        for await (const chunk of source) {
          void chunk;
        }
      },
    );
  },
  emitters: async (call) => {
    const emitter = new EventEmitter();
    const done = new Promise((resolve) => emitter.on('go', () => resolve(call())));
    emitter.emit('go');
    await done;
  },
  'async iterators': async (call) => {
    const emitter = new EventEmitter();
    setTimeout(() => emitter.emit('go'), 1);
    await once(emitter, 'go');
    await call();
  },
};

for (const [way, go] of Object.entries(WAYS)) {
  test(`the scope follows ${way}`, async (t) => {
    const { port } = await app(t, 'http.js', { service: 'back' });
    const { segment } = await tracedRequest([], () => go(() => sendRequest(port, '/hello')));
    assert.deepStrictEqual(events(segment), ['SEND GET /hello', 'RECV 200 < back', 'REPLY 0']);
  });
}

test('work that outlives its request, or has no request, sends no envelope', async (t) => {
  const bare = await app(t, 'http.js', { sdk: false });
  const agent = new http.Agent({ keepAlive: true, maxSockets: 1 });
  t.after(() => agent.destroy());
  let late;
  const { segment } = await tracedRequest([fault('unavailable', { nth: 2 })], async () => {
    const reply = await sendRequest(bare.port, '/headers', { agent });
    assert.match(JSON.parse(reply.body)['x-faultloom'], /./);
    late = new Promise((resolve) => setTimeout(() => resolve(sendRequest(bare.port, '/headers', { agent })), 50));
  });
  assert.deepStrictEqual(events(segment), ['SEND GET /headers', 'RECV 200 gap', 'REPLY 0']);
  assert.strictEqual(JSON.parse((await late).body)['x-faultloom'], undefined);
  // on a connection that was opened in a scope
  const orphan = await sendRequest(bare.port, '/headers', { agent });
  assert.strictEqual(JSON.parse(orphan.body)['x-faultloom'], undefined);
});

test('events of a shared connection run in the scope of their request', async (t) => {
  const { port } = await app(t, 'http.js', { service: 'back' });
  const agent = new http.Agent({ keepAlive: true, maxSockets: 1 });
  t.after(() => agent.destroy());
  /** Two calls; an event of the first starts the second. */
  const twice = () =>
    new Promise((resolve) => {
      http.get({ port, host: '127.0.0.1', path: '/hello', agent }, (response) => {
        response.resume();
        response.on('end', () => resolve(sendRequest(port, '/hello', { agent })));
      });
    });
  const traced = () => tracedRequest([], twice).then(({ segment }) => segment);
  const [one, two] = await Promise.all([traced(), traced(), twice(), twice()]);
  for (const segment of [one, two]) {
    const own = events(segment).filter((event) => !event.startsWith('UNSCOPED'));
    assert.deepStrictEqual(own, [
      'SEND GET /hello',
      'RECV 200 < back',
      'SEND GET /hello',
      'RECV 200 < back',
      'REPLY 0',
    ]);
  }
});

test('many requests at once, each with its own faults', async (t) => {
  const { first } = await chain(t, 'http.js', { front: { env: { FRAMEWORK: 'express' } } });
  const all = Array.from({ length: 60 }, async (_, n) => {
    if (n % 3 === 2) {
      const { body } = await sendRequest(first.port, '/call/3/hello');
      assert.deepStrictEqual(
        JSON.parse(body).map(([code]) => code),
        [200, 200, 200],
      );
      return;
    }
    const nth = 1 + (n % 2);
    const { result, segment } = await tracedRequest([fault('unavailable', { callee: 'back', nth })], () =>
      sendRequest(first.port, '/call/3/hello'),
    );
    const expected = [200, 200, 200];
    expected[nth - 1] = 'ECONNREFUSED';
    assert.deepStrictEqual(
      JSON.parse(result.body).map(([code]) => code),
      expected,
    );
    assert.strictEqual(descendants(segment)[0].events.length, 7);
  });
  await Promise.all(all);
});
