// HTTP calls by Node's own client: healthy, disturbed by each kind of fault, healthy again.
'use strict';

const assert = require('node:assert');
const http = require('node:http');
const { test } = require('node:test');
const { app, below, events, faultloom, request } = require('./world.js');

const { fault } = faultloom;

/** test → front → back */
async function chain(t, { back = {}, front = {} } = {}) {
  const last = await app(t, 'http.js', { service: 'back', ...back });
  const first = await app(t, 'http.js', {
    service: 'front',
    ...front,
    env: { NEXT: `127.0.0.1:${last.port}`, FAULTLOOM_PEERS: `127.0.0.1:${last.port}=back`, ...front.env },
  });
  return { first, last };
}

/** Status, headers and body of one request; `options` as for http.request. */
function ask(port, path, { body, ...options } = {}) {
  return new Promise((resolve, reject) => {
    const one = http.request({ host: '127.0.0.1', port, path, ...options }, (response) => {
      const chunks = [];
      response.on('data', (chunk) => chunks.push(chunk));
      response.on('end', () => resolve({ status: response.statusCode, headers: response.headers, body: Buffer.concat(chunks) }));
      response.on('error', reject);
    });
    one.on('error', reject);
    one.end(body);
  });
}

test('a request brings back the whole tree', async (t) => {
  const { first } = await chain(t);
  const { result, segment } = await request([], () => ask(first.port, '/call/2/hello'));
  assert.deepStrictEqual(JSON.parse(result.body), [
    [200, 'hello /hello'],
    [200, 'hello /hello'],
  ]);
  assert.deepStrictEqual(events(segment), ['SEND GET /call/{id}/hello', 'RECV 200 < front', 'ANSWER 0']);
  assert.deepStrictEqual(events(below(segment)[0]), ['SEND GET /hello', 'RECV 200 < back', 'SEND GET /hello', 'RECV 200 < back', 'ANSWER 200']);
  for (const name of ['x-faultloom-history', 'x-faultloom-reply']) {
    assert.strictEqual(result.headers[name], undefined);
  }
});

const SEEN = [
  ['unavailable', {}, ['ECONNREFUSED', /^connect ECONNREFUSED 127\.0\.0\.1:\d+$/], ['FAILED 14'], 0],
  ['status', { arg: 503 }, [503, /^$/], ['RECV 503'], 0],
  ['status', { arg: 7 }, [500, /^$/], ['RECV 7'], 0],
  ['deadline', {}, ['ETIMEDOUT', /./], ['FAILED 4'], 0],
  ['reset', {}, ['ECONNRESET', /^read ECONNRESET$/], ['FAILED 14'], 0],
  ['hang', { arg: 60 }, ['ETIMEDOUT', /./], ['FAILED 4'], 0],
  ['delay', { arg: 60 }, [200, /^hello \/hello$/], ['RECV 200 < back'], 1],
  ['lost-reply', {}, ['ECONNRESET', /^socket hang up$/], ['FAILED 14 < back'], 1],
  ['empty-reply', {}, [200, /^$/], ['RECV 200 < back'], 1],
  ['corrupt-reply', {}, [200, /^hello \xff{6}$/], ['RECV 200 < back'], 1],
];

test('each fault is what Node would report; then the next call is healthy', async (t) => {
  const { first } = await chain(t);
  for (const [kind, parts, [code, text], end, runs] of SEEN) {
    const plan = [fault(kind, { ...parts, callee: 'back', nth: 2 })];
    const { result, segment } = await request(plan, () => ask(first.port, '/call/3/hello'));
    const [before, disturbed, after] = JSON.parse(result.body);
    assert.deepStrictEqual(before, [200, 'hello /hello'], kind);
    assert.deepStrictEqual(after, [200, 'hello /hello'], kind);
    assert.strictEqual(disturbed[0], code, kind);
    assert.match(disturbed[1], text, kind);
    const [front, ...backs] = below(segment);
    assert.deepStrictEqual(events(front).slice(2, 4), ['SEND GET /hello fault 0', ...end], kind);
    assert.strictEqual(backs.length, 2 + runs, kind);
  }
});
