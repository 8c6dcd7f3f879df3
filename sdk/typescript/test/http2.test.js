// Node's http2, both sides: healthy, disturbed, healthy; and everything else as without tracing.
'use strict';

const assert = require('node:assert');
const fs = require('node:fs');
const http2 = require('node:http2');
const https = require('node:https');
const net = require('node:net');
const os = require('node:os');
const path = require('node:path');
const { test } = require('node:test');
const { promisify } = require('node:util');
const { app, certificate, chain, descendants, events, faultloom, sendRequest, tracedRequest } = require('./support.js');
const { request } = require('./apps/http2.js');

const { fault } = faultloom;
const APIS = ['request', 'stream'];

/** A session that ends with the test. */
function connect(t, port, options = {}) {
  const session = http2.connect(`${options.ca ? 'https' : 'http'}://127.0.0.1:${port}`, options);
  session.on('error', () => undefined);
  t.after(() => session.destroy());
  return session;
}

/** Two services with one of the APIs: test → front → back. */
async function services(t, API, { back = {}, front = {} } = {}) {
  const both = await chain(t, 'http2.js', {
    back: { ...back, env: { API, ...back.env } },
    front: { ...front, env: { API, ...front.env } },
  });
  return { ...both, from: connect(t, both.first.port) };
}

/** The files of a new certificate as environment of the application; null: skipped. */
function certificateFiles(t) {
  const pair = certificate(t);
  if (pair === null) {
    return null;
  }
  const folder = fs.mkdtempSync(path.join(os.tmpdir(), 'faultloom-http2-'));
  t.after(() => fs.rmSync(folder, { recursive: true }));
  const env = { TLS: '1', KEY: `${folder}/key`, CERT: `${folder}/cert` };
  fs.writeFileSync(env.KEY, pair.key);
  fs.writeFileSync(env.CERT, pair.cert);
  return { env, ca: pair.cert };
}

for (const API of APIS) {
  test(`http2, ${API}: a request returns the whole tree`, async (t) => {
    const { from } = await services(t, API);
    const { result, segment } = await tracedRequest([], () => request('/call/2/hello', { from }));
    assert.deepStrictEqual(JSON.parse(result.body), [
      [200, 'hello /hello'],
      [200, 'hello /hello'],
    ]);
    assert.deepStrictEqual(events(segment), ['SEND GET /call/{id}/hello', 'RECV 200 < front', 'REPLY 0']);
    const calls = ['SEND GET /hello', 'RECV 200 < back'];
    assert.deepStrictEqual(events(descendants(segment)[0]), [...calls, ...calls, 'REPLY 200']);
    for (const name of ['x-faultloom-history', 'x-faultloom-reply']) {
      assert.strictEqual(result.headers[name], undefined);
    }
  });
}

const STREAM_CANCEL = /^The pending stream has been canceled \(caused by: connect ECONNREFUSED 127\.0\.0\.1:\d+\)$/;

const EXPECTED = [
  ['unavailable', {}, ['ERR_HTTP2_STREAM_CANCEL', STREAM_CANCEL], ['FAILED 14'], 0],
  ['status', { arg: 503 }, [503, /^$/], ['RECV 503'], 0],
  ['status', { arg: 7 }, [500, /^$/], ['RECV 7'], 0],
  ['deadline', {}, ['ETIMEDOUT', /./], ['FAILED 4'], 0],
  ['reset', {}, ['ECONNRESET', /^read ECONNRESET$/], ['FAILED 14'], 0],
  ['hang', { arg: 60 }, ['ETIMEDOUT', /./], ['FAILED 4'], 0],
  ['delay', { arg: 60 }, [200, /^hello \/hello$/], ['RECV 200 < back'], 1],
  ['lost-reply', {}, ['ECONNRESET', /^read ECONNRESET$/], ['FAILED 14 < back'], 1],
  ['empty-reply', {}, [200, /^$/], ['RECV 200 < back'], 1],
  ['corrupt-reply', {}, [200, /^hello \xff{6}$/], ['RECV 200 < back'], 1],
];

/** Disturbs the second of three calls that share a session with each fault. */
async function assertFaults(send) {
  for (const [kind, parts, [code, text], end, runs] of EXPECTED) {
    const plan = [fault(kind, { ...parts, callee: 'back', nth: 2 })];
    const { result, segment } = await tracedRequest(plan, () => send('/call/3/hello'));
    const [before, disturbed, after] = JSON.parse(Buffer.from(result.body, 'latin1'));
    assert.deepStrictEqual(before, [200, 'hello /hello'], kind);
    assert.deepStrictEqual(after, [200, 'hello /hello'], kind);
    assert.strictEqual(disturbed[0], code, kind);
    assert.match(disturbed[1], text, kind);
    const [front, ...backs] = descendants(segment);
    assert.deepStrictEqual(events(front).slice(2, 4), ['SEND GET /hello fault 0', ...end], kind);
    assert.strictEqual(backs.length, 2 + runs, kind);
  }
}

for (const API of APIS) {
  test(`http2, ${API}: each fault has the same error as the real failure, and the next call is healthy`, async (t) => {
    const { from } = await services(t, API);
    await assertFaults((target) => request(target, { from }));
  });

  test(`http2 over TLS, ${API}: each fault; HTTP/1.1 at the same port`, async (t) => {
    const files = certificateFiles(t);
    if (files === null) {
      return;
    }
    const { env, ca } = files;
    const { first } = await services(t, API, { back: { env }, front: { env } });
    const from = connect(t, first.port, { ca, servername: 'localhost' });
    await assertFaults((target) => request(target, { from }));

    const get = () =>
      new Promise((resolve, reject) => {
        const address = { host: '127.0.0.1', port: first.port, path: '/old' };
        const one = https.get({ ...address, ca, servername: 'localhost', agent: false }, (response) => {
          let text = '';
          response.on('data', (chunk) => (text += chunk));
          response.on('end', () => resolve(text));
        });
        one.on('error', reject);
      });
    const { result, segment } = await tracedRequest([], get);
    assert.strictEqual(result, 'one /old');
    assert.deepStrictEqual(events(segment), ['SEND GET /old', 'RECV 200 < front', 'REPLY 0']);
  });
}

test('the errors of http2 for a refused and a reset connection are those of the faults', async (t) => {
  const server = net.createServer().listen(0, '127.0.0.1');
  await new Promise((resolve) => server.once('listening', resolve));
  const { port } = server.address();
  server.on('connection', (socket) => socket.once('data', () => socket.resetAndDestroy()));
  const fields = ({ error, message, cause, events: names, body }) => [error, message, cause, names, body];
  const real = {};
  real.reset = await tracedRequest([], () => request('/hello', { from: connect(t, port) }));
  await new Promise((resolve) => server.close(resolve));
  real.unavailable = await tracedRequest([], () => request('/hello', { from: connect(t, port) }));
  const { from } = await services(t, 'request');
  for (const kind of ['reset', 'unavailable']) {
    const injected = await tracedRequest([fault(kind)], () => request('/hello', { from }));
    const normalized = JSON.stringify(fields(injected.result)).replace(/127\.0\.0\.1:\d+/, `127.0.0.1:${port}`);
    assert.strictEqual(normalized, JSON.stringify(fields(real[kind].result)), kind);
    assert.deepStrictEqual(events(real[kind].segment)[1], 'FAILED 14 gap');
    assert.deepStrictEqual(events(injected.segment)[1], 'FAILED 14');
  }
});

const REPLIES = [
  '/hello',
  '/big/10',
  '/big/5000000',
  '/length/1000',
  '/length/100000',
  '/pieces/100',
  '/events',
  '/status/204',
  '/status/304',
  '/status/404',
  '/trailers',
  '/file',
  '/push',
  '/refuse/NGHTTP2_REFUSED_STREAM',
  '/refuse/NGHTTP2_CANCEL',
];

/** What the application got, without what tracing may change. */
function visible({ headers, ...rest }) {
  const { date, 'cache-control': cache, 'content-length': length, ...others } = headers;
  return { ...rest, headers: others };
}

for (const API of APIS) {
  test(`http2, ${API}: replies, errors, trailers and events are as without tracing`, async (t) => {
    const bare = await app(t, 'http2.js', { sdk: false, env: { API } });
    const { from } = await services(t, API);
    const without = connect(t, bare.port);
    // with the compatibility API, which always waits for trailers
    const resets = ['/reset/NGHTTP2_INTERNAL_ERROR', '/reset/NGHTTP2_CANCEL'];
    for (const target of API === 'request' ? [...REPLIES, ...resets] : REPLIES) {
      const expected = visible(await request(target, { from: without }));
      const { result, segment } = await tracedRequest([], () => request(target, { from }));
      assert.deepStrictEqual(visible(result), expected, target);
      const isWhole = !/refuse|reset|events/.test(target);
      assert.strictEqual(events(segment)[1].includes('gap'), !isWhole, `${target}: ${events(segment)}`);
      assert.deepStrictEqual(visible(await request(target, { from })), expected, `${target}, untraced`);
    }
    for (const method of ['HEAD', 'DELETE']) {
      const expected = visible(await request('/hello', { from: without, method }));
      const { result, segment } = await tracedRequest([], () => request('/hello', { from, method }));
      assert.deepStrictEqual(visible(result), expected, method);
      assert.deepStrictEqual(events(segment)[1], 'RECV 200 < front', method);
    }
  });

  test(`http2, ${API}: a session that ends is a failure or a gap, as without tracing`, async (t) => {
    const bare = await app(t, 'http2.js', { sdk: false, env: { API } });
    const { first } = await services(t, API);
    for (const [target, end] of [
      ['/goaway/body', /^RECV 200 gap$/],
      ['/goaway', /^FAILED 14 gap$/],
    ]) {
      const expected = visible(await request(target, { from: connect(t, bare.port) }));
      const { result, segment } = await tracedRequest([], () => request(target, { from: connect(t, first.port) }));
      assert.deepStrictEqual(visible(result), expected, target);
      assert.match(events(segment)[1], end);
    }
  });

  test(`http2, ${API}: a large history follows the body, which arrives unchanged`, async (t) => {
    const { from } = await services(t, API);
    const whole = await tracedRequest([], () => request('/call/60/hello', { from }));
    assert.strictEqual(JSON.parse(whole.result.body).length, 60);
    const pieces = await tracedRequest([], () => request('/pieces/100/60', { from }));
    assert.strictEqual(pieces.result.body.length, 100_000);
    for (const { segment } of [whole, pieces]) {
      const [front, ...backs] = descendants(segment);
      assert.strictEqual(front.truncated, false);
      assert.strictEqual(backs.length, 60);
    }
    const head = await tracedRequest([], () => request('/call/60/hello', { from, method: 'HEAD' }));
    assert.strictEqual(descendants(head.segment)[0].truncated, true);
  });

  test(`http2, ${API}: frames of an RPC pass at once, and the history is in a trailer`, async (t) => {
    const { from } = await services(t, API);
    const chat = (headers) =>
      request('/frames/2', {
        from,
        headers,
        options: { endStream: false },
        prepare: (stream) => stream.once('data', () => stream.end('next')),
      });
    const body = '\0\0\0\0\x011\0\0\0\0\x012';
    for (const te of ['trailers', undefined]) {
      const { result, segment } = await tracedRequest([], () => chat(te && { te }));
      assert.strictEqual(result.body, body);
      assert.deepStrictEqual(Object.keys(result.trailers), []);
      assert.strictEqual(events(segment)[1], te ? 'RECV 200 < front' : 'RECV 200 gap');
    }
    const accepted = await tracedRequest([], () => chat({ 'content-type': 'application/connect+json' }));
    assert.strictEqual(descendants(accepted.segment).length, 3);
  });

  test(`http2, ${API}: concurrent streams of a session belong to their requests`, async (t) => {
    const { from } = await services(t, API);
    const all = await Promise.all(
      Array.from({ length: 20 }, (_, i) => {
        const plan = i % 2 ? [fault('status', { arg: 500 + i, callee: 'back', nth: 1 })] : [];
        return tracedRequest(plan, () => request(`/call/${i + 1}/hello`, { from }));
      }),
    );
    all.forEach(({ result, segment }, i) => {
      const replies = JSON.parse(result.body);
      assert.strictEqual(replies.length, i + 1);
      assert.deepStrictEqual(replies[0], i % 2 ? [500 + i, ''] : [200, 'hello /hello']);
      assert.strictEqual(descendants(segment)[0].events.length, 2 * (i + 1) + 1);
    });
  });

  test(`http2, ${API}: bodies of requests keep the scope, and unsent ones can be written`, async (t) => {
    const { from } = await services(t, API);
    const post = () => request('/echo', { from, method: 'POST', body: 'a'.repeat(100_000) });
    const { result, segment } = await tracedRequest([], post);
    assert.strictEqual(result.body.length, 100_000);
    assert.strictEqual(descendants(segment).length, 2);
    for (const kind of ['status', 'delay']) {
      const arg = kind === 'status' ? 503 : 50;
      const disturbed = await tracedRequest([fault(kind, { arg })], post);
      assert.strictEqual(disturbed.result.status, kind === 'status' ? 503 : 200);
      assert.deepStrictEqual(disturbed.result.events, kind === 'status' ? ['response', 'end', 'close'] : result.events);
    }
  });

  test(`http2, ${API}: without trust nothing changes`, async (t) => {
    const dormant = { env: { FAULTLOOM_TRUST: '' } };
    const bare = await app(t, 'http2.js', { sdk: false, env: { API } });
    const { from } = await services(t, API, { back: dormant, front: dormant });
    for (const target of REPLIES) {
      const headers = { 'x-faultloom': 'AAAA' };
      const expected = await request(target, { from: connect(t, bare.port), headers });
      const received = await request(target, { from, headers });
      delete expected.headers.date;
      delete received.headers.date;
      assert.deepStrictEqual(received, expected, target);
    }
    const { segment } = await tracedRequest([], () => request('/hello', { from }));
    assert.strictEqual(events(segment)[1], 'RECV 200 gap');
  });
}

test('http2: timeouts, signals, close and destroy end a delay, a hang and a slow reply', async (t) => {
  const { port } = await app(t, 'http2.js', { service: 'back' });
  const from = connect(t, port);
  const ways = {
    timeout: [(stream) => stream.setTimeout(50, () => stream.close(http2.constants.NGHTTP2_CANCEL)), {}, 4],
    signal: [() => undefined, { signal: () => AbortSignal.timeout(50) }, 4],
    close: [(stream) => setTimeout(() => stream.close(http2.constants.NGHTTP2_CANCEL), 50), {}, 1],
    destroy: [(stream) => setTimeout(() => stream.destroy(new Error('enough')), 50), {}, 1],
  };
  for (const [way, [prepare, options, code]] of Object.entries(ways)) {
    const call = () => request('/silent', { from, prepare, options: options.signal && { signal: options.signal() } });
    const expected = await call();
    for (const plan of [[fault('hang')], [fault('delay', { arg: 20_000 })], []]) {
      const startMs = performance.now();
      const { result, segment } = await tracedRequest(plan, call);
      assert.ok(performance.now() - startMs < 10_000, way);
      assert.deepStrictEqual(result, expected, way);
      assert.strictEqual(events(segment)[1], `FAILED ${code}${plan.length ? '' : ' gap'}`, way);
    }
    const healthy = await tracedRequest([], () => request('/hello', { from }));
    assert.strictEqual(healthy.result.body, 'hello /hello');
  }
});

test('http2: pushed streams arrive as without tracing', async (t) => {
  const bare = await app(t, 'http2.js', { sdk: false });
  const { port } = await app(t, 'http2.js', { service: 'back' });
  const pushes = async (target) => {
    const from = connect(t, target);
    const pushed = new Promise((resolve) => {
      from.on('stream', (stream, headers) => {
        let text = '';
        stream.on('data', (chunk) => (text += chunk));
        stream.on('close', () => resolve([headers[':path'], text, stream.rstCode]));
      });
    });
    const { body } = await request('/push', { from });
    return [body, await pushed];
  };
  const expected = await pushes(bare.port);
  assert.deepStrictEqual(expected, ['pushes', ['/pushed', 'pushed', 0]]);
  const { result, segment } = await tracedRequest([], () => pushes(port));
  assert.deepStrictEqual(result, expected);
  assert.deepStrictEqual(events(segment), ['SEND GET /push', 'RECV 200 < back', 'REPLY 0']);
});

test('http2: a caller that stops reading gets a gap, and its session stays usable', async (t) => {
  const { port } = await app(t, 'http2.js', { service: 'back' });
  const from = connect(t, port);
  for (const stop of [(stream) => stream.close(8), (stream) => stream.destroy()]) {
    const { segment } = await tracedRequest([], () =>
      request('/pieces/3000', { from, prepare: (stream) => stream.once('data', () => stop(stream)) }),
    );
    assert.strictEqual(events(segment)[1], 'RECV 200 gap');
    const again = await tracedRequest([], () => request('/hello', { from }));
    assert.strictEqual(events(again.segment)[1], 'RECV 200 < back');
  }
});

test('http2: only replies to an accepted envelope are changed, and the envelope is removed', async (t) => {
  const { port } = await app(t, 'http2.js', { service: 'back' });
  const from = connect(t, port);
  const untraced = await request('/headers', { from });
  assert.strictEqual(untraced.headers['cache-control'], undefined);
  assert.strictEqual(untraced.headers.vary, 'accept');
  const refused = await request('/headers', { from, headers: { 'x-faultloom': 'AAAA' } });
  assert.strictEqual(refused.headers['x-faultloom-history'], undefined);
  assert.strictEqual(JSON.parse(refused.body)['x-faultloom'], undefined);
  const headers = { 'Accept-Encoding': 'gzip, zstd' };
  const traced = await tracedRequest([], () => request('/headers', { from, headers }));
  const seen = JSON.parse(traced.result.body);
  assert.strictEqual(seen['x-faultloom'], undefined);
  assert.strictEqual(seen['accept-encoding'], 'gzip');
  assert.strictEqual(traced.result.headers.vary, 'accept');
});

test('http2: the time for a connection is that of the requests that wait for it', async (t) => {
  const { port } = await app(t, 'http2.js', { service: 'back' });
  const from = connect(t, port);
  const { segment } = await tracedRequest([], async () => {
    await request('/hello', { from });
    await request('/hello', { from });
  });
  const times = segment.events.filter((event) => event.kind === 'RECV_RESPONSE').map((event) => event.connectUs ?? 0);
  assert.strictEqual(times.length, 2);
  assert.ok(times[0] > 0 && times[1] === 0, String(times));
});

test('http2: a call that belongs to no request is counted, once', async (t) => {
  const { port } = await app(t, 'http2.js', { service: 'back' });
  const from = connect(t, port);
  let begin;
  const outside = new Promise((resolve) => (begin = resolve)).then(() => request('/hello', { from }));
  const { segment } = await tracedRequest([], async () => {
    begin();
    await outside;
    await request('/hello', { from });
  });
  const unscoped = `UNSCOPED 1 GET /hello > 127.0.0.1:${port} at http2.js`;
  assert.deepStrictEqual(events(segment), ['SEND GET /hello', 'RECV 200 < back', unscoped, 'REPLY 0']);
});

test('http2: util.promisify(connect) is traced', async (t) => {
  const { port } = await app(t, 'http2.js', { service: 'back' });
  const from = await promisify(http2.connect)(`http://127.0.0.1:${port}`);
  t.after(() => from.destroy());
  const { segment } = await tracedRequest([], () => request('/hello', { from }));
  assert.strictEqual(events(segment)[1], 'RECV 200 < back');
  await assert.rejects(promisify(http2.connect)('http://127.0.0.1:1'), { code: 'ECONNREFUSED' });
});

for (const FRAMEWORK of ['koa', 'fastify']) {
  test(`${FRAMEWORK} on http2: the callee's name is the route template`, async (t) => {
    const { from } = await services(t, 'request', { front: { env: { FRAMEWORK } } });
    const { result, segment } = await tracedRequest([], () => request('/cart/jo', { from }));
    assert.deepStrictEqual(JSON.parse(result.body), [[200, 'hello /hello']]);
    const [front] = descendants(segment);
    assert.strictEqual(front.name, 'GET /cart/{user}');
    assert.deepStrictEqual(events(front), ['SEND GET /hello', 'RECV 200 < back', 'REPLY 200']);
  });
}

test('undici over HTTP/2 is traced once', async (t) => {
  const files = certificateFiles(t);
  if (files === null) {
    return;
  }
  const { port } = await app(t, 'http2.js', { service: 'back', env: files.env });
  const { Agent, request: send } = require('undici');
  const dispatcher = new Agent({ allowH2: true, connect: { ca: files.ca, servername: 'localhost' } });
  t.after(() => dispatcher.destroy());
  const get = async () => {
    const { statusCode, body } = await send(`https://127.0.0.1:${port}/headers`, { dispatcher });
    return [statusCode, await body.json()];
  };
  for (const [plan, end] of [
    [[], 'RECV 200 < back'],
    [[fault('status', { arg: 503 })], 'RECV 503'],
    [[], 'RECV 200 < back'],
  ]) {
    const { result, segment } = await tracedRequest(plan, get);
    assert.deepStrictEqual(events(segment).slice(1), [end, 'REPLY 0']);
    assert.ok(plan.length > 0 || result[1][':method'] === 'GET', 'HTTP/2');
  }
});
