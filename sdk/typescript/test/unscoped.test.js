// Calls whose context was lost: open scopes count them.
'use strict';

const assert = require('node:assert');
const { AsyncResource } = require('node:async_hooks');
const { once } = require('node:events');
const http = require('node:http');
const { test } = require('node:test');
const { app, events, faultloom, sendRequest, tracedRequest } = require('./support.js');
const { connect, grpc, Echo, unary } = require('./apps/grpc.js');

const FILE = 'unscoped.test.js';
const NODE = Number(process.versions.node.split('.')[0]);

// created before any request, like the queue of a connection pool
const outside = new AsyncResource('outside');
const lost = (call) => outside.runInAsyncScope(call);

/** Runs jobs one after the other, in the context in which it was created. */
function worker() {
  const jobs = [];
  let wake = () => undefined;
  (async () => {
    for (;;) {
      while (jobs.length > 0) {
        await jobs.shift()();
      }
      await new Promise((resolve) => (wake = resolve));
    }
  })();
  return (job) =>
    new Promise((resolve, reject) => {
      jobs.push(() => job().then(resolve, reject));
      wake();
    });
}

const early = worker();

/** Starts a traced request that is open until the returned function is called, which returns its events. */
function open() {
  const started = faultloom.start({});
  return { run: (work) => started.run(work), close: () => events(started.finish().segment) };
}

const traced = (work) => tracedRequest([], work).then(({ segment }) => events(segment));

/** A service without the SDK, and its name in histories. */
async function bare(t, file = 'http.js') {
  const { port } = await app(t, file, { sdk: false });
  return { port, peer: `127.0.0.1:${port}` };
}

test('a healthy call is not counted, a call with a lost context is', async (t) => {
  const { port, peer } = await bare(t);
  assert.deepStrictEqual(await traced(() => sendRequest(port, '/hello')), ['SEND GET /hello', 'RECV 200 gap', 'REPLY 0']);
  const get = () => http.get({ port, host: '127.0.0.1', path: '/item/17?a=1' }).on('response', (r) => r.resume());
  const twice = async () => {
    for (let n = 0; n < 2; n++) {
      await once(lost(get), 'response');
    }
  };
  assert.deepStrictEqual(await traced(twice), [`UNSCOPED 2 GET /item/{id} > ${peer} at ${FILE}`, 'REPLY 0']);
  // no fault fires, and without an open scope nothing is counted
  const plan = [faultloom.fault('unavailable')];
  const { result, segment } = await tracedRequest(plan, () => lost(() => sendRequest(port, '/hello')));
  assert.strictEqual(result.status, 200);
  assert.deepStrictEqual(events(segment), [`UNSCOPED 1 GET /hello > ${peer} at support.js`, 'REPLY 0']);
  await sendRequest(port, '/hello');
  assert.deepStrictEqual(await traced(async () => undefined), ['REPLY 0']);
});

test('a worker that was started before the request is counted', async (t) => {
  const { port, peer } = await bare(t);
  const seen = await traced(() => early(() => sendRequest(port, '/hello')));
  assert.deepStrictEqual(seen, [`UNSCOPED 1 GET /hello > ${peer} at support.js`, 'REPLY 0']);
});

test('a worker that another request started has the scope of that request while it is open', async (t) => {
  const { port, peer } = await bare(t);
  const call = ['SEND GET /hello', 'RECV 200 gap'];
  const first = open();
  const submit = first.run(worker);
  await first.run(() => submit(() => sendRequest(port, '/hello')));
  // Node.js does not distinguish this from work of the first request
  assert.deepStrictEqual(await traced(() => submit(() => sendRequest(port, '/hello'))), ['REPLY 0']);
  assert.deepStrictEqual(first.close(), [...call, ...call, 'REPLY 0']);
  const later = await traced(() => submit(() => sendRequest(port, '/hello')));
  assert.deepStrictEqual(later, [`UNSCOPED 1 GET /hello > ${peer} at support.js`, 'REPLY 0']);
});

test('a call after the answer is counted for others only, and every open scope counts it', async (t) => {
  const { port, peer } = await bare(t);
  const [one, two, three] = [open(), open(), open()];
  let send;
  const late = one.run(() => new Promise((resolve) => (send = resolve)).then(() => sendRequest(port, '/hello')));
  assert.deepStrictEqual(one.close(), ['REPLY 0']);
  send();
  await late;
  for (const other of [two, three]) {
    assert.deepStrictEqual(other.close(), [`UNSCOPED 1 GET /hello > ${peer} at support.js`, 'REPLY 0']);
  }
});

test('calls of an untraced HTTP request are not counted until it is answered', async (t) => {
  const { port, peer } = await bare(t);
  let next;
  const answered = new Promise((resolve) => (next = resolve));
  let late;
  const server = http.createServer(async (request, response) => {
    late = answered.then(() => sendRequest(port, '/late'));
    request.resume();
    await once(request, 'end');
    // the second call follows from an event of the first
    await new Promise((resolve) =>
      http.get({ port, host: '127.0.0.1', path: '/hello' }, (reply) =>
        reply.resume().on('end', () => sendRequest(port, '/hello').then(resolve)),
      ),
    );
    response.end('done');
  });
  await once(server.listen(0, '127.0.0.1'), 'listening');
  t.after(() => server.close());
  const other = open();
  // the caller's process is the same: its own call is one of another untraced request
  const { body } = await outerRequest(server.address().port);
  assert.strictEqual(body, 'done');
  assert.deepStrictEqual(other.close(), ['REPLY 0']);
  const second = open();
  next();
  await late;
  assert.deepStrictEqual(second.close(), [`UNSCOPED 1 GET /late > ${peer} at support.js`, 'REPLY 0']);
});

/** A POST without hooks, so that no scope counts it. */
function outerRequest(port) {
  const { Socket } = require('node:net');
  return new Promise((resolve, reject) => {
    const socket = new Socket().connect(port, '127.0.0.1');
    const chunks = [];
    socket.on('data', (chunk) => chunks.push(chunk));
    socket.on('error', reject);
    socket.on('end', () => resolve({ body: Buffer.concat(chunks).toString().split('\r\n\r\n')[1] }));
    socket.write('POST / HTTP/1.1\r\nhost: x\r\nconnection: close\r\ncontent-length: 2\r\n\r\nab');
  });
}

test('gRPC: a lost call is counted, calls of an untraced request are not', async (t) => {
  const { port, peer } = await bare(t, 'grpc.js');
  const client = connect(peer);
  t.after(() => client.close());
  assert.deepStrictEqual(await traced(() => unary(client, 'a')), ['SEND /test.Echo/Unary', 'RECV 0 gap', 'REPLY 0']);
  const text = await traced(() => lost(() => unary(client, 'a')));
  assert.deepStrictEqual(text, [`UNSCOPED 1 /test.Echo/Unary > 127.0.0.1:${port} at grpc.js`, 'REPLY 0']);

  const server = new grpc.Server();
  server.addService(Echo.service, {
    // the second call follows from the reply to the first
    Unary: (call, reply) =>
      client.Unary({ text: 'a' }, () => client.Unary({ text: 'b' }, (error, { text }) => reply(error, { text }))),
  });
  const own = await new Promise((resolve, reject) =>
    server.bindAsync('127.0.0.1:0', grpc.ServerCredentials.createInsecure(), (error, bound) =>
      error ? reject(error) : resolve(bound),
    ),
  );
  t.after(() => server.forceShutdown());
  const caller = await app(t, 'grpc.js', { sdk: false, env: { NEXT: `127.0.0.1:${own}` } });
  const outer = connect(`127.0.0.1:${caller.port}`);
  t.after(() => outer.close());
  const seen = await traced(() => unary(outer, 'call 1 hello'));
  assert.deepStrictEqual(seen, ['SEND /test.Echo/Unary', 'RECV 0 gap', 'REPLY 0']);
});

for (const name of ['undici', 'undici7', 'fetch']) {
  const skip = name === 'undici7' && NODE < 20 ? 'undici 7 needs Node.js 20' : false;
  test(`${name}: a lost call is counted once`, { skip }, async (t) => {
    const { port, peer } = await bare(t);
    const origin = `http://${peer}`;
    const ways = [() => fetch(`${origin}/hello`).then((response) => response.text())];
    if (name !== 'fetch') {
      const undici = require(name);
      const text = ({ body }) => body.text();
      const pool = new undici.Pool(origin, { connections: 1 });
      const client = new undici.Client(origin);
      const retrying = new undici.RetryAgent(new undici.Agent());
      t.after(() => Promise.all([pool.close(), client.close(), retrying.close()]));
      ways.length = 0;
      ways.push(
        () => undici.request(`${origin}/hello`).then(text),
        () => undici.fetch(`${origin}/hello`).then((response) => response.text()),
        () => undici.request(`${origin}/hello`, { dispatcher: retrying }).then(text),
        () => client.request({ path: '/hello', method: 'GET' }).then(text),
        // the second waits for the first
        () => Promise.all([1, 2].map(() => pool.request({ path: '/hello', method: 'GET' }).then(text))),
      );
    }
    for (const [n, way] of ways.entries()) {
      const seen = await traced(() => lost(way));
      const count = n === 4 ? 2 : 1;
      assert.strictEqual(seen.length, 2, `${n}: ${seen}`);
      assert.ok(seen[0].startsWith(`UNSCOPED ${count} GET /hello > ${peer} at`), `${n}: ${seen}`);
      const healthy = await traced(way);
      assert.strictEqual(healthy.filter((e) => e.startsWith('UNSCOPED')).length, 0, `${n}: ${healthy}`);
    }
  });
}

test('sixteen different calls are listed, and 64 are stored', async (t) => {
  const { port } = await bare(t);
  const seen = await traced(async () => {
    for (let n = 0; n < 70; n++) {
      await lost(() => sendRequest(port, `/a/x${n}y`));
    }
  });
  assert.strictEqual(seen.length, 18);
  assert.match(seen[0], /^UNSCOPED 1 GET \/a\/x6y > /);
  assert.match(seen[16], /^UNSCOPED 54 other > other at $/);
});
