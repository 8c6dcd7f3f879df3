// gRPC calls: healthy, disturbed by each kind of fault, healthy again; histories and their carriers.
'use strict';

const assert = require('node:assert');
const { test } = require('node:test');
const { app, chain, descendants, events, faultloom, tracedRequest } = require('./support.js');
const { connect, unary } = require('./apps/grpc.js');

const { fault } = faultloom;

/** Starts test → front → back and creates a client of front. */
async function clientOf(t, options) {
  const { first, last } = await chain(t, 'grpc.js', options);
  const client = connect(`127.0.0.1:${first.port}`);
  t.after(() => client.close());
  return { client, first, last };
}

test('a unary call returns the whole tree', async (t) => {
  const { client } = await clientOf(t);
  const { result, segment } = await tracedRequest([], () => unary(client, 'call 2'));
  assert.deepStrictEqual(JSON.parse(result), ['hello', 'hello']);
  assert.deepStrictEqual(events(segment), ['SEND /test.Echo/Unary', 'RECV 0 < front', 'REPLY 0']);
  const [front, ...backs] = descendants(segment);
  assert.deepStrictEqual(events(front), [
    'SEND /test.Echo/Unary',
    'RECV 0 < back',
    'SEND /test.Echo/Unary',
    'RECV 0 < back',
    'REPLY 0',
  ]);
  assert.deepStrictEqual(backs.map(events), [['REPLY 0'], ['REPLY 0']]);
});

const EXPECTED = [
  ['unavailable', {}, 14, /^No connection established.*ECONNREFUSED 127\.0\.0\.1:\d+/, ['FAILED 14'], 0],
  ['status', { arg: 7 }, 7, /status 7/, ['RECV 7'], 0],
  ['status', { arg: 99 }, 2, /status 99/, ['RECV 99'], 0],
  ['deadline', {}, 4, /^Deadline exceeded/, ['FAILED 4'], 0],
  ['reset', {}, 14, /^read ECONNRESET/, ['FAILED 14'], 0],
  ['hang', { arg: 60 }, 4, /^Deadline exceeded/, ['FAILED 4'], 0],
  ['lost-reply', {}, 14, /^Connection dropped/, ['FAILED 14 < back'], 1],
];

test('each fault has the same error as the real failure, and the next call is healthy', async (t) => {
  const { client } = await clientOf(t);
  for (const [kind, parts, code, details, end, runs] of EXPECTED) {
    const plan = [fault(kind, { ...parts, callee: 'back', nth: 2 })];
    const { result, segment } = await tracedRequest(plan, () => unary(client, 'call 3 hello world'));
    const [before, disturbed, after] = JSON.parse(result);
    assert.strictEqual(before, 'hello world', kind);
    assert.strictEqual(after, 'hello world', kind);
    assert.strictEqual(disturbed[0], code, kind);
    assert.match(disturbed[1], details, kind);
    assert.strictEqual(disturbed[2], `${code} ${require('@grpc/grpc-js').status[code]}: ${disturbed[1]}`);
    const [front, ...backs] = descendants(segment);
    assert.deepStrictEqual(events(front).slice(2, 4), ['SEND /test.Echo/Unary fault 0', ...end], kind);
    assert.strictEqual(backs.length, 2 + runs, kind);
  }
});

test('an empty reply is an empty message, and a corrupted one is parsed by the library', async (t) => {
  const { client } = await clientOf(t);
  const plan = [fault('empty-reply', { callee: 'back', nth: 1 }), fault('corrupt-reply', { callee: 'back', nth: 2 })];
  const { result, segment } = await tracedRequest(plan, () => unary(client, 'call 3 hello world'));
  const [empty, corrupted, healthy] = JSON.parse(result);
  assert.strictEqual(empty, '');
  assert.match(corrupted, /^hell\ufffd+$/);
  assert.strictEqual(healthy, 'hello world');
  assert.deepStrictEqual(events(descendants(segment)[0]), [
    'SEND /test.Echo/Unary fault 0',
    'RECV 0 < back',
    'SEND /test.Echo/Unary fault 1',
    'RECV 0 < back',
    'SEND /test.Echo/Unary',
    'RECV 0 < back',
    'REPLY 0',
  ]);
});

test('a delay precedes the call, and the deadline of the caller ends it', async (t) => {
  const { last } = await clientOf(t);
  const client = connect(`127.0.0.1:${last.port}`);
  t.after(() => client.close());
  const plan = [fault('delay', { arg: 150, nth: 1 })];
  const startMs = Date.now();
  const slow = await tracedRequest(plan, () => unary(client, 'hello'));
  assert.ok(Date.now() - startMs >= 149);
  assert.strictEqual(slow.result, 'hello');
  assert.deepStrictEqual(events(slow.segment), ['SEND /test.Echo/Unary fault 0', 'RECV 0 < back', 'REPLY 0']);

  const cut = await tracedRequest(plan, () => unary(client, 'hello', { deadline: Date.now() + 50 }));
  assert.strictEqual(cut.result[0], 4);
  assert.deepStrictEqual(events(cut.segment), ['SEND /test.Echo/Unary fault 0', 'FAILED 4', 'REPLY 0']);

  const healthy = await tracedRequest([], () => unary(client, 'hello', { deadline: Date.now() + 5000 }));
  assert.strictEqual(healthy.result, 'hello');
});

/** Reads a stream. Returns the texts, and [code, details] of the error. */
function stream(call, { read = Infinity, write = [] } = {}) {
  return new Promise((resolve) => {
    const texts = [];
    let error = null;
    call.on('data', (message) => {
      texts.push(message.text);
      if (texts.length === read) {
        call.cancel();
      }
    });
    call.on('error', (e) => {
      error = [e.code, e.details];
      resolve({ texts, error });
    });
    call.on('end', () => setImmediate(() => resolve({ texts, error })));
    for (const text of write) {
      call.write({ text });
    }
    call.end?.();
  });
}

/** The kinds of streams, each with the same replies. */
const STREAMS = {
  Upload: (client, text, options = {}) =>
    new Promise((resolve) => {
      const call = client.Upload(options, (error, reply) =>
        resolve({ texts: error ? [] : [reply.text], error: error ? [error.code, error.details] : null }),
      );
      call.write({ text });
      call.end();
    }),
  Download: (client, text, options = {}) => stream(client.Download({ text, count: 2 }, options)),
  Chat: (client, text, options = {}) => stream(client.Chat(options), { write: [text, text] }),
};

for (const [method, call] of Object.entries(STREAMS)) {
  test(`${method}: the history arrives in pieces, and calls from event handlers are in the scope`, async (t) => {
    const { client } = await clientOf(t);
    const times = method === 'Upload' ? 1 : 2;
    const { result, segment } = await tracedRequest([], () => call(client, 'call 1'));
    assert.deepStrictEqual(result, { texts: Array(times).fill('["hello"]'), error: null });
    assert.deepStrictEqual(events(segment), [`SEND /test.Echo/${method}`, 'RECV 0 < front', 'REPLY 0']);
    const [front] = descendants(segment);
    assert.strictEqual(front.truncated, false);
    assert.deepStrictEqual(events(front), [
      ...Array(times).fill(['SEND /test.Echo/Unary', 'RECV 0 < back']).flat(),
      'REPLY 0',
    ]);
  });

  test(`${method}: each fault has the same error as the real failure`, async (t) => {
    const last = await app(t, 'grpc.js', { service: 'back' });
    const client = connect(`127.0.0.1:${last.port}`);
    t.after(() => client.close());
    for (const [kind, parts, code, details, end] of EXPECTED) {
      const { result, segment } = await tracedRequest([fault(kind, parts)], () => call(client, 'hello world'));
      assert.deepStrictEqual(result.texts, [], kind);
      assert.strictEqual(result.error[0], code, kind);
      assert.match(result.error[1], details, kind);
      assert.deepStrictEqual(events(segment), [`SEND /test.Echo/${method} fault 0`, ...end, 'REPLY 0'], kind);
      for (const callee of descendants(segment)) {
        // a single reply message is withheld until the history is complete; otherwise the callee is canceled at the
        // first message
        assert.strictEqual(callee.truncated, kind === 'lost-reply' && method !== 'Upload');
      }
      const healthy = await tracedRequest([], () => call(client, 'hello'));
      assert.deepStrictEqual(healthy.result.error, null);
    }
    const times = method === 'Upload' ? 1 : 2;
    const empty = await tracedRequest([fault('empty-reply')], () => call(client, 'hello world'));
    assert.deepStrictEqual(empty.result, { texts: Array(times).fill(''), error: null });
    assert.deepStrictEqual(events(empty.segment), [`SEND /test.Echo/${method} fault 0`, 'RECV 0 < back', 'REPLY 0']);
    const corrupted = await tracedRequest([fault('corrupt-reply')], () => call(client, 'hello world'));
    for (const text of corrupted.result.texts) {
      assert.match(text, /\ufffd/);
    }
    const delayed = await tracedRequest([fault('delay', { arg: 50 })], () => call(client, 'hello'));
    assert.deepStrictEqual(delayed.result, { texts: Array(times).fill('hello'), error: null });
  });
}

test('a canceled stream keeps the history received so far', async (t) => {
  const { client } = await clientOf(t);
  const { result, segment } = await tracedRequest([], () =>
    stream(client.Download({ text: 'call 1', count: 50 }), { read: 2 }),
  );
  assert.strictEqual(result.error[0], 1);
  assert.deepStrictEqual(events(segment), ['SEND /test.Echo/Download', 'FAILED 1 < front', 'REPLY 0']);
  const [front] = descendants(segment);
  assert.strictEqual(front.truncated, true);
  assert.ok(events(front).length >= 4);
});

test('an error status carries the history in its trailers, also for a stream', async (t) => {
  const { client } = await clientOf(t);
  const one = await tracedRequest([], () => unary(client, 'fail 9'));
  assert.deepStrictEqual(one.result.slice(0, 2), [9, 'as requested']);
  assert.deepStrictEqual(events(one.segment), ['SEND /test.Echo/Unary', 'RECV 9 < front', 'REPLY 0']);
  const many = await tracedRequest([], () => stream(client.Download({ text: 'fail 5', count: 2 })));
  assert.deepStrictEqual(many.result, { texts: ['fail 5', 'fail 5'], error: [5, 'as requested'] });
  assert.deepStrictEqual(events(many.segment), ['SEND /test.Echo/Download', 'RECV 5 < front', 'REPLY 0']);
});

test('a history of 5,000 events is complete after a message, and truncated in a trailer', async (t) => {
  const { client } = await clientOf(t);
  const whole = await tracedRequest([], () => unary(client, 'call 1250'));
  const [front, ...backs] = descendants(whole.segment);
  assert.strictEqual(front.events.length, 2501);
  assert.strictEqual(backs.length, 1250);
  // a caller whose receive limit leaves little space after the message
  const small = connect(client.getChannel().getTarget().replace('dns:', ''), {
    'grpc.max_receive_message_length': 20_000,
  });
  t.after(() => small.close());
  const cut = await tracedRequest([], () => unary(small, 'call 1250'));
  assert.strictEqual(JSON.parse(cut.result).length, 1250);
  const [shortened] = descendants(cut.segment);
  assert.strictEqual(shortened.truncated, true);
  assert.ok(shortened.events.length > 100);
});

test('peers without the SDK get unchanged messages, small and large', async (t) => {
  const plain = await app(t, 'grpc.js', { sdk: false });
  const client = connect(`127.0.0.1:${plain.port}`);
  t.after(() => client.close());
  const text = 'x'.repeat(3_900_000);
  for (const message of ['hello', `big 3900000`, text]) {
    const { result, segment } = await tracedRequest([], () => unary(client, message));
    assert.strictEqual(result, message.startsWith('big') ? text : message);
    assert.deepStrictEqual(events(segment), ['SEND /test.Echo/Unary', 'RECV 0 gap', 'REPLY 0']);
  }
  const { segment } = await tracedRequest([], () => STREAMS.Chat(client, 'hello'));
  assert.deepStrictEqual(events(segment), ['SEND /test.Echo/Chat', 'RECV 0 gap', 'REPLY 0']);

  // a caller without a scope gets an unchanged reply
  const traced = await app(t, 'grpc.js', { service: 'back' });
  const other = connect(`127.0.0.1:${traced.port}`);
  t.after(() => other.close());
  assert.strictEqual(await unary(other, 'hello'), 'hello');
});
