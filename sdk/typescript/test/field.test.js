// Envelopes in a field of a gRPC request message: when it is announced, when it is used, and that applications never
// get it.
'use strict';

const assert = require('node:assert');
const { once } = require('node:events');
const http2 = require('node:http2');
const { test } = require('node:test');
const { events, faultloom, tracedRequest } = require('./support.js');
const { appendField, cutField } = require('../dist/wire/carrier.js');
const { decodeEnvelope } = require('../dist/wire/envelope.js');
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

/** A minimal history for the call of an envelope, with the given flags. */
function history(envelope, flags) {
  const { hopAt } = decodeEnvelope(envelope);
  return Buffer.concat([Buffer.of(1), envelope.subarray(hopAt, hopAt + 8), Buffer.of(flags, 1, 0x62, 0, 0, 4, 0, 0)]);
}

/**
 * A callee on plain HTTP/2. It records the carriers of envelopes and replies to call n by `replies[n]`, or by the last
 * one.
 */
async function callee(t, replies) {
  const received = [];
  const server = http2.createServer();
  server.on('stream', (stream, headers) => {
    stream.on('error', () => 0);
    read(stream).then(
      (body) => {
        const { message, history: field } = unframe(body);
        const header = headers[KEY] === undefined ? null : Buffer.from(headers[KEY], 'base64');
        received.push({
          carrier: [header && 'metadata', field && 'field'].filter(Boolean).join(' and '),
          message,
          envelope: field ?? header,
          headers,
        });
        const { status = 0, flags = null } = replies[Math.min(received.length, replies.length) - 1];
        const returned = flags === null || (field ?? header) === null ? null : history(field ?? header, flags);
        const trailers = {
          'grpc-status': status,
          ...(status !== 0 && returned !== null ? { [KEY]: returned.toString('base64') } : {}),
        };
        const common = { ':status': 200, 'content-type': 'application/grpc' };
        if (status !== 0) {
          stream.respond({ ...common, ...trailers }, { endStream: true });
          return;
        }
        stream.respond(common, { waitForTrailers: true });
        stream.on('wantTrailers', () => stream.sendTrailers(trailers));
        stream.end(frame(returned === null ? message : appendField(message, returned)));
      },
      () => 0,
    );
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  t.after(() => server.close());
  return { received, carriers: () => received.map((one) => one.carrier), port: server.address().port };
}

const ANNOUNCES = { flags: 4 };
const DOES_NOT_ANNOUNCE = { flags: 0 };
const NO_HISTORY = {};

function clientOf(t, port, { version = VERSIONS[0], ...options } = {}) {
  const grpc = require(version);
  const client = new grpc.Client(`127.0.0.1:${port}`, grpc.credentials.createInsecure(), options);
  t.after(() => client.close());
  return client;
}

/** Makes a call. Returns the reply message as text, or the code of the error. */
function call(client, text = 'hello', { method = METHOD, metadata = null, ...options } = {}) {
  return new Promise((resolve) => {
    const end = (error, reply) => resolve(error ? error.code : reply.toString());
    const args = metadata === null ? [options, end] : [metadata, options, end];
    client.makeUnaryRequest(method, same, same, Buffer.from(text), ...args);
  });
}

/** Makes a call in a request of its own. */
async function traced(client, text, options) {
  return (await tracedRequest([], () => call(client, text, options))).result;
}

for (const version of VERSIONS) {
  test(`${version}: a channel uses the field once the callee has announced it, per method`, async (t) => {
    const { received, carriers, port } = await callee(t, [ANNOUNCES]);
    const client = clientOf(t, port, { version });
    const { result, segment } = await tracedRequest([], async () => [
      await call(client, 'one'),
      await call(client, 'two'),
    ]);
    assert.deepStrictEqual(result, ['one', 'two']);
    assert.deepStrictEqual(events(segment), [
      `SEND ${METHOD}`,
      'RECV 0 < b',
      `SEND ${METHOD}`,
      'RECV 0 < b',
      'REPLY 0',
    ]);
    assert.deepStrictEqual(carriers(), ['metadata', 'field']);
    assert.strictEqual(received[1].message.toString(), 'two');
    await traced(client, 'other', { method: '/test.Echo/Other' });
    await traced(client, 'other', { method: '/test.Echo/Other' });
    await traced(clientOf(t, port, { version }));
    assert.deepStrictEqual(carriers().slice(2), ['metadata', 'field', 'metadata']);
    // clients of one channel share its state
    await traced(clientOf(t, port, { version, channelOverride: client.getChannel() }));
    assert.strictEqual(carriers()[5], 'field');
    assert.strictEqual(await call(client), 'hello');
    assert.strictEqual(carriers()[6], '');
  });

  test(`${version}: applications get the message without the field, even if the envelope is refused`, async (t) => {
    const served = await server(t, { version });
    const envelope = await anEnvelope(t);
    const forged = Buffer.from(envelope);
    forged[decodeEnvelope(envelope).partEnd] ^= 1;
    const hello = Buffer.from('hello');

    const plain = await post(served.port, hello, {});
    assert.strictEqual(plain.history, null);
    const refused = await post(served.port, appendField(hello, forged), {});
    assert.strictEqual(refused.history, null);
    const inMetadata = await post(served.port, hello, { [KEY]: envelope.toString('base64') });
    assert.strictEqual(takesField(inMetadata.history), true);
    const inField = await post(served.port, appendField(hello, envelope), {});
    assert.strictEqual(takesField(inField.history), true);
    // the field has precedence over forwarded metadata
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

  test(`${version}: only a server that accepts large messages announces the field`, async (t) => {
    const envelope = (await anEnvelope(t)).toString('base64');
    for (const [limit, takes] of [
      [(1 << 20) - 1, false],
      [1 << 20, true],
      [-1, true],
    ]) {
      const { port } = await server(t, { version, 'grpc.max_receive_message_length': limit });
      const { history } = await post(port, Buffer.from('hello'), { [KEY]: envelope });
      assert.strictEqual(takesField(history), takes, String(limit));
    }
  });
}

/** A server in this process, which has the SDK. Its handler gets raw bytes. */
async function server(t, { version = VERSIONS[0], ...options } = {}) {
  const grpc = require(version);
  const calls = { handled: [], intercepted: [], envelopes: [], metadata: [], port: 0 };
  const interceptors = [
    (method, next) => {
      const listener = {
        onReceiveMetadata: (metadata, pass) => {
          calls.envelopes.push(metadata.get(KEY).length);
          pass(metadata);
        },
        onReceiveMessage: (message, pass) => {
          calls.intercepted.push(message.toString());
          pass(Buffer.from(message)); // like an interceptor that replaces messages
        },
        onReceiveHalfClose: (pass) => pass(),
        onCancel: () => 0,
      };
      return new grpc.ServerInterceptingCall(next, { start: (start) => start(listener) });
    },
  ];
  const one = new grpc.Server({ ...options, ...(grpc.ServerInterceptingCall ? { interceptors } : {}) });
  const handler = (call, callback) => {
    calls.handled.push(call.request.toString());
    calls.metadata.push(call.metadata.get(KEY).length);
    callback(calls.handled.at(-1) === 'fail' ? { code: 9, details: 'as requested' } : null, call.request);
  };
  one.register(METHOD, handler, same, same, 'unary');
  one.register(STREAM, (stream) => stream.end(), same, same, 'serverStream');
  calls.port = await new Promise((resolve, reject) =>
    one.bindAsync('127.0.0.1:0', grpc.ServerCredentials.createInsecure(), (error, port) =>
      error ? reject(error) : resolve(port),
    ),
  );
  if (!grpc.ServerInterceptingCall) {
    one.start();
  }
  t.after(() => one.forceShutdown());
  return calls;
}

/** An envelope as a client sends it. */
async function anEnvelope(t) {
  const { received, port } = await callee(t, [NO_HISTORY]);
  await traced(clientOf(t, port));
  return received[0].envelope;
}

/** Makes a call without any library. Returns the message and the history of the reply. */
async function post(port, message, headers, method = METHOD) {
  const session = http2.connect(`http://127.0.0.1:${port}`);
  try {
    const stream = session.request({
      ':method': 'POST',
      ':path': method,
      'content-type': 'application/grpc',
      te: 'trailers',
      ...headers,
    });
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
  [
    'a reply that no longer announces the field',
    [ANNOUNCES, ANNOUNCES, DOES_NOT_ANNOUNCE, DOES_NOT_ANNOUNCE],
    ['metadata', 'field', 'field', 'metadata', 'metadata'],
  ],
  [
    'a reply without a history: metadata for good',
    [ANNOUNCES, NO_HISTORY, ANNOUNCES],
    ['metadata', 'field', 'metadata', 'metadata', 'metadata'],
  ],
  [
    'an error without a history: metadata for good',
    [ANNOUNCES, { status: 9 }, ANNOUNCES],
    ['metadata', 'field', 'metadata', 'metadata', 'metadata'],
  ],
  ['no reply', [ANNOUNCES, { status: 14 }, ANNOUNCES], ['metadata', 'field', 'metadata', 'field', 'field']],
  ['an error that announces the field', [{ status: 9, flags: 4 }], ['metadata', 'field', 'field', 'field', 'field']],
  [
    'a reply without a history to an envelope in metadata',
    [NO_HISTORY, ANNOUNCES, ANNOUNCES],
    ['metadata', 'metadata', 'field', 'field', 'field'],
  ],
];

for (const [reply, replies, carriers] of STATES) {
  test(`the carrier of the next envelope after ${reply}`, async (t) => {
    const made = await callee(t, replies);
    const client = clientOf(t, made.port);
    for (const _ of carriers) {
      await traced(client);
    }
    assert.deepStrictEqual(made.carriers(), carriers);
  });
}

/** A channel whose next envelope goes into the field. */
async function ready(t, options, replies = [ANNOUNCES]) {
  const made = await callee(t, replies);
  const client = clientOf(t, made.port, options);
  await traced(client);
  made.received.length = 0;
  return { ...made, client };
}

test('an envelope in a large message, under a small send limit, or for a bridge is sent in metadata', async (t) => {
  const { client, carriers } = await ready(t);
  for (const size of [65_536, 65_537, 0]) {
    const text = 'x'.repeat(size);
    assert.strictEqual(await traced(client, text), text);
  }
  assert.deepStrictEqual(carriers(), ['field', 'metadata', 'field']);
  await tracedRequest([], () => call(client), { bridge: true });
  assert.strictEqual(carriers()[3], 'metadata');

  const small = await ready(t, { 'grpc.max_send_message_length': 150 });
  assert.strictEqual(await traced(small.client, 'x'.repeat(100)), 'x'.repeat(100));
  assert.deepStrictEqual(small.carriers(), ['metadata']);
});

test('a channel tracks 1,024 methods', () => {
  const { MethodCarriers } = require('../dist/hooks/grpc/method-carriers.js');
  const carriers = new MethodCarriers();
  const announcing = Buffer.from('0100000000000000000401620000', 'hex');
  for (let n = 0; n < 1025; n++) {
    carriers.callEnded(`/${n}`, false, true, announcing);
  }
  assert.deepStrictEqual(
    [carriers.usesField('/0'), carriers.usesField('/1023'), carriers.usesField('/1024')],
    [true, true, false],
  );
});

test('retries send the field again', async (t) => {
  const policy = {
    maxAttempts: 3,
    initialBackoff: '0.01s',
    maxBackoff: '0.01s',
    backoffMultiplier: 1,
    retryableStatusCodes: ['RESOURCE_EXHAUSTED'],
  };
  const config = JSON.stringify({ loadBalancingConfig: [], methodConfig: [{ name: [{}], retryPolicy: policy }] });
  const { received, carriers, port } = await callee(t, [ANNOUNCES, { status: 8 }, ANNOUNCES]);
  const client = clientOf(t, port, { 'grpc.service_config': config });
  await traced(client);
  assert.strictEqual(await traced(client, 'again'), 'again');
  assert.deepStrictEqual(carriers(), ['metadata', 'field', 'field']);
  const [, first, second] = received;
  assert.deepStrictEqual(second.envelope, first.envelope);
  assert.strictEqual(second.message.toString(), 'again');
  assert.strictEqual(second.headers['grpc-previous-rpc-attempts'], '1');
});

test('interceptors, deadlines, cancellation and faults work as with metadata', async (t) => {
  const { client, received, carriers } = await ready(t);
  const grpc = require('@grpc/grpc-js');

  // the message arrives late, and the application changes its metadata meanwhile
  const late = (options, next) =>
    new grpc.InterceptingCall(next(options), {
      sendMessage: (message, pass) => setImmediate(() => pass(Buffer.concat([message, Buffer.from('!')]))),
    });
  for (const before of ['before', undefined]) {
    const metadata = new grpc.Metadata();
    if (before !== undefined) {
      metadata.set('own', before);
    }
    const intercepted = await tracedRequest([], () => {
      const reply = call(client, 'late', { metadata, interceptors: [late] });
      metadata.set('own', 'after');
      return reply;
    });
    assert.strictEqual(intercepted.result, 'late!');
    assert.deepStrictEqual([carriers(), received[0].headers.own, metadata.get('own')], [['field'], before, ['after']]);
    received.length = 0;
  }

  const delayed = await tracedRequest([fault('delay', { arg: 5 })], () => call(client));
  assert.strictEqual(delayed.result, 'hello');
  assert.strictEqual(carriers()[0], 'field');
  const corrupted = await tracedRequest([fault('corrupt-reply')], () => call(client, 'four'));
  assert.strictEqual(corrupted.result.slice(0, 2), 'fo');
  assert.strictEqual(carriers()[1], 'field');
  const refused = await tracedRequest([fault('unavailable')], () => call(client));
  assert.strictEqual(refused.result, 14);

  const never = (options, next) =>
    new grpc.InterceptingCall(next(options), { sendMessage: () => 0, halfClose: () => 0 });
  const expired = await tracedRequest([], () =>
    call(client, 'hello', { interceptors: [never], deadline: Date.now() + 20 }),
  );
  assert.strictEqual(expired.result, 4);
  // the callee certainly did not run, so there is no gap
  assert.deepStrictEqual(events(expired.segment), [`SEND ${METHOD}`, 'FAILED 4', 'REPLY 0']);
  const canceled = await tracedRequest([], () => {
    return new Promise((resolve) => {
      client
        .makeUnaryRequest(METHOD, same, same, Buffer.from('hello'), { interceptors: [never] }, (error) =>
          resolve(error.code),
        )
        .cancel();
    });
  });
  assert.strictEqual(canceled.result, 1);
  assert.deepStrictEqual(events(canceled.segment), [`SEND ${METHOD}`, 'FAILED 1', 'REPLY 0']);
  assert.strictEqual(await traced(client), 'hello');
  assert.strictEqual(carriers().at(-1), 'field');
});

test('with the SDK at both ends, only the first call of a channel has an envelope in its metadata', async (t) => {
  for (const options of [{}, { 'grpc.default_compression_algorithm': 2 }]) {
    const { handled, intercepted, envelopes, port } = await server(t);
    const client = clientOf(t, port, options);
    const { result, segment } = await tracedRequest([], async () => [
      await call(client, 'one'),
      await call(client, 'two'),
      await call(client, 'fail'),
    ]);
    assert.deepStrictEqual(result, ['one', 'two', 9]);
    assert.deepStrictEqual(handled, ['one', 'two', 'fail']);
    assert.deepStrictEqual(intercepted, handled);
    assert.deepStrictEqual(envelopes, [1, 0, 0]);
    const ends = (all) => events(all).filter((one) => !one.startsWith('SEND'));
    assert.deepStrictEqual(ends(segment), ['RECV 0 < test', 'RECV 0 < test', 'RECV 9 < test', 'REPLY 0']);
    // each history belongs to its call
    const texts = Array.from({ length: 20 }, (_, n) => `text ${n}`);
    const many = await tracedRequest([], () => Promise.all(texts.map((text) => call(client, text))));
    assert.deepStrictEqual(many.result, texts);
    assert.deepStrictEqual(ends(many.segment), [...Array(20).fill('RECV 0 < test'), 'REPLY 0']);
    assert.deepStrictEqual(envelopes.slice(3), Array(20).fill(0));
  }
});

test('a peer without the SDK never gets a field, and streams have the envelope in metadata', async (t) => {
  const { client, carriers } = await ready(t, {}, [NO_HISTORY]);
  await traced(client);
  assert.deepStrictEqual(carriers(), ['metadata']);

  // even if the field is announced for a unary method of the same name
  const streams = await ready(t);
  for (let n = 0; n < 2; n++) {
    await tracedRequest([], () => {
      return new Promise((resolve) => {
        const upload = streams.client.makeClientStreamRequest(METHOD, same, same, resolve);
        upload.write(Buffer.from('hello'));
        upload.end();
      });
    });
    await tracedRequest([], () => {
      return new Promise((resolve) => {
        streams.client
          .makeServerStreamRequest(METHOD, same, same, Buffer.from('hello'))
          .on('data', () => 0)
          .on('end', resolve);
      });
    });
  }
  assert.deepStrictEqual(streams.carriers(), Array(4).fill('metadata'));

  const { port } = await server(t);
  const envelope = await anEnvelope(t);
  const { history: piece } = await post(port, Buffer.from('hello'), { [KEY]: envelope.toString('base64') }, STREAM);
  assert.strictEqual(piece[0], 0x81);
  assert.strictEqual(takesField(piece.subarray(3)), false);
  assert.deepStrictEqual(
    piece.subarray(4, 12),
    envelope.subarray(decodeEnvelope(envelope).hopAt, decodeEnvelope(envelope).hopAt + 8),
  );
});
