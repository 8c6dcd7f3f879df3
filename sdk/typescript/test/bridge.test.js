// Hops that run only OpenTelemetry, and the export of bridged and sampled requests.
'use strict';

const assert = require('node:assert');
const http = require('node:http');
const path = require('node:path');
const { test } = require('node:test');
const { app, events, faultloom, sendRequest, tracedRequest } = require('./support.js');
const { connect, unary } = require('./apps/grpc.js');

const { fault } = faultloom;
const OPENTELEMETRY = path.join(__dirname, 'apps/opentelemetry.js');

/** A collector; `next()` waits for the next export. */
async function collector(t) {
  const exports = [];
  let notify = () => undefined;
  const server = http.createServer((message, response) => {
    const chunks = [];
    message.on('data', (chunk) => chunks.push(chunk));
    message.on('end', () => {
      exports.push({ headers: message.headers, ...JSON.parse(Buffer.concat(chunks)) });
      response.end('{}');
      notify();
    });
  });
  await new Promise((resolve) => server.listen(0, '127.0.0.1', resolve));
  t.after(() => {
    server.close();
    server.closeAllConnections();
  });
  const next = async () => {
    while (exports.length === 0) {
      await new Promise((resolve) => (notify = resolve));
    }
    return exports.shift();
  };
  return { url: `http://127.0.0.1:${server.address().port}/v1/traces`, next };
}

/** The services and the names of their spans. */
function spansOf({ resourceSpans }) {
  return resourceSpans.map((one) => [
    one.resource.attributes[0].value.stringValue,
    one.scopeSpans[0].spans.map((span) => span.name),
  ]);
}

for (const client of ['http', 'fetch']) {
  test(`a plan crosses a hop with only OpenTelemetry (${client})`, async (t) => {
    const { url, next } = await collector(t);
    const back = await app(t, 'http.js', { service: 'back' });
    const mid = await app(t, 'http.js', {
      service: 'mid',
      env: { NEXT: `127.0.0.1:${back.port}`, FAULTLOOM_PEERS: `127.0.0.1:${back.port}=back`, FAULTLOOM_EXPORT: url },
    });
    const hop = await app(t, 'http.js', {
      sdk: false,
      flags: ['--require', OPENTELEMETRY],
      env: { NEXT: `127.0.0.1:${mid.port}`, CLIENT: client },
    });
    const plan = [fault('unavailable', { caller: 'mid', callee: 'back' })];
    const { result, segment } = await tracedRequest(plan, () => sendRequest(hop.port, '/call/1/call/1/hello'), {
      bridge: true,
    });
    const [[status, inner]] = JSON.parse(result.body);
    assert.strictEqual(status, 200);
    assert.strictEqual(JSON.parse(inner)[0][0], 'ECONNREFUSED');
    assert.deepStrictEqual(events(segment), ['SEND GET /call/{id}/call/{id}/hello', 'RECV 200 gap', 'REPLY 0']);
    const exported = await next();
    assert.deepStrictEqual(spansOf(exported), [['mid', ['GET /call/{id}/hello', 'GET /hello']]]);

    const without = await tracedRequest(plan, () => sendRequest(hop.port, '/call/1/call/1/hello'));
    assert.deepStrictEqual(JSON.parse(JSON.parse(without.result.body)[0][1]), [[200, 'hello /hello']]);
  });
}

test('a plan crosses a gRPC hop with only OpenTelemetry', async (t) => {
  const back = await app(t, 'grpc.js', { service: 'back' });
  const mid = await app(t, 'grpc.js', { service: 'mid', env: { NEXT: `127.0.0.1:${back.port}` } });
  const hop = await app(t, 'grpc.js', {
    sdk: false,
    flags: ['--require', OPENTELEMETRY],
    env: { NEXT: `127.0.0.1:${mid.port}` },
  });
  const client = connect(`127.0.0.1:${hop.port}`);
  t.after(() => client.close());
  const plan = [fault('status', { arg: 7, caller: 'mid' })];
  const disturbed = await tracedRequest(plan, () => unary(client, 'call 1 call 1'), { bridge: true });
  assert.strictEqual(JSON.parse(JSON.parse(disturbed.result)[0])[0][0], 7);
  assert.strictEqual(events(disturbed.segment)[1], 'RECV 0 gap');
  const healthy = await tracedRequest(plan, () => unary(client, 'call 1 call 1'));
  assert.strictEqual(JSON.parse(JSON.parse(healthy.result)[0])[0], 'hello');
});

test('OpenTelemetry and the SDK work in one process, in both load orders', async (t) => {
  const register = path.join(__dirname, '..', 'register.js');
  const back = await app(t, 'http.js', { service: 'back' });
  for (const order of [
    [OPENTELEMETRY, register],
    [register, OPENTELEMETRY],
  ]) {
    for (const client of ['http', 'fetch']) {
      const front = await app(t, 'http.js', {
        service: 'front',
        flags: ['--no-register', ...order.flatMap((file) => ['--require', file])],
        env: { NEXT: `127.0.0.1:${back.port}`, CLIENT: client },
      });
      const plan = [fault('unavailable', { caller: 'front', nth: 2 })];
      const { result, segment } = await tracedRequest(plan, () => sendRequest(front.port, '/call/3/headers'));
      const [first, second, third] = JSON.parse(result.body);
      assert.match(JSON.parse(first[1]).traceparent, /^00-/);
      assert.deepStrictEqual([first[0], second[0], third[0]], [200, 'ECONNREFUSED', 200]);
      assert.strictEqual(events(segment)[1], 'RECV 200 < front');
    }
  }
});

test('a sampled request is exported once, with the histories of all its callees', async (t) => {
  const { url, next } = await collector(t);
  const back = await app(t, 'http.js', { service: 'back' });
  const env = { NEXT: `127.0.0.1:${back.port}`, FAULTLOOM_EXPORT: url, FAULTLOOM_SAMPLE: '1/1' };
  const front = await app(t, 'http.js', { service: 'front', env: { ...env, FRAMEWORK: 'express' } });
  const reply = await sendRequest(front.port, '/cart/17');
  assert.deepStrictEqual(JSON.parse(reply.body), [[200, 'hello /hello']]);
  assert.strictEqual(reply.headers['x-faultloom-history'], undefined);
  assert.strictEqual(reply.headers['cache-control'], undefined);
  const exported = await next();
  assert.match(exported.headers['content-type'], /^application\/json/);
  assert.deepStrictEqual(spansOf(exported), [
    ['front', ['GET /cart/{user}', 'GET /hello']],
    ['back', ['GET /hello']],
  ]);

  const rpc = await app(t, 'grpc.js', { service: 'rpc', env: { ...env, NEXT: '' } });
  const client = connect(`127.0.0.1:${rpc.port}`);
  t.after(() => client.close());
  assert.strictEqual(await unary(client, 'hello'), 'hello');
  assert.deepStrictEqual(spansOf(await next()), [['rpc', ['/test.Echo/Unary']]]);
});
