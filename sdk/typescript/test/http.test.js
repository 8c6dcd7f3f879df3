// HTTP calls: healthy, disturbed by each kind of fault, healthy again.
'use strict';

const assert = require('node:assert');
const { test } = require('node:test');
const { chain, descendants, events, faultloom, sendRequest, tracedRequest } = require('./support.js');

const { fault } = faultloom;

test('a request returns the whole tree', async (t) => {
  const { first } = await chain(t, 'http.js');
  const { result, segment } = await tracedRequest([], () => sendRequest(first.port, '/call/2/hello'));
  assert.deepStrictEqual(JSON.parse(result.body), [
    [200, 'hello /hello'],
    [200, 'hello /hello'],
  ]);
  assert.deepStrictEqual(events(segment), ['SEND GET /call/{id}/hello', 'RECV 200 < front', 'REPLY 0']);
  assert.deepStrictEqual(events(descendants(segment)[0]), [
    'SEND GET /hello',
    'RECV 200 < back',
    'SEND GET /hello',
    'RECV 200 < back',
    'REPLY 200',
  ]);
  for (const name of ['x-faultloom-history', 'x-faultloom-reply']) {
    assert.strictEqual(result.headers[name], undefined);
  }
});

const EXPECTED = [
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

test('each fault has the same error as the real failure, and the next call is healthy', async (t) => {
  const { first } = await chain(t, 'http.js');
  for (const [kind, parts, [code, text], end, runs] of EXPECTED) {
    const plan = [fault(kind, { ...parts, callee: 'back', nth: 2 })];
    const { result, segment } = await tracedRequest(plan, () => sendRequest(first.port, '/call/3/hello'));
    const [before, disturbed, after] = JSON.parse(result.body);
    assert.deepStrictEqual(before, [200, 'hello /hello'], kind);
    assert.deepStrictEqual(after, [200, 'hello /hello'], kind);
    assert.strictEqual(disturbed[0], code, kind);
    assert.match(disturbed[1], text, kind);
    const [front, ...backs] = descendants(segment);
    assert.deepStrictEqual(events(front).slice(2, 4), ['SEND GET /hello fault 0', ...end], kind);
    assert.strictEqual(backs.length, 2 + runs, kind);
  }
});

// the errors of fetch and undici where they differ
const UNDICI = {
  unavailable: ['ECONNREFUSED', /^connect ECONNREFUSED 127\.0\.0\.1:\d+$/],
  deadline: ['UND_ERR_HEADERS_TIMEOUT', /^Headers Timeout Error$/],
  reset: ['ECONNRESET', /^read ECONNRESET$/],
  hang: ['UND_ERR_HEADERS_TIMEOUT', /^Headers Timeout Error$/],
  'lost-reply': ['ECONNRESET', /^read ECONNRESET$/],
};

for (const client of ['fetch', 'undici']) {
  test(`each fault has the same error as the real failure in ${client}, and the next call is healthy`, async (t) => {
    const { first } = await chain(t, 'http.js', { front: { env: { CLIENT: client } } });
    for (const [kind, parts, plain, end, runs] of EXPECTED) {
      const [code, text] = UNDICI[kind] ?? plain;
      const plan = [fault(kind, { ...parts, callee: 'back', nth: 2 })];
      const { result, segment } = await tracedRequest(plan, () => sendRequest(first.port, '/call/3/hello'));
      const [before, disturbed, after] = JSON.parse(result.body);
      assert.deepStrictEqual(before, [200, 'hello /hello'], kind);
      assert.deepStrictEqual(after, [200, 'hello /hello'], kind);
      assert.strictEqual(disturbed[0], code, kind);
      if (disturbed.length === 3) {
        assert.strictEqual(disturbed[1], 'fetch failed', kind);
      }
      assert.match(disturbed.at(-1), text, kind);
      const [front, ...backs] = descendants(segment);
      assert.deepStrictEqual(events(front).slice(2, 4), ['SEND GET /hello fault 0', ...end], kind);
      assert.strictEqual(backs.length, 2 + runs, kind);
    }
  });
}

for (const framework of ['express', 'fastify']) {
  test(`${framework}: the callee's name is the route template, and parsing a body keeps the scope`, async (t) => {
    const { first } = await chain(t, 'http.js', { front: { env: { FRAMEWORK: framework } } });
    const { result, segment } = await tracedRequest([], () =>
      sendRequest(first.port, '/cart/jo/items', {
        method: 'POST',
        body: '{"a":1}',
        headers: { 'content-type': 'application/json' },
      }),
    );
    assert.deepStrictEqual(JSON.parse(result.body), { body: { a: 1 }, replies: [[200, 'hello /hello']] });
    const [front] = descendants(segment);
    assert.strictEqual(front.name, 'POST /cart/{user}/items');
    assert.deepStrictEqual(events(front), ['SEND GET /hello', 'RECV 200 < back', 'REPLY 200']);
  });
}
