// Envelopes in a field of a gRPC request's message: who says that it takes them, when they go there, and who sees them.
'use strict';

const assert = require('node:assert');
const { once } = require('node:events');
const http2 = require('node:http2');
const { test } = require('node:test');
const { events, faultloom, request } = require('./world.js');
const { appendField, cutField } = require('../dist/wire/carrier.js');
const { open } = require('../dist/wire/envelope.js');
const { takesField } = require('../dist/wire/history.js');

const { fault } = faultloom;
const KEY = 'x-faultloom-bin';
const METHOD = '/test.Echo/Unary';
const STREAM = '/test.Echo/Download';
const VERSIONS = ['@grpc/grpc-js', 'grpc-js-1.10', 'grpc-js-1.8'];
const same = (bytes) => bytes;

function frame(message) {
  const head = Buffer.alloc(5);
  head.writeUInt32BE(message.length, 1);
  return Buffer.concat([head, message]);
}

function unframe(body) {
  return body.length === 0 ? null : cutField(body.subarray(5));
}

async function read(stream) {
  const chunks = [];
  for await (const chunk of stream) {
    chunks.push(chunk);
  }
  return Buffer.concat(chunks);
}

/** The history that answers an envelope: nothing but its segment's flags. */
function history(envelope, flags) {
  const { hopAt } = open(envelope);
  return Buffer.concat([Buffer.of(1), envelope.subarray(hopAt, hopAt + 8), Buffer.of(flags, 1, 0x62, 0, 0, 4, 0, 0)]);
}

/** A callee that speaks HTTP/2 only. It notes how envelopes came, and answers call n as `answers[n]` says, later ones as the last. */
async function callee(t, answers) {
  const seen = [];
  const server = http2.createServer();
  server.on('stream', (stream, headers) => {
    stream.on('error', () => 0);
    read(stream).then((body) => {
      const { message, history: field } = unframe(body);
      const header = headers[KEY] === undefined ? null : Buffer.from(headers[KEY], 'base64');
      seen.push({ how: [header && 'metadata', field && 'field'].filter(Boolean).join(' and '), message, envelope: field ?? header, headers });
      const { status = 0, flags = null } = answers[Math.min(seen.length, answers.length) - 1];
      const told = flags === null || (field ?? header) === null ? null : history(field ?? header, flags);
      const trailers = { 'grpc-status': status, ...(status !== 0 && told !== null ? { [KEY]: told.toString('base64') } : {}) };
      const common = { ':status': 200, 'content-type': 'application/grpc' };
      if (status !== 0) {
        stream.respond({ ...common, ...trailers }, { endStream: true });
        return;
      }
      stream.respond(common, { waitForTrailers: true });
      stream.on('wantTrailers', () => stream.sendTrailers(trailers));
      stream.end(frame(told === null ? message : appendField(message, told)));
    }, () => 0);
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  t.after(() => server.close());
  return { seen, hows: () => seen.map((one) => one.how), port: server.address().port };
}

const TAKES = { flags: 4 };
const TAKES_NOT = { flags: 0 };
const NO_HISTORY = {};

function clientOf(t, port, { version = VERSIONS[0], ...options } = {}) {
  const grpc = require(version);
  const client = new grpc.Client(`127.0.0.1:${port}`, grpc.credentials.createInsecure(), options);
  t.after(() => client.close());
  return client;
}

/** Makes a call; its reply message as text, or the code of its error. */
function call(client, text = 'hello', { method = METHOD, metadata = null, ...options } = {}) {
  return new Promise((resolve) => {
    const end = (error, reply) => resolve(error ? error.code : reply.toString());
    const args = metadata === null ? [options, end] : [metadata, options, end];
    client.makeUnaryRequest(method, same, same, Buffer.from(text), ...args);
  });
}

/** The same as a request of its own. */
async function traced(client, text, options) {
  return (await request([], () => call(client, text, options))).result;
}

for (const version of VERSIONS) {
  test(`${version}: once its callee has said so, a channel puts envelopes into messages, method by method`, async (t) => {
    const { seen, hows, port } = await callee(t, [TAKES]);
    const client = clientOf(t, port, { version });
    const { result, segment } = await request([], async () => [await call(client, 'one'), await call(client, 'two')]);
    assert.deepStrictEqual(result, ['one', 'two']);
    assert.deepStrictEqual(events(segment), [`SEND ${METHOD}`, 'RECV 0 < b', `SEND ${METHOD}`, 'RECV 0 < b', 'ANSWER 0']);
    assert.deepStrictEqual(hows(), ['metadata', 'field']);
    assert.strictEqual(seen[1].message.toString(), 'two');
    await traced(client, 'other', { method: '/test.Echo/Other' });
    await traced(client, 'other', { method: '/test.Echo/Other' });
    await traced(clientOf(t, port, { version }));
    assert.deepStrictEqual(hows().slice(2), ['metadata', 'field', 'metadata']);
    // clients that share a channel share what it knows
    await traced(clientOf(t, port, { version, channelOverride: client.getChannel() }));
    assert.strictEqual(hows()[5], 'field');
    assert.strictEqual(await call(client), 'hello');
    assert.strictEqual(hows()[6], '');
  });

  test(`${version}: the message is without the field before anybody sees it, whether or not its envelope is accepted`, async (t) => {
    const served = await server(t, { version });
    const envelope = await anEnvelope(t);
    const forged = Buffer.from(envelope);
    forged[open(envelope).partEnd] ^= 1;
    const hello = Buffer.from('hello');

    const plain = await post(served.port, hello, {});
    assert.strictEqual(plain.history, null);
    const refused = await post(served.port, appendField(hello, forged), {});
    assert.strictEqual(refused.history, null);
    const inMetadata = await post(served.port, hello, { [KEY]: envelope.toString('base64') });
    assert.strictEqual(takesField(inMetadata.history), true);
    const inField = await post(served.port, appendField(hello, envelope), {});
    assert.strictEqual(takesField(inField.history), true);
    // who forwards metadata does not know that it does
    const both = await post(served.port, appendField(hello, envelope), { [KEY]: forged.toString('base64') });
    assert.strictEqual(takesField(both.history), true);
    const wrong = await post(served.port, appendField(hello, forged), { [KEY]: envelope.toString('base64') });
    assert.strictEqual(wrong.history, null);

    for (const { message } of [plain, refused, inMetadata, inField, both, wrong]) {
      assert.strictEqual(message.toString(), 'hello');
    }
    assert.deepStrictEqual(served.handled, Array(6).fill('hello'));
    assert.deepStrictEqual(served.intercepted, version === 'grpc-js-1.8' ? [] : Array(6).fill('hello'));
    assert.deepStrictEqual(served.metadata, Array(6).fill(0));
    const failed = await post(served.port, appendField(Buffer.from('fail'), envelope), {});
    assert.strictEqual(takesField(failed.history), true);
  });

  test(`${version}: only a server that takes large messages says that it takes the field`, async (t) => {
    const envelope = (await anEnvelope(t)).toString('base64');
    for (const [limit, takes] of [[(1 << 20) - 1, false], [1 << 20, true], [-1, true]]) {
      const { port } = await server(t, { version, 'grpc.max_receive_message_length': limit });
      const { history } = await post(port, Buffer.from('hello'), { [KEY]: envelope });
      assert.strictEqual(takesField(history), takes, String(limit));
    }
  });
}

/** A server in this process, which has the SDK, whose handler sees bytes. */
async function server(t, { version = VERSIONS[0], ...options } = {}) {
  const grpc = require(version);
  const made = { handled: [], intercepted: [], envelopes: [], metadata: [], port: 0 };
  const interceptors = [
    (method, next) => {
      const listener = {
        onReceiveMetadata: (metadata, pass) => {
          made.envelopes.push(metadata.get(KEY).length);
          pass(metadata);
        },
        onReceiveMessage: (message, pass) => {
          made.intercepted.push(message.toString());
          pass(Buffer.from(message)); // as an interceptor may that replaces messages
        },
        onReceiveHalfClose: (pass) => pass(),
        onCancel: () => 0,
      };
      return new grpc.ServerInterceptingCall(next, { start: (start) => start(listener) });
    },
  ];
  const one = new grpc.Server({ ...options, ...(grpc.ServerInterceptingCall ? { interceptors } : {}) });
  const handler = (call, callback) => {
    made.handled.push(call.request.toString());
    made.metadata.push(call.metadata.get(KEY).length);
    callback(made.handled.at(-1) === 'fail' ? { code: 9, details: 'as asked' } : null, call.request);
  };
  one.register(METHOD, handler, same, same, 'unary');
  one.register(STREAM, (stream) => stream.end(), same, same, 'serverStream');
  made.port = await new Promise((resolve, reject) =>
    one.bindAsync('127.0.0.1:0', grpc.ServerCredentials.createInsecure(), (error, port) => (error ? reject(error) : resolve(port))),
  );
  if (!grpc.ServerInterceptingCall) {
    one.start();
  }
  t.after(() => one.forceShutdown());
  return made;
}

/** An envelope as a client sends it, for a call of its own. */
async function anEnvelope(t) {
  const { seen, port } = await callee(t, [NO_HISTORY]);
  await traced(clientOf(t, port));
  return seen[0].envelope;
}

/** A call without any library; the message and the history that came. */
async function post(port, message, headers, method = METHOD) {
  const session = http2.connect(`http://127.0.0.1:${port}`);
  try {
    const stream = session.request({ ':method': 'POST', ':path': method, 'content-type': 'application/grpc', te: 'trailers', ...headers });
    let trailers = {};
    stream.on('response', (all) => (trailers = all));
    stream.on('trailers', (all) => (trailers = all));
    stream.end(frame(message));
    const reply = unframe(await read(stream));
    const trailer = trailers[KEY] === undefined ? null : Buffer.from(trailers[KEY], 'base64');
    return { message: reply?.message, history: reply?.history ?? trailer };
  } finally {
    session.close();
  }
}

const STATES = [
  ['a reply that does not say so any more', [TAKES, TAKES, TAKES_NOT, TAKES_NOT], ['metadata', 'field', 'field', 'metadata', 'metadata']],
  ['an answer without a history: never again', [TAKES, NO_HISTORY, TAKES], ['metadata', 'field', 'metadata', 'metadata', 'metadata']],
  ['an error without a history: never again', [TAKES, { status: 9 }, TAKES], ['metadata', 'field', 'metadata', 'metadata', 'metadata']],
  ['no answer', [TAKES, { status: 14 }, TAKES], ['metadata', 'field', 'metadata', 'field', 'field']],
  ['an error that says so', [{ status: 9, flags: 4 }], ['metadata', 'field', 'field', 'field', 'field']],
  ['no history to an envelope in metadata', [NO_HISTORY, TAKES, TAKES], ['metadata', 'metadata', 'field', 'field', 'field']],
];

for (const [what, answers, hows] of STATES) {
  test(`where the next envelope goes after ${what}`, async (t) => {
    const made = await callee(t, answers);
    const client = clientOf(t, made.port);
    for (const _ of hows) {
      await traced(client);
    }
    assert.deepStrictEqual(made.hows(), hows);
  });
}

/** A channel whose next envelope goes into the field. */
async function ready(t, options, answers = [TAKES]) {
  const made = await callee(t, answers);
  const client = clientOf(t, made.port, options);
  await traced(client);
  made.seen.length = 0;
  return { ...made, client };
}

test('an envelope goes into metadata if the message is large, its caller sends small ones only, or it crosses bridges', async (t) => {
  const { client, hows } = await ready(t);
  for (const size of [65_536, 65_537, 0]) {
    const text = 'x'.repeat(size);
    assert.strictEqual(await traced(client, text), text);
  }
  assert.deepStrictEqual(hows(), ['field', 'metadata', 'field']);
  await request([], () => call(client), { bridge: true });
  assert.strictEqual(hows()[3], 'metadata');

  const small = await ready(t, { 'grpc.max_send_message_length': 150 });
  assert.strictEqual(await traced(small.client, 'x'.repeat(100)), 'x'.repeat(100));
  assert.deepStrictEqual(small.hows(), ['metadata']);
});

test('a channel remembers 1,024 methods', () => {
  const { Methods } = require('../dist/hooks/grpc-methods.js');
  const methods = new Methods();
  const takes = Buffer.from('0100000000000000000401620000', 'hex');
  for (let n = 0; n < 1025; n++) {
    methods.ended(`/${n}`, false, true, takes);
  }
  assert.deepStrictEqual([methods.inField('/0'), methods.inField('/1023'), methods.inField('/1024')], [true, true, false]);
});

test('retries send the field again', async (t) => {
  const policy = { maxAttempts: 3, initialBackoff: '0.01s', maxBackoff: '0.01s', backoffMultiplier: 1, retryableStatusCodes: ['RESOURCE_EXHAUSTED'] };
  const config = JSON.stringify({ loadBalancingConfig: [], methodConfig: [{ name: [{}], retryPolicy: policy }] });
  const { seen, hows, port } = await callee(t, [TAKES, { status: 8 }, TAKES]);
  const client = clientOf(t, port, { 'grpc.service_config': config });
  await traced(client);
  assert.strictEqual(await traced(client, 'again'), 'again');
  assert.deepStrictEqual(hows(), ['metadata', 'field', 'field']);
  const [, first, second] = seen;
  assert.deepStrictEqual(second.envelope, first.envelope);
  assert.strictEqual(second.message.toString(), 'again');
  assert.strictEqual(second.headers['grpc-previous-rpc-attempts'], '1');
});

test('interceptors, deadlines, cancelling and faults are as with metadata', async (t) => {
  const { client, seen, hows } = await ready(t);
  const grpc = require('@grpc/grpc-js');

  // the message comes late, and the application goes on with its metadata
  const late = (options, next) =>
    new grpc.InterceptingCall(next(options), { sendMessage: (message, pass) => setImmediate(() => pass(Buffer.concat([message, Buffer.from('!')]))) });
  for (const before of ['before', undefined]) {
    const metadata = new grpc.Metadata();
    if (before !== undefined) {
      metadata.set('own', before);
    }
    const intercepted = await request([], () => {
      const reply = call(client, 'late', { metadata, interceptors: [late] });
      metadata.set('own', 'after');
      return reply;
    });
    assert.strictEqual(intercepted.result, 'late!');
    assert.deepStrictEqual([hows(), seen[0].headers.own, metadata.get('own')], [['field'], before, ['after']]);
    seen.length = 0;
  }

  const delayed = await request([fault('delay', { arg: 5 })], () => call(client));
  assert.strictEqual(delayed.result, 'hello');
  assert.strictEqual(hows()[0], 'field');
  const corrupted = await request([fault('corrupt-reply')], () => call(client, 'four'));
  assert.strictEqual(corrupted.result.slice(0, 2), 'fo');
  assert.strictEqual(hows()[1], 'field');
  const refused = await request([fault('unavailable')], () => call(client));
  assert.strictEqual(refused.result, 14);

  const never = (options, next) => new grpc.InterceptingCall(next(options), { sendMessage: () => 0, halfClose: () => 0 });
  const expired = await request([], () => call(client, 'hello', { interceptors: [never], deadline: Date.now() + 20 }));
  assert.strictEqual(expired.result, 4);
  // its callee certainly did not run
  assert.deepStrictEqual(events(expired.segment), [`SEND ${METHOD}`, 'FAILED 4', 'ANSWER 0']);
  const cancelled = await request([], () => {
    return new Promise((resolve) => {
      client.makeUnaryRequest(METHOD, same, same, Buffer.from('hello'), { interceptors: [never] }, (error) => resolve(error.code)).cancel();
    });
  });
  assert.strictEqual(cancelled.result, 1);
  assert.deepStrictEqual(events(cancelled.segment), [`SEND ${METHOD}`, 'FAILED 1', 'ANSWER 0']);
  assert.strictEqual(await traced(client), 'hello');
  assert.strictEqual(hows().at(-1), 'field');
});

test('with the SDK at both ends the second call of a channel has no metadata of ours, and both bring their histories', async (t) => {
  for (const options of [{}, { 'grpc.default_compression_algorithm': 2 }]) {
    const { handled, intercepted, envelopes, port } = await server(t);
    const client = clientOf(t, port, options);
    const { result, segment } = await request([], async () => [await call(client, 'one'), await call(client, 'two'), await call(client, 'fail')]);
    assert.deepStrictEqual(result, ['one', 'two', 9]);
    assert.deepStrictEqual(handled, ['one', 'two', 'fail']);
    assert.deepStrictEqual(intercepted, handled);
    assert.deepStrictEqual(envelopes, [1, 0, 0]);
    const ends = (all) => events(all).filter((one) => !one.startsWith('SEND'));
    assert.deepStrictEqual(ends(segment), ['RECV 0 < test', 'RECV 0 < test', 'RECV 9 < test', 'ANSWER 0']);
    // each history answers its own call
    const texts = Array.from({ length: 20 }, (_, n) => `text ${n}`);
    const many = await request([], () => Promise.all(texts.map((text) => call(client, text))));
    assert.deepStrictEqual(many.result, texts);
    assert.deepStrictEqual(ends(many.segment), [...Array(20).fill('RECV 0 < test'), 'ANSWER 0']);
    assert.deepStrictEqual(envelopes.slice(3), Array(20).fill(0));
  }
});

test('a peer without the SDK never gets a field, and streams go by metadata', async (t) => {
  const { client, hows } = await ready(t, {}, [NO_HISTORY]);
  await traced(client);
  assert.deepStrictEqual(hows(), ['metadata']);

  // even if a unary method of the same name takes the field
  const streams = await ready(t);
  for (let n = 0; n < 2; n++) {
    await request([], () => {
      return new Promise((resolve) => {
        const upload = streams.client.makeClientStreamRequest(METHOD, same, same, resolve);
        upload.write(Buffer.from('hello'));
        upload.end();
      });
    });
    await request([], () => {
      return new Promise((resolve) => {
        streams.client.makeServerStreamRequest(METHOD, same, same, Buffer.from('hello')).on('data', () => 0).on('end', resolve);
      });
    });
  }
  assert.deepStrictEqual(streams.hows(), Array(4).fill('metadata'));

  const { port } = await server(t);
  const envelope = await anEnvelope(t);
  const { history: piece } = await post(port, Buffer.from('hello'), { [KEY]: envelope.toString('base64') }, STREAM);
  assert.strictEqual(piece[0], 0x81);
  assert.strictEqual(takesField(piece.subarray(3)), false);
  assert.deepStrictEqual(piece.subarray(4, 12), envelope.subarray(open(envelope).hopAt, open(envelope).hopAt + 8));
});
