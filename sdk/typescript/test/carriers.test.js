// The carriers of histories on HTTP replies, and replies that must not be changed.
'use strict';

const assert = require('node:assert');
const http = require('node:http');
const { test } = require('node:test');
const { app, chain, descendants, events, faultloom, sendRequest, tracedRequest } = require('./support.js');

const { fault } = faultloom;
const MANY = 60; // so many calls that their history does not fit into a header

/** Asserts that the segment of the first callee has this many calls, each with its history. */
function assertComplete(segment, calls) {
  const [front, ...backs] = descendants(segment);
  assert.strictEqual(front.truncated, false);
  // an earlier request whose caller gave up may still be making calls, which belong to no open request
  const own = front.events.filter((event) => event.kind !== 'UNSCOPED_CALLS');
  assert.strictEqual(own.length, 2 * calls + 1);
  assert.strictEqual(backs.length, calls);
}

const CALLERS = {
  http: (port, path, options) => sendRequest(port, path, options),
  fetch: async (port, path, options = {}) => {
    const response = await fetch(`http://127.0.0.1:${port}${path}`, options);
    return {
      status: response.status,
      headers: Object.fromEntries(response.headers),
      body: Buffer.from(await response.arrayBuffer()),
    };
  },
  undici: async (port, path, options = {}) => {
    const { statusCode, headers, body } = await require('undici').request(`http://127.0.0.1:${port}${path}`, options);
    return { status: statusCode, headers, body: Buffer.from(await body.arrayBuffer()) };
  },
};

for (const [name, call] of Object.entries(CALLERS)) {
  test(`${name}: a large history follows the body, which arrives unchanged`, async (t) => {
    const { first } = await chain(t, 'http.js');
    const whole = await tracedRequest([], () => call(first.port, `/call/${MANY}/hello`));
    assert.strictEqual(JSON.parse(whole.result.body).length, MANY);
    assert.strictEqual(Number(whole.result.headers['content-length']), whole.result.body.length);
    assertComplete(whole.segment, MANY);

    // the headers are sent before the history is known
    const pieces = await tracedRequest([], () => call(first.port, `/pieces/100/${MANY}`));
    assert.strictEqual(pieces.result.body.length, 100_000);
    for (let n = 0; n < 100; n++) {
      assert.strictEqual(pieces.result.body[n * 1000 + 500], 100 - n);
    }
    assertComplete(pieces.segment, MANY);

    const large = await tracedRequest([], () => call(first.port, '/big/5000000'));
    assert.strictEqual(large.result.body.toString(), 'x'.repeat(5_000_000));
    assertComplete(large.segment, 0);
  });

  test(`${name}: replies that may not have a tail`, async (t) => {
    const { first } = await chain(t, 'http.js');
    const streaming = await tracedRequest([], () => call(first.port, '/events'));
    assert.strictEqual(streaming.result.body.toString(), 'data: 1\n\ndata: 2\n\n');
    assert.deepStrictEqual(events(streaming.segment), ['SEND GET /events', 'RECV 200 gap', 'REPLY 0']);
    const none = await tracedRequest([], () => call(first.port, '/status/204'));
    assert.strictEqual(none.result.status, 204);
    assertComplete(none.segment, 0);
    const unchanged = await tracedRequest([], () => call(first.port, '/status/304'));
    assert.strictEqual(unchanged.result.status, 304);
    assertComplete(unchanged.segment, 0);
    const head = await tracedRequest([], () => call(first.port, `/call/${MANY}/hello`, { method: 'HEAD' }));
    assert.strictEqual(head.result.body.length, 0);
    const [front] = descendants(head.segment);
    assert.strictEqual(front.truncated, true);
    const ranged = await tracedRequest([], () =>
      call(first.port, `/call/${MANY}/hello`, { headers: { range: 'bytes=0-' } }),
    );
    assert.strictEqual(JSON.parse(ranged.result.body).length, MANY);
    assert.strictEqual(descendants(ranged.segment)[0].truncated, true);
  });

  test(`${name}: a history of 5,000 events`, async (t) => {
    const { first } = await chain(t, 'http.js');
    const { segment } = await tracedRequest([], () => call(first.port, '/call/1250/hello'));
    assertComplete(segment, 1250);
  });
}

test('only replies to an accepted envelope are changed, and they are marked as not cacheable', async (t) => {
  const bare = await app(t, 'http.js', { sdk: false });
  const back = await app(t, 'http.js', { service: 'back' });
  // the headers of a request as they are sent
  const observed = await tracedRequest([], () =>
    sendRequest(bare.port, '/headers', { headers: { 'accept-encoding': 'gzip, compress, br' } }),
  );
  const sent = JSON.parse(observed.result.body);
  assert.strictEqual(sent['accept-encoding'], 'gzip, br');
  assert.deepStrictEqual(events(observed.segment), ['SEND GET /headers', 'RECV 200 gap', 'REPLY 0']);

  const untraced = await sendRequest(back.port, '/headers');
  assert.strictEqual(untraced.headers['cache-control'], undefined);
  assert.strictEqual(untraced.headers.vary, 'accept');
  for (const name of ['x-faultloom-history', 'x-faultloom-reply']) {
    assert.strictEqual(untraced.headers[name], undefined);
  }
  const refused = await sendRequest(back.port, '/headers', { headers: { 'x-faultloom': 'AAAA' } });
  assert.strictEqual(refused.headers['x-faultloom-history'], undefined);
  assert.strictEqual(JSON.parse(refused.body)['x-faultloom'], undefined);

  const traced = await sendRequest(back.port, '/headers', { headers: { 'x-faultloom': sent['x-faultloom'] } });
  assert.strictEqual(traced.headers['cache-control'], 'no-store, no-transform');
  assert.strictEqual(traced.headers.vary, 'accept, x-faultloom');
  assert.match(traced.headers['x-faultloom-history'], /^[\w-]+$/);
  assert.strictEqual(JSON.parse(traced.body)['x-faultloom'], undefined);
});

test('a caller that stops reading gets a gap, and its connection stays usable', async (t) => {
  const { first } = await chain(t, 'http.js');
  const agent = new http.Agent({ keepAlive: true, maxSockets: 1 });
  t.after(() => agent.destroy());
  const stopped = await tracedRequest([], () => {
    return new Promise((resolve) => {
      http.get({ host: '127.0.0.1', port: first.port, path: `/pieces/3000/${MANY}`, agent }, (response) => {
        response.once('data', () => {
          response.destroy();
          resolve('stopped');
        });
      });
    });
  });
  assert.deepStrictEqual(events(stopped.segment), ['SEND GET /pieces/{id}/{id}', 'RECV 200 gap', 'REPLY 0']);
  for (let n = 0; n < 3; n++) {
    const again = await tracedRequest([], () => sendRequest(first.port, `/call/${MANY}/hello`, { agent }));
    assertComplete(again.segment, MANY);
    const small = await tracedRequest([], () => sendRequest(first.port, '/hello', { agent }));
    assert.strictEqual(small.result.body.toString(), 'hello /hello');
    assertComplete(small.segment, 0);
  }
});

test('the deadline of the caller ends a delay or a hang', async (t) => {
  const { port } = await app(t, 'http.js', { service: 'back' });
  const url = `http://127.0.0.1:${port}/hello`;
  for (const kind of ['hang', 'delay']) {
    const plan = [fault(kind, { arg: 20_000 })];
    const end = ['SEND GET /hello fault 0', 'FAILED 4', 'REPLY 0'];
    const canceled = ['SEND GET /hello fault 0', 'FAILED 1', 'REPLY 0'];
    const startMs = Date.now();
    const byEvent = await tracedRequest(plan, () => {
      return new Promise((resolve) => {
        const one = http.get(url, { timeout: 50 });
        one.on('timeout', () => one.destroy(new Error('too slow')));
        one.on('error', (error) => resolve(error.message));
      });
    });
    assert.strictEqual(byEvent.result, 'too slow');
    assert.deepStrictEqual(events(byEvent.segment), end);

    const bySignal = await tracedRequest(plan, () => sendRequest(port, '/hello', { signal: AbortSignal.timeout(50) }));
    assert.strictEqual(bySignal.result.name, 'AbortError');
    assert.deepStrictEqual(events(bySignal.segment), end);

    const fetched = await tracedRequest(plan, () => fetch(url, { signal: AbortSignal.timeout(50) }));
    assert.strictEqual(fetched.result.name, 'TimeoutError');
    assert.deepStrictEqual(events(fetched.segment), end);

    const controller = new AbortController();
    setTimeout(() => controller.abort(), 50);
    const aborted = await tracedRequest(plan, () => fetch(url, { signal: controller.signal }));
    assert.strictEqual(aborted.result.name, 'AbortError');
    assert.deepStrictEqual(events(aborted.segment), canceled);

    assert.ok(Date.now() - startMs < 10_000, 'no timeout waits for the fault to end');

    const healthy = await tracedRequest([], () => fetch(url).then((response) => response.text()));
    assert.strictEqual(healthy.result, 'hello /hello');
  }
});
