// The ways to send a request with Node's HTTP client.
'use strict';

const assert = require('node:assert');
const http = require('node:http');
const https = require('node:https');
const net = require('node:net');
const { test } = require('node:test');
const { gunzipSync, gzipSync } = require('node:zlib');
const { encodeTail } = require('../dist/wire/carrier.js');
const { app, certificate, events, faultloom, tracedRequest } = require('./support.js');

const { fault } = faultloom;

function finish(one, body) {
  return new Promise((resolve) => {
    one.on('response', (response) => {
      const chunks = [];
      response.on('data', (chunk) => chunks.push(chunk));
      response.on('end', () => resolve(Buffer.concat(chunks).toString()));
    });
    one.on('error', (error) => resolve(error.code));
    one.end(body);
  });
}

const WAYS = {
  'a URL and options': (port) => finish(http.request(new URL(`http://127.0.0.1:${port}/hello?x=1`), { method: 'GET' })),
  'only the URL as a string': (port) => finish(http.request(`http://127.0.0.1:${port}/hello`)),
  'agent: false': (port) => finish(http.request({ host: '127.0.0.1', port, path: '/hello', agent: false })),
  createConnection: (port) =>
    finish(
      http.request({ host: '127.0.0.1', port, path: '/hello', createConnection: () => net.connect(port, '127.0.0.1') }),
    ),
  'createConnection with a callback': (port) =>
    finish(
      http.request({
        host: '127.0.0.1',
        port,
        path: '/hello',
        createConnection: (_options, done) => {
          const socket = net.connect(port, '127.0.0.1', () => done(null, socket));
        },
      }),
    ),
  'a list of headers': (port) =>
    finish(http.request({ host: '127.0.0.1', port, path: '/hello', headers: ['Host', 'a', 'Accept', '*/*'] })),
  'a header that is set later': (port) => {
    const one = http.request({ host: '127.0.0.1', port, path: '/hello' });
    one.setHeader('accept-encoding', 'zstd');
    return finish(one);
  },
  'an Expect header': (port) => {
    const one = http.request({
      host: '127.0.0.1',
      port,
      path: '/hello',
      method: 'GET',
      headers: { Expect: '100-continue' },
    });
    one.flushHeaders();
    return finish(one);
  },
};

for (const [way, make] of Object.entries(WAYS)) {
  test(`http.request with ${way}: healthy, disturbed, delayed, healthy`, async (t) => {
    const { port } = await app(t, 'http.js', { service: 'back' });
    for (const [plan, text, end] of [
      [[], /^hello \/hello/, 'RECV 200 < back'],
      [[fault('unavailable')], /^ECONNREFUSED$/, 'FAILED 14'],
      [[fault('status', { arg: 503 })], /^$/, 'RECV 503'],
      [[fault('delay', { arg: 20 })], /^hello \/hello/, 'RECV 200 < back'],
      [[], /^hello \/hello/, 'RECV 200 < back'],
    ]) {
      const { result, segment } = await tracedRequest(plan, () => make(port));
      assert.match(result, text);
      assert.strictEqual(events(segment)[1], end);
    }
  });
}

test('https, both sides', async (t) => {
  const pair = certificate(t);
  if (pair === null) {
    return;
  }
  const { key, cert } = pair;
  const server = https.createServer({ key, cert }, (_request, response) => response.end('secret'));
  await new Promise((resolve) => server.listen(0, '127.0.0.1', resolve));
  t.after(() => {
    server.close();
    server.closeAllConnections();
  });
  const { port } = server.address();
  const make = () =>
    finish(https.request({ host: '127.0.0.1', port, path: '/hello', ca: cert, servername: 'localhost' }));
  for (const [plan, text, end] of [
    [[], 'secret', 'RECV 200 < test'],
    [[fault('unavailable')], 'ECONNREFUSED', 'FAILED 14'],
    [[fault('status', { arg: 503 })], '', 'RECV 503'],
    [[fault('lost-reply')], 'ECONNRESET', 'FAILED 14 < test'],
    [[fault('delay', { arg: 20 })], 'secret', 'RECV 200 < test'],
  ]) {
    const { result, segment } = await tracedRequest(plan, make);
    assert.strictEqual(result, text);
    assert.strictEqual(events(segment)[1], end);
  }
});

test('real failures are recorded with their code and a gap', async (t) => {
  const closed = net.createServer().listen(0, '127.0.0.1');
  await new Promise((resolve) => closed.once('listening', resolve));
  const { port } = closed.address();
  closed.on('connection', (socket) => socket.once('data', () => socket.destroy()));
  const dropped = await tracedRequest([fault('lost-reply')], () => finish(http.request({ host: '127.0.0.1', port })));
  assert.strictEqual(dropped.result, 'ECONNRESET');
  assert.strictEqual(events(dropped.segment)[1], 'FAILED 14 gap');
  await new Promise((resolve) => closed.close(resolve));
  for (const call of [
    () => finish(http.request({ host: '127.0.0.1', port })),
    () => fetch(`http://127.0.0.1:${port}/`).catch((e) => e.cause.code),
  ]) {
    const { result, segment } = await tracedRequest([], call);
    assert.strictEqual(result, 'ECONNREFUSED');
    assert.strictEqual(events(segment)[1], 'FAILED 14 gap');
  }
});

test('a call that is not sent because of a fault has no gap, even if the application cancels it', async (t) => {
  const { port } = await app(t, 'http.js', { service: 'back' });
  for (const plan of [[fault('status', { arg: 503 })], [fault('hang')], [fault('delay', { arg: 20_000 })]]) {
    const { segment } = await tracedRequest(plan, () => {
      return new Promise((resolve) => {
        const one = http.request({ host: '127.0.0.1', port, path: '/hello', method: 'POST' });
        one.on('error', () => undefined);
        one.on('close', resolve);
        one.write('the start of a body');
        setTimeout(() => one.destroy(), 20);
      });
    });
    assert.deepStrictEqual(events(segment), ['SEND POST /hello fault 0', 'FAILED 1', 'REPLY 0'], plan[0].kind);
  }
});

/** The history of an empty scope of the service `back`, as a tail. */
const TAIL = encodeTail(Buffer.from(`01${'11'.repeat(8)}00046261636b0000`, 'hex'));

/** A server that sends these bytes as the reply to each request and then calls `after` with the socket. */
async function scripted(t, reply, after) {
  const server = net.createServer((socket) => {
    socket.on('error', () => undefined);
    socket.once('data', () => socket.write(reply, () => after(socket)));
  });
  await new Promise((resolve) => server.listen(0, '127.0.0.1', resolve));
  t.after(() => server.close());
  return server.address().port;
}

function head(...headers) {
  return Buffer.from(['HTTP/1.1 200 OK', 'x-faultloom-reply: tail', ...headers, '', ''].join('\r\n'));
}

/** The names of the events of a request and its response until the request closes and the response, if any, ends. */
async function eventsOf(one) {
  const names = [];
  const body = [];
  await new Promise((resolve) => {
    let open = 1;
    const end = () => --open === 0 && resolve();
    one.on('response', (response) => {
      open++;
      names.push('response');
      response.on('data', (chunk) => body.push(chunk));
      response.on('error', (error) => names.push(`response ${error.code}`));
      response.on('end', () => names.push('end'));
      response.on('close', end);
    });
    one.on('error', (error) => names.push(error.code));
    one.on('close', end);
    one.end();
  });
  return { names, body: Buffer.concat(body) };
}

for (const length of [true, false]) {
  const way = length ? 'a known length' : 'an unknown length';
  test(`a compressed reply of ${way} is complete although its connection closes before it is decoded`, async (t) => {
    const body = Buffer.from(Array.from({ length: 30_000 }, (_, i) => i).join(' '));
    const packed = gzipSync(Buffer.concat([body, TAIL]));
    const lengths = length ? [`content-length: ${packed.length}`] : [];
    const reply = Buffer.concat([head('content-encoding: gzip', 'connection: close', ...lengths), packed]);
    const port = await scripted(t, reply, (socket) => socket.end());
    for (let i = 0; i < 20; i++) {
      const { result, segment } = await tracedRequest([], () =>
        eventsOf(http.request({ host: '127.0.0.1', port, agent: false })),
      );
      assert.deepStrictEqual(result.names, ['response', 'end']);
      assert.ok(gunzipSync(result.body).equals(body));
      assert.match(events(segment)[1], /^RECV 200/);
    }
  });
}

test('a request that is ended while its reply is awaited has no response and fails at once', async (t) => {
  const reply = Buffer.concat([head('content-length: 3000'), Buffer.alloc(1000)]);
  const port = await scripted(t, reply, () => undefined);
  for (const [error, code] of [
    [undefined, 'ECONNRESET'],
    [Object.assign(new Error('too slow'), { code: 'ETOOSLOW' }), 'ETOOSLOW'],
  ]) {
    let turns = 0; // of the event loop, from the end of the request to its events
    const { result, segment } = await tracedRequest([], () => {
      const one = http.request({ host: '127.0.0.1', port, agent: false });
      let isClosed = false;
      one.on('close', () => (isClosed = true));
      const count = () => ++turns < 1000 && !isClosed && setImmediate(count);
      const end = () => {
        one.destroy(error);
        count();
      };
      const awaitReply = () =>
        one.socket.bytesRead === reply.length ? setTimeout(end, 30) : setImmediate(awaitReply);
      one.on('socket', (socket) => socket.on('connect', awaitReply));
      return eventsOf(one);
    });
    assert.deepStrictEqual(result.names, [code]);
    assert.ok(turns < 10, `${turns} turns`);
    assert.deepStrictEqual(events(segment).slice(1), ['RECV 200 gap', 'REPLY 0']);
  }
});

// of an unknown length, fetch hangs in Node 20 without tracing as well
test('fetch fails at once if a compressed reply cannot be decoded', { timeout: 20_000 }, async (t) => {
  const bytes = Buffer.alloc(3000, 'x');
  const reply = Buffer.concat([head('content-encoding: gzip', `content-length: ${bytes.length}`), bytes]);
  // a server of its own for each call: the first one's connection would be reused while its server closes it
  const ports = [];
  for (let i = 0; i < 2; i++) {
    ports.push(await scripted(t, reply, (socket) => socket.end()));
  }
  const get = () => fetch(`http://127.0.0.1:${ports.pop()}/`).then((response) => response.text());
  const failure = (error) => [error.name, error.cause?.code];
  const untraced = await get().then(() => 'a body', failure);
  assert.deepStrictEqual(untraced, ['TypeError', 'Z_DATA_ERROR']);
  const { result, segment } = await tracedRequest([], () => get().then(() => 'a body', failure));
  assert.deepStrictEqual(result, untraced);
  assert.match(events(segment)[1], /^RECV 200/);
});

test('the announcement of a tail counts for nothing where a reply may not have one', async (t) => {
  const reply = Buffer.from(
    'HTTP/1.1 302 Found\r\nx-faultloom-reply: tail\r\nlocation: /next\r\ncontent-length: 9\r\n\r\ncut',
  );
  const port = await scripted(t, reply, () => undefined);
  const { result, segment } = await tracedRequest([], () =>
    fetch(`http://127.0.0.1:${port}/`, { redirect: 'manual' }).then((response) => response.status),
  );
  assert.strictEqual(result, 302);
  assert.match(events(segment)[1], /^RECV 302 gap/);
});
