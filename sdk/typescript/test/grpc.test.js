// gRPC calls: healthy, disturbed by each kind of fault, healthy again; histories and their carriers.
'use strict';

const assert = require('node:assert');
const { test } = require('node:test');
const { app, below, events, faultloom, request } = require('./world.js');
const { connect, unary } = require('./apps/grpc.js');

const { fault } = faultloom;

/** test → front → back */
async function chain(t, { back = {}, front = {} } = {}) {
  const last = await app(t, 'grpc.js', { service: 'back', ...back });
  const first = await app(t, 'grpc.js', {
    service: 'front',
    ...front,
    env: { NEXT: `127.0.0.1:${last.port}`, FAULTLOOM_PEERS: `127.0.0.1:${last.port}=back`, ...front.env },
  });
  const client = connect(`127.0.0.1:${first.port}`);
  t.after(() => client.close());
  return { client, first, last };
}

test('a unary call brings back the whole tree', async (t) => {
  const { client } = await chain(t);
  const { result, segment } = await request([], () => unary(client, 'call 2'));
  assert.deepStrictEqual(JSON.parse(result), ['hello', 'hello']);
  assert.deepStrictEqual(events(segment), ['SEND /test.Echo/Unary', 'RECV 0 < front', 'ANSWER 0']);
  const [front, ...backs] = below(segment);
  assert.deepStrictEqual(events(front), [
    'SEND /test.Echo/Unary',
    'RECV 0 < back',
    'SEND /test.Echo/Unary',
    'RECV 0 < back',
    'ANSWER 0',
  ]);
  assert.deepStrictEqual(backs.map(events), [['ANSWER 0'], ['ANSWER 0']]);
});

const SEEN = [
  ['unavailable', {}, 14, /^No connection established.*ECONNREFUSED 127\.0\.0\.1:\d+/, ['FAILED 14'], 0],
  ['status', { arg: 7 }, 7, /status 7/, ['RECV 7'], 0],
  ['status', { arg: 99 }, 2, /status 99/, ['RECV 99'], 0],
  ['deadline', {}, 4, /^Deadline exceeded/, ['FAILED 4'], 0],
  ['reset', {}, 14, /^read ECONNRESET/, ['FAILED 14'], 0],
  ['hang', { arg: 60 }, 4, /^Deadline exceeded/, ['FAILED 4'], 0],
  ['lost-reply', {}, 14, /^Connection dropped/, ['FAILED 14 < back'], 1],
];

test('each fault is what the library would report; then the next call is healthy', async (t) => {
  const { client } = await chain(t);
  for (const [kind, parts, code, details, end, runs] of SEEN) {
    const plan = [fault(kind, { ...parts, callee: 'back', nth: 2 })];
    const { result, segment } = await request(plan, () => unary(client, 'call 3 hello world'));
    const [before, disturbed, after] = JSON.parse(result);
    assert.strictEqual(before, 'hello world', kind);
    assert.strictEqual(after, 'hello world', kind);
    assert.strictEqual(disturbed[0], code, kind);
    assert.match(disturbed[1], details, kind);
    assert.strictEqual(disturbed[2], `${code} ${require('@grpc/grpc-js').status[code]}: ${disturbed[1]}`);
    const [front, ...backs] = below(segment);
    assert.deepStrictEqual(events(front).slice(2, 4), ['SEND /test.Echo/Unary fault 0', ...end], kind);
    assert.strictEqual(backs.length, 2 + runs, kind);
  }
});

test('an empty reply is an empty message, a corrupted one what the library makes of it', async (t) => {
  const { client } = await chain(t);
  const plan = [fault('empty-reply', { callee: 'back', nth: 1 }), fault('corrupt-reply', { callee: 'back', nth: 2 })];
  const { result, segment } = await request(plan, () => unary(client, 'call 3 hello world'));
  const [empty, corrupted, healthy] = JSON.parse(result);
  assert.strictEqual(empty, '');
  assert.match(corrupted, /^hell\ufffd+$/);
  assert.strictEqual(healthy, 'hello world');
  assert.deepStrictEqual(events(below(segment)[0]), [
    'SEND /test.Echo/Unary fault 0',
    'RECV 0 < back',
    'SEND /test.Echo/Unary fault 1',
    'RECV 0 < back',
    'SEND /test.Echo/Unary',
    'RECV 0 < back',
    'ANSWER 0',
  ]);
});

test('a delay comes before the call, and the deadline of the caller ends it', async (t) => {
  const { last } = await chain(t);
  const client = connect(`127.0.0.1:${last.port}`);
  t.after(() => client.close());
  const plan = [fault('delay', { arg: 150, nth: 1 })];
  const begun = Date.now();
  const slow = await request(plan, () => unary(client, 'hello'));
  assert.ok(Date.now() - begun >= 149);
  assert.strictEqual(slow.result, 'hello');
  assert.deepStrictEqual(events(slow.segment), ['SEND /test.Echo/Unary fault 0', 'RECV 0 < back', 'ANSWER 0']);

  const cut = await request(plan, () => unary(client, 'hello', { deadline: Date.now() + 50 }));
  assert.strictEqual(cut.result[0], 4);
  assert.deepStrictEqual(events(cut.segment), ['SEND /test.Echo/Unary fault 0', 'FAILED 4', 'ANSWER 0']);

  const healthy = await request([], () => unary(client, 'hello', { deadline: Date.now() + 5000 }));
  assert.strictEqual(healthy.result, 'hello');
});
