// undici's dispatchers and functions that send a request.
'use strict';

const assert = require('node:assert');
const { PassThrough, pipeline, Readable, Writable } = require('node:stream');
const { test } = require('node:test');
const { app, events, faultloom, tracedRequest } = require('./support.js');

const { fault } = faultloom;
const NODE = Number(process.versions.node.split('.')[0]);

/** Functions that send a request with one API each and return the body. */
function apis(undici, origin) {
  const closing = (dispatcher, work) => work(dispatcher).finally(() => dispatcher.close());
  const text = async ({ body }) => body.text();
  return {
    request: () => undici.request(`${origin}/hello`, { headers: new Map([['x-a', '1']]) }).then(text),
    Client: () =>
      closing(new undici.Client(origin), (client) => client.request({ path: '/hello', method: 'GET' }).then(text)),
    Pool: () =>
      closing(new undici.Pool(origin), (pool) =>
        pool.request({ path: '/hello', method: 'GET', headers: ['x-a', '1'] }).then(text),
      ),
    fetch: () => undici.fetch(`${origin}/hello`).then((response) => response.text()),
    stream: async () => {
      const chunks = [];
      await undici.stream(
        `${origin}/hello`,
        { method: 'GET' },
        () => new Writable({ write: (chunk, _, done) => done(null, chunks.push(chunk)) }),
      );
      return Buffer.concat(chunks).toString();
    },
    pipeline: () =>
      new Promise((resolve, reject) => {
        const out = new PassThrough();
        const chunks = [];
        out.on('data', (chunk) => chunks.push(chunk));
        const through = undici.pipeline(`${origin}/echo`, { method: 'POST' }, ({ body }) => body);
        pipeline(Readable.from(['hello /hello']), through, out, (error) =>
          error ? reject(error) : resolve(Buffer.concat(chunks).toString()),
        );
      }),
  };
}

for (const name of ['undici', 'undici7']) {
  const skip = name === 'undici7' && NODE < 20 ? 'undici 7 needs Node.js 20' : false;

  test(`${name}: every API, healthy and disturbed`, { skip }, async (t) => {
    const { port } = await app(t, 'http.js', { service: 'back' });
    for (const [api, work] of Object.entries(apis(require(name), `http://127.0.0.1:${port}`))) {
      for (const [plan, expected, end] of [
        [[], 'hello /hello', 'RECV 200 < back'],
        [[fault('unavailable')], 'ECONNREFUSED', 'FAILED 14'],
        [[fault('status', { arg: 503 })], '', 'RECV 503'],
        [[fault('delay', { arg: 10 })], 'hello /hello', 'RECV 200 < back'],
        [[fault('lost-reply')], 'ECONNRESET', 'FAILED 14 < back'],
        [[fault('empty-reply')], '', 'RECV 200 < back'],
        [[], 'hello /hello', 'RECV 200 < back'],
      ]) {
        const { result, segment } = await tracedRequest(plan, work);
        assert.strictEqual(result instanceof Error ? (result.cause?.code ?? result.code) : result, expected, api);
        assert.strictEqual(events(segment)[1], end, api);
      }
    }
  });

  test(`${name}: a retrying agent gets the faults, and every attempt is a call`, { skip }, async (t) => {
    const undici = require(name);
    const { port } = await app(t, 'http.js', { service: 'back' });
    for (const [plan, end] of [
      [fault('status', { arg: 503, maxFires: 1 }), 'RECV 503'],
      [fault('reset', { maxFires: 1 }), 'FAILED 14'],
    ]) {
      const dispatcher = new undici.RetryAgent(new undici.Agent(), { minTimeout: 1 });
      const { result, segment } = await tracedRequest([plan], () =>
        undici.request(`http://127.0.0.1:${port}/hello`, { dispatcher }).then(({ body }) => body.text()),
      );
      assert.strictEqual(result, 'hello /hello');
      assert.deepStrictEqual(events(segment), [
        'SEND GET /hello fault 0',
        end,
        'SEND GET /hello',
        'RECV 200 < back',
        'REPLY 0',
      ]);
      await dispatcher.close();
    }
  });

  test(`${name}: the request's headersTimeout ends a delay or a hang`, { skip }, async (t) => {
    const { port } = await app(t, 'http.js', { service: 'back' });
    for (const kind of ['delay', 'hang']) {
      const startMs = Date.now();
      const { result, segment } = await tracedRequest([fault(kind, { arg: 20_000 })], () =>
        require(name).request(`http://127.0.0.1:${port}/hello`, { headersTimeout: 50 }),
      );
      assert.strictEqual(result.code, 'UND_ERR_HEADERS_TIMEOUT');
      assert.deepStrictEqual(events(segment), ['SEND GET /hello fault 0', 'FAILED 4', 'REPLY 0']);
      assert.ok(Date.now() - startMs < 10_000);
    }
  });

  test(`${name}: a slow reader gets everything`, { skip }, async (t) => {
    const { port } = await app(t, 'http.js', { service: 'back' });
    const { result, segment } = await tracedRequest([], async () => {
      const { body } = await require(name).request(`http://127.0.0.1:${port}/pieces/2000/0`);
      let bytes = 0;
      for await (const chunk of body) {
        bytes += chunk.length;
        await new Promise((resolve) => setImmediate(resolve));
      }
      return bytes;
    });
    assert.strictEqual(result, 2_000_000);
    assert.strictEqual(events(segment)[1], 'RECV 200 < back');
  });
}
