/** The codec: round trips, and for arbitrary bytes a result or a stable error code. */

import * as assert from 'node:assert/strict';
import { test } from 'node:test';
import { envelope, ENVIRONMENT, everySeed, FAULT_KEY, NOW, Random, SETTINGS, signed, TestScope } from '../testing';
import { Receiver } from '../trust/receiver';
import { Signer } from '../trust/signer';
import { extractBridge, injectBridge, parseTraceparent } from './bridge';
import { addUint64, increment, Reader, toUint64, truncateUtf8, Uint64, Writer } from './bytes';
import { CallId } from './callid';
import {
  allowsTail,
  appendField,
  corruptBody,
  cutField,
  cutTail,
  encodeTail,
  fieldLength,
  isStreamed,
  mightHaveField,
} from './carrier';
import { decodeHeader, encodeHeader, Envelope } from './envelope';
import { ErrorCode } from './errors';
import { decodeHistory, HEAD_BYTES, History, readHistory, Segment } from './history';
import { normalizeHttpName, rawHttpName } from './names';
import { resourceSpans } from './otlp';
import { PIECE, PieceJoiner } from './piece';
import { counterCount, decodePlan, encodePlan } from './plan';
import { calleeMatches, callMatches } from './selector';
import { truncateHistory } from './truncate';

const SIGNER = new Signer(FAULT_KEY, ENVIRONMENT);

test('a varint survives a round trip', () => {
  const edges: Uint64[] = [
    0,
    127,
    128,
    2 ** 28 - 1,
    2 ** 28,
    2 ** 31,
    2 ** 32,
    Number.MAX_SAFE_INTEGER,
    1n << 53n,
    (1n << 64n) - 1n,
  ];
  const check = (value: Uint64): void => {
    const out = new Writer(1);
    out.varint(value);
    const r = new Reader(out.view());
    assert.deepEqual([r.varint(), r.bad, r.left], [value, false, 0]);
  };
  edges.forEach(check);
  everySeed((random) => check(random.uint64()));
});

test('a varint of 2^64 or more, of eleven bytes, or without its last byte is refused', () => {
  for (const bytes of ['ffffffffffffffffff02', '8080808080808080808000', '80']) {
    const r = new Reader(Buffer.from(bytes, 'hex'));
    r.varint();
    assert.ok(r.bad, bytes);
  }
});

test('64-bit arithmetic neither wraps nor rounds', () => {
  assert.equal(addUint64(Number.MAX_SAFE_INTEGER, 1), 1n << 53n);
  assert.equal(addUint64((1n << 64n) - 1n, 1), undefined);
  assert.equal(increment((1n << 64n) - 1n), (1n << 64n) - 1n);
  assert.equal(toUint64(5n), 5);
});

test('a string is truncated at a character boundary', () => {
  everySeed((random) => {
    const text = random.text(40);
    const max = random.below(50);
    const short = truncateUtf8(text, max);
    assert.ok(Buffer.byteLength(short) <= max && text.startsWith(short));
    assert.ok(short === text || Buffer.byteLength(short) > max - 4);
    assert.ok(!short.includes('\ufffd'));
  });
});

test('call ids follow the formula', () => {
  const mask = (1n << 64n) - 1n;
  everySeed((random) => {
    const parent = new CallId(random.below(2 ** 32), random.below(2 ** 32));
    const n = random.pick([random.below(100), random.below(2 ** 32), 2 ** 32 * random.below(1000)]);
    let z = (BigInt(`0x${parent}`) + BigInt(n) * 0x9e3779b97f4a7c15n) & mask;
    z = ((z ^ (z >> 30n)) * 0xbf58476d1ce4e5b9n) & mask;
    z = ((z ^ (z >> 27n)) * 0x94d049bb133111ebn) & mask;
    z ^= z >> 31n;
    assert.equal(parent.derive(n).toString(), z.toString(16).padStart(16, '0'));
  });
});

test('a plan survives a round trip', () => {
  everySeed((random) => {
    const plan = Array.from({ length: 1 + random.below(4) }, () => random.fault());
    assert.deepEqual(decodePlan(encodePlan(plan)), plan);
  });
});

test('a plan beyond the limits is not encoded', () => {
  const faults = Array.from({ length: 65 }, () => new Random(1).fault());
  assert.throws(() => encodePlan(faults), { code: 'too_many_faults' });
  assert.throws(() => encodePlan([]), { code: 'malformed' });
  assert.throws(() => encodePlan([{ ...new Random(1).fault(), callee: 'x'.repeat(129) }]), {
    code: 'envelope_too_large',
  });
});

test('an envelope survives a round trip', () => {
  everySeed((random) => {
    const plan = random.below(2) === 0 ? null : Array.from({ length: 1 + random.below(3) }, () => random.fault());
    const evidence = Array.from({ length: counterCount(plan ?? []) }, () => random.uint64());
    const run = random.below(2) === 0 ? null : Buffer.alloc(16, 9);
    const expected = signed({
      plan,
      evidence,
      run,
      bridge: random.below(2) === 0,
      accept: random.below(4),
      receiveLimit: random.uint64(),
    });
    const bytes = envelope(expected);
    if (bytes === null) {
      return;
    }
    const got = Receiver.fixed(SETTINGS).acceptHeader(encodeHeader(bytes), NOW, 0);
    assert.deepEqual(got, { ...expected, key: 'f1', signedPrefix: SIGNER.sign(expected) });
  });
});

const CODES: unknown[] = [
  'malformed',
  'unsupported_version',
  'oversized',
  'unsigned',
  'unknown_key',
  'bad_signature',
  'too_many_faults',
  'unknown_fault',
];

test('a modified envelope is refused or differs in its unsigned part only', () => {
  const plan = [new Random(3).fault()];
  const good = envelope({ plan })!;
  const signedBytes = SIGNER.sign(signed({ plan })).length;
  everySeed((random) => {
    const changed = Buffer.from(good);
    const at = random.below(good.length);
    changed[at]! ^= 1 + random.below(255);
    const got = Receiver.fixed(SETTINGS).accept(changed, NOW, 0);
    assert.ok(CODES.includes(got) || (at >= signedBytes && (got as Envelope).trace.equals(Buffer.alloc(16, 7))));
  });
});

test('random bytes are rejected as an envelope, and no decoder throws', () => {
  everySeed((random) => {
    const bytes = random.bytes(200);
    const receiver = Receiver.fixed(SETTINGS);
    assert.ok(CODES.includes(receiver.accept(bytes, NOW, 0)));
    assert.ok(CODES.includes(receiver.accept(Buffer.concat([Buffer.of(1), bytes]), NOW, 0)));
    assert.equal(typeof receiver.acceptHeader(random.text(40), NOW, 0), 'string');
    decodePlan(bytes);
    readHistory(Buffer.concat([Buffer.of(1), bytes]));
    const joiner = new PieceJoiner();
    joiner.add(Buffer.concat([Buffer.of(PIECE, 0, 0), bytes]));
    joiner.history(new CallId(0, 1));
    cutField(bytes);
    cutTail(bytes);
  });
});

test('bytes have exactly one header encoding', () => {
  assert.deepEqual(decodeHeader('AQ'), Buffer.of(1));
  for (const text of ['AR', 'AQ=', 'AQ==', 'A', 'AQ\n', ' AQ', 'A+8', 'A/8']) {
    assert.equal(decodeHeader(text), undefined, JSON.stringify(text));
  }
});

/** A random history recorded by scopes. */
function recordedHistory(random: Random, depth = 2, call = new CallId(1, 2)): Buffer {
  const scope = new TestScope({ call });
  for (let n = random.below(8); n > 0; n--) {
    const http = random.below(2) === 0;
    const sent = scope.beginCall(
      http,
      random.pick(['back:80', 'cart', '語']),
      http ? `GET /item/${n}` : '/s.S/Call',
      0,
      0,
    )!;
    scope.atUs += random.below(2000);
    const how = random.below(4);
    const child = how === 0 && depth > 0 ? recordedHistory(random, depth - 1, sent.id) : null;
    if (how < 3) {
      const status = random.below(2) === 0 ? 0 : random.below(600);
      const gap = child === null && how === 1;
      random.below(3) === 0
        ? scope.recordFailure(sent, status % 17, child, gap)
        : scope.recordReply(sent, status, child, gap);
    }
  }
  scope.atUs += random.below(2000);
  return scope.finish(random.below(600), random.pick(['', 'GET /r/{id}']))!;
}

test('a truncated history fits the limit and keeps a prefix of the events', () => {
  everySeed((random) => {
    const history = recordedHistory(random);
    const whole = decodeHistory(history).segment;
    const limit = random.below(400);
    const short = truncateHistory(history, limit);
    if (short === null) {
      assert.ok(limit < history.length);
      return;
    }
    assert.ok(short.length <= limit || short === history);
    const { segment } = decodeHistory(short);
    assert.equal(segment.truncated, short !== history);
    assert.deepEqual(segment.events.at(-1), whole.events.at(-1));
    segment.events.slice(0, -1).forEach((event, i) => {
      const same = whole.events[i]!;
      assert.deepEqual(
        'child' in event && 'child' in same && same.child !== event.child
          ? { ...event, gap: same.gap, child: same.child }
          : event,
        same,
      );
    });
  });
});

test('a damaged history is malformed or a different history', () => {
  everySeed((random) => {
    const history = recordedHistory(random);
    const at = random.below(history.length);
    const damaged = Buffer.concat([history.subarray(0, at), random.bytes(3), history.subarray(at + random.below(4))]);
    const codes: (ErrorCode | undefined)[] = ['malformed', 'unsupported_version'];
    const got = readHistory(damaged);
    assert.ok(typeof got !== 'string' || codes.includes(got));
    for (const limit of [damaged.length - 1, HEAD_BYTES + 8]) {
      try {
        truncateHistory(damaged, limit);
      } catch (error) {
        assert.equal((error as { code: string }).code, 'malformed');
      }
    }
  });
});

test('nesting depth and number of events are limited', () => {
  const nested = (levels: number): Buffer => {
    let segment: Buffer = Buffer.from('0001730001', 'hex');
    for (let i = 0; i < levels; i++) {
      const out = new Writer(64);
      out.put(Buffer.from('0001730001' + '010000016e000170' + '0a000100', 'hex'));
      out.varint(segment.length);
      out.put(segment);
      segment = out.view();
    }
    return Buffer.concat([Buffer.from('010000000000000001', 'hex'), segment]);
  };
  assert.equal(typeof readHistory(nested(63)), 'object');
  let deepest = (readHistory(nested(64)) as History).segment;
  for (let depth = 1; depth < 64; depth++) {
    deepest = (deepest.events.at(-1) as { child: Segment }).child;
  }
  const { gap, child } = deepest.events.at(-1) as { gap: boolean; child: Segment | null };
  assert.deepEqual({ gap, child }, { gap: true, child: null });
  const head = Buffer.from('010000000000000001' + '0001730001' + '010000016e000170', 'hex');
  const sends = (n: number): Buffer => Buffer.concat([head, Buffer.alloc(4 * n, Buffer.of(1, 0, 1, 2))]);
  assert.equal(typeof readHistory(sends(99_999)), 'object');
  assert.equal(readHistory(sends(100_000)), 'malformed');
});

test('an appended field or tail is split off again', () => {
  everySeed((random) => {
    const message = random.bytes(100);
    const history = random.bytes(300);
    const field = appendField(message, history);
    assert.equal(field.length, message.length + fieldLength(history.length));
    assert.deepEqual(cutField(field), { message, history });
    assert.equal(mightHaveField(field), true);
    const tail = Buffer.concat([Buffer.from('0100000000000000010001730001', 'hex'), history]);
    assert.deepEqual(cutTail(Buffer.concat([message, encodeTail(tail)])), { message, history: tail });
  });
});

test('bytes that only resemble a field are kept', () => {
  everySeed((random) => {
    const bytes = Buffer.concat([random.bytes(60), Buffer.from([0, 0, 0, random.below(80)]), Buffer.from('flm\x01')]);
    const { message, history } = cutField(bytes);
    assert.ok(history !== null || message === bytes);
    assert.ok(history === null || mightHaveField(bytes));
    assert.equal(mightHaveField(bytes.subarray(0, -1)), false);
  });
});

test('corruption keeps the length, the first half and the original buffer', () => {
  const body = Buffer.from('abcde');
  assert.deepEqual(corruptBody(body), Buffer.from([0x61, 0x62, 0xff, 0xff, 0xff]));
  assert.equal(body.toString(), 'abcde');
});

test('a header prevents a tail as a string and as a list', () => {
  const none = () => undefined;
  const one = (name: string, value: string | string[]) => (other: string) => (other === name ? value : undefined);
  assert.equal(allowsTail(2, 'GET', none, 200, none), true);
  assert.equal(allowsTail(2, 'GET', none, 200, one('content-encoding', ['identity', 'Identity'])), true);
  assert.equal(allowsTail(2, 'GET', none, 200, one('content-encoding', ['identity', 'br'])), false);
  assert.equal(allowsTail(2, 'GET', one('range', 'bytes=0-'), 200, none), false);
  assert.equal(isStreamed(one('content-type', 'Text/Event-Stream; charset=utf-8')), true);
  assert.equal(isStreamed(one('x-accel-buffering', ' NO ')), true);
  assert.equal(isStreamed(one('content-type', 'text/html')), false);
});

test('normalization and matching accept any string', () => {
  everySeed((random) => {
    const path = random.text(120);
    const name = normalizeHttpName(rawHttpName('GET', `/${path}`));
    assert.ok(Buffer.byteLength(name) <= 200);
    assert.ok(callMatches(name, name) && calleeMatches(path, path));
    calleeMatches(random.text(10), path);
    callMatches(random.text(10), path);
  });
});

test('a bridge adds an envelope and keeps other members', () => {
  const bytes = envelope()!;
  const call = new CallId(5, 6);
  const inject = (traceparent: string | undefined, baggage: string | undefined) =>
    injectBridge(traceparent, baggage, bytes, Buffer.alloc(16, 7), call);
  const headers = inject('', 'a=1, faultloom=old ,b=2;p');
  assert.equal(headers.traceparent, `00-${'07'.repeat(16)}-${call}-01`);
  assert.equal(headers.baggage, `a=1,b=2;p,faultloom=${encodeHeader(bytes)}`);
  assert.deepEqual(extractBridge(headers.traceparent, headers.baggage), { envelope: encodeHeader(bytes), call });
  assert.equal(extractBridge('no traceparent', headers.baggage), null);
  assert.deepEqual(inject('own', 'x'.repeat(8190)), { traceparent: 'own', baggage: 'x'.repeat(8190) });
  everySeed((random) => {
    parseTraceparent(random.text(60));
    extractBridge(headers.traceparent, random.text(60) + 'faultloom=' + random.text(9));
  });
});

test('every segment and call has a span whose parent exists', () => {
  everySeed((random) => {
    const history = decodeHistory(recordedHistory(random, 3));
    const spans = resourceSpans(Buffer.alloc(16, 1), false, history).flatMap((service) => service.scopeSpans[0].spans);
    const ids = new Set(spans.map((span) => span.spanId));
    assert.equal(ids.size, spans.length);
    assert.ok(spans.every((span, i) => (i === 0 ? span.parentSpanId === undefined : ids.has(span.parentSpanId!))));
    assert.ok(spans.every((span) => BigInt(span.startTimeUnixNano) <= BigInt(span.endTimeUnixNano)));
  }, 100);
});

test('cachedStr reads the same strings as str', () => {
  const cache = { text: '' };
  const read = (...bytes: number[]): string | null => {
    const r = new Reader(Buffer.from(bytes));
    const text = r.cachedStr(cache, 1, 4);
    return r.bad || r.left > 0 ? null : text;
  };
  assert.strictEqual(read(2, 0x61, 0x62), 'ab');
  assert.strictEqual(read(2, 0x61, 0x62), 'ab');
  assert.strictEqual(read(2, 0x61, 0x63), 'ac');
  assert.strictEqual(read(3, 0x61, 0x63), null);
  assert.strictEqual(read(2, 0x61), null);
  assert.strictEqual(read(0), null);
  assert.strictEqual(read(5, 0x61, 0x61, 0x61, 0x61, 0x61), null);
  // non-ASCII strings are not cached: U+00E9 is not the byte 0xE9
  assert.strictEqual(read(2, 0xc3, 0xa9), '\u00e9');
  assert.strictEqual(read(1, 0xe9), null);
});
