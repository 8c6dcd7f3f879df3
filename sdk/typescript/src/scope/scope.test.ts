/** Scopes: decisions, recording, streams, context, and how scopes are opened. */

import * as assert from 'node:assert/strict';
import { test } from 'node:test';
import { envelope, everySeed, FAULT_KEY, SETTINGS, TestScope, TRACE_KEY } from '../testing';
import { Receiver } from '../trust/receiver';
import { TrustSettings } from '../trust/settings';
import { TrustSource } from '../trust/trust-source';
import { CallId } from '../wire/callid';
import { appendField, cutField } from '../wire/carrier';
import { encodeHeader, Envelope } from '../wire/envelope';
import { decodeHistory, MAX_HISTORY_BYTES } from '../wire/history';
import { PieceJoiner } from '../wire/piece';
import { fault } from '../wire/plan';
import { currentScope, withoutScope, withScope } from './context';
import { waitForFault } from './fault-wait';
import { Process } from './process';
import { OutgoingCall, Scope } from './scope';

function send(scope: Scope, name = '/back.Back/Get', peer = 'back'): OutgoingCall {
  const call = scope.beginCall(false, peer, name, 1, 4 << 20);
  assert.ok(call !== null);
  return call;
}

/** The history that a callee returns for a call. */
function child(call: OutgoingCall, bytes = 0): Buffer {
  const scope = new TestScope({ call: call.id });
  while (bytes > 0) {
    send(scope, `/${bytes}${'x'.repeat(180)}`);
    bytes -= 200;
  }
  return scope.finish(0)!;
}

test('a call has four events, two at each end', () => {
  const scope = new TestScope();
  const call = send(scope);
  scope.atUs = 250;
  scope.recordReply(call, 0, child(call), false);
  scope.atUs = 300;
  const { segment, call: id } = decodeHistory(scope.finish(0)!);
  assert.equal(id.toString(), new CallId(1, 2).toString());
  assert.deepEqual(
    segment.events.map((event) => [event.kind, event.atUs]),
    [
      ['SEND_REQUEST', 0],
      ['RECV_RESPONSE', 250],
      ['SEND_RESPONSE', 300],
    ],
  );
  const reply = segment.events[1]!;
  assert.ok('child' in reply && reply.child?.events.length === 1 && !reply.gap);
});

test('only the first end of a call is recorded, and only a history of that call', () => {
  const scope = new TestScope();
  const [a, b] = [send(scope), send(scope)];
  scope.recordReply(a, 0, child(b), false);
  scope.recordReply(a, 99, child(a), false);
  scope.recordReply(b, 0, child(b), false);
  const ends = decodeHistory(scope.finish(0)!).segment.events.filter((event) => 'child' in event);
  assert.deepEqual(
    ends.map((end) => 'child' in end && [end.call, end.gap, end.child !== null]),
    [
      [1, true, false],
      [2, false, true],
    ],
  );
});

test('a finished scope records nothing', () => {
  const scope = new TestScope();
  const [open, started, stream] = [send(scope), send(scope), send(scope)];
  scope.replyStarted(started, 206);
  scope.openStream(stream);
  const { segment } = decodeHistory(scope.finish(0)!);
  assert.deepEqual(
    segment.events.slice(3).map((event) => [event.kind, 'status' in event && event.status]),
    [
      ['RECV_RESPONSE', 206],
      ['CALL_FAILED', 1],
      ['SEND_RESPONSE', 0],
    ],
  );
  scope.recordReply(open, 0, null, false);
  assert.equal(scope.beginCall(false, 'b', '/x', 0, 0), null);
  assert.equal(scope.finish(0), null);
  assert.equal(scope.nextPiece(1), null);
  assert.equal(scope.lastPiece(0), null);
  // its writer is reused
  const other = new TestScope();
  scope.recordReply(open, 0, null, false);
  assert.equal(decodeHistory(other.finish(0)!).segment.events.length, 1);
});

test('events beyond the limits are left out, and the segment is marked as truncated', () => {
  const large = new TestScope();
  for (let i = 0; i < 6; i++) {
    const call = send(large);
    large.recordReply(call, 0, child(call, 1 << 20), false);
  }
  const bytes = large.finish(0)!;
  const { segment } = decodeHistory(bytes);
  const last = segment.events[11]!;
  assert.ok(bytes.length <= MAX_HISTORY_BYTES && segment.truncated && 'gap' in last && last.gap);

  const many = new TestScope();
  for (let i = 0; i < 60_000; i++) {
    many.recordReply(send(many), 0, null, false);
  }
  assert.ok(decodeHistory(many.finish(0)!).segment.truncated);

  const wide = new TestScope();
  for (let i = 0; i < 22_000; i++) {
    send(wide, `/${i}${'n'.repeat(300)}`, 'p'.repeat(300));
  }
  assert.ok(decodeHistory(wide.finish(0)!).segment.truncated);
});

test('repeated names are stored once', () => {
  const scope = new TestScope();
  for (let round = 0; round < 2; round++) {
    for (let i = 0; i < 100; i++) {
      send(scope, `/s/${i}`);
    }
  }
  const bytes = scope.finish(0)!;
  const names = decodeHistory(bytes).segment.events.map((event) => ('name' in event ? event.name : ''));
  assert.deepEqual(names.slice(100, 200), names.slice(0, 100));
  assert.equal(bytes.toString('latin1').split('/s/7').length - 1, 11); // 7 and 70 to 79, once each
});

test('a fault fires where it is planned, unless faults are disabled', () => {
  const plan = [
    fault('unavailable', { callee: 'back', nth: 2 }),
    fault('status', { call: 'Get', arg: 5, maxFires: 1 }),
  ];
  const play = (settings: TrustSettings) => {
    const process = new Process('front', { receiver: Receiver.fixed(settings) });
    const scope = new TestScope({ plan }, process);
    const fired = [1, 2, 3].map(() => send(scope).fault?.kind ?? null);
    return { fired, off: decodeHistory(scope.finish(0)!).segment.faultsOff };
  };
  assert.deepEqual(play(SETTINGS), { fired: ['status', 'unavailable', null], off: false });
  assert.deepEqual(play(new TrustSettings('test', [FAULT_KEY], false)), { fired: [null, null, null], off: true });
  assert.deepEqual(play(SETTINGS), { fired: ['status', 'unavailable', null], off: false });
});

test('events of a returned history count as evidence', () => {
  const after = [{ caller: 'front', callee: '', call: 'Get', times: 2 }];
  const scope = new TestScope({ plan: [fault('reset', { callee: 'far', after })] });
  const first = send(scope);
  const below = new TestScope({ call: first.id, plan: scope.envelope.plan });
  below.recordReply(send(below), 0, null, true);
  scope.recordReply(first, 0, below.finish(0), false);
  assert.equal(send(scope, '/x', 'far').fault?.kind, 'reset');
});

test('a call whose envelope would be too large goes out without one', () => {
  const names = Array.from({ length: 64 }, (_, i) => fault('reset', { callee: `${i}${'x'.repeat(26)}`, nth: 1 }));
  const scope = new TestScope({ plan: names.slice(0, 56), evidence: new Array(56).fill((1n << 64n) - 1n) });
  assert.equal(send(scope).envelope, null);
});

test('the pieces of a stream form a history at any time', () => {
  const scope = new TestScope();
  const joiner = new PieceJoiner();
  const message = (bytes: number): boolean => {
    const piece = scope.nextPiece(bytes);
    if (piece !== null) {
      joiner.add(cutField(appendField(Buffer.alloc(bytes), piece)).history!);
    }
    return piece !== null;
  };
  assert.equal(message(10), true);
  assert.equal(message(10), false, 'no new event');
  const call = send(scope);
  assert.equal(message(4 << 20), false, 'message too large');
  assert.equal(message(10), true);
  assert.equal(joiner.isComplete, false);
  assert.equal(decodeHistory(joiner.history(new CallId(1, 2))!).segment.events.length, 1);
  scope.recordReply(call, 0, null, true);
  joiner.add(scope.lastPiece(0)!);
  assert.ok(joiner.isComplete && decodeHistory(joiner.history(new CallId(1, 2))!).segment.events.length === 3);
});

test('the pieces of a stream form the history that a single reply would return', () => {
  everySeed((random) => {
    const streaming = new TestScope({ receiveLimit: 200 + random.below(2000) });
    const whole = new TestScope();
    const joiner = new PieceJoiner();
    for (let steps = random.below(30); steps > 0; steps--) {
      streaming.atUs = whole.atUs += random.below(500);
      if (random.below(3) === 0) {
        const piece = streaming.nextPiece(random.below(300));
        if (piece !== null) {
          joiner.add(piece);
        }
        continue;
      }
      const name = `/s.S/${random.below(5)}`;
      const calls = [streaming, whole].map((scope) => [scope, send(scope, name)] as const);
      const end = random.below(3);
      for (const [scope, call] of calls) {
        if (end > 0) {
          scope.recordReply(call, end, end === 1 ? child(call, random.seed % 3000) : null, end === 2);
        }
      }
    }
    const last = streaming.lastPiece(0);
    const history = whole.finish(0)!;
    assert.ok(last === null || last.length <= 3072);
    if (last !== null) {
      joiner.add(last);
    }
    const joined = joiner.history(new CallId(1, 2));
    if (joiner.isComplete) {
      assert.deepEqual(joined, history);
    } else if (joined !== null) {
      assert.ok(decodeHistory(joined).segment.truncated);
    }
  });
});

test('an open stream keeps the pieces that have arrived', () => {
  const scope = new TestScope();
  const call = send(scope);
  const callee = new TestScope({ call: call.id });
  send(callee);
  scope.addPiece(call, callee.nextPiece(0)!);
  const end = decodeHistory(scope.finish(0)!).segment.events[1]!;
  assert.ok('child' in end && end.kind === 'CALL_FAILED' && end.status === 1 && !end.gap);
  assert.ok(end.child!.truncated && end.child!.events.length === 1);
});

test('a reply carries the history only if the envelope requests it, and not over a bridge', () => {
  assert.equal(new TestScope({ history: false }).finish(0), null);
  assert.equal(new TestScope({}, undefined, 'bridge').finish(0), null);
  assert.equal(new TestScope({}, undefined, 'entry').lastPiece(0), null);
});

test('a wait ends early if it is canceled or faults are disabled', async () => {
  const wait = (receiver: Receiver, waitMs: number) =>
    new Promise<boolean>((done) => waitForFault(receiver, waitMs, done));
  assert.equal(await wait(Receiver.fixed(SETTINGS), 1), true);
  // a receiver without settings has faults disabled
  assert.equal(await wait(new Receiver(TrustSource.fixed(null)), 30_000), false);
  const cancel = waitForFault(Receiver.fixed(SETTINGS), 20, () => assert.fail('canceled'));
  cancel();
  await new Promise((done) => setTimeout(done, 40));
});

test('the current scope follows promises and timers until the scope has finished', async () => {
  const scope = new TestScope();
  assert.equal(currentScope(), undefined);
  await withScope(scope, async () => {
    assert.equal(currentScope(), scope);
    await new Promise((done) => setTimeout(done, 1));
    assert.equal(currentScope(), scope);
    assert.equal(withoutScope(currentScope), undefined);
    scope.finish(0);
    assert.equal(currentScope(), undefined);
  });
  assert.equal(currentScope(), undefined);
});

// -- opening scopes

function now(parts: Partial<Envelope>): Partial<Envelope> {
  return { expires: Math.floor(Date.now() / 1000) + 60, ...parts };
}

const PARENT = `00-${'0a'.repeat(16)}-00000000000000ff-01`;

function open(
  process: Process,
  envelope: Buffer | string | undefined,
  traceparent?: string,
  baggage?: string,
): Scope | null {
  return process.openScope({ envelope, attempt: 0, traceparent, baggage });
}

test('an envelope in its own carrier has precedence over a bridged one', () => {
  const process = new Process('front', { receiver: Receiver.fixed(SETTINGS) });
  const raw = envelope(now({}))!;
  const baggage = `faultloom=${encodeHeader(raw)}`;
  assert.equal(open(process, raw, PARENT, baggage)?.origin, 'caller');
  assert.equal(open(process, encodeHeader(raw), PARENT, baggage)?.origin, 'caller');
  const bridged = open(process, undefined, PARENT, baggage)!;
  assert.equal(bridged.origin, 'bridge');
  assert.equal(bridged.envelope.call.toString(), '00000000000000ff');
  assert.deepEqual([bridged.envelope.accept, bridged.envelope.receiveLimit], [0, 0]);
  assert.equal(open(process, undefined, undefined, baggage), null);
  assert.equal(open(process, undefined, PARENT), null);
  assert.equal(open(process, 'nonsense', PARENT), null);
});

test('a trace starts at a sampled request', () => {
  const samples = [false, true, false];
  const sampler = { sample: () => samples.shift()! };
  const process = new Process('front', { receiver: Receiver.fixed(SETTINGS), sampler, bridge: true });
  assert.equal(open(process, undefined), null);
  const scope = open(process, undefined, PARENT)!;
  assert.equal(scope.origin, 'entry');
  assert.equal(scope.envelope.call.toString(), '00000000000000ff');
  assert.ok(scope.envelope.trace.equals(Buffer.alloc(16, 10)) && scope.envelope.bridge);
  assert.equal(open(process, undefined), null);
  // the next service accepts it by the trace key
  const accepted = Receiver.fixed(new TrustSettings('test', [TRACE_KEY])).accept(
    send(scope).envelope!,
    Math.floor(Date.now() / 1000),
    0,
  );
  assert.ok(
    accepted !== null &&
      typeof accepted === 'object' &&
      accepted.history &&
      accepted.plan === null &&
      accepted.run === null,
  );
});

test('nothing is sampled without a trace key', () => {
  const process = new Process('front', {
    receiver: Receiver.fixed(new TrustSettings('test', [FAULT_KEY])),
    sampler: { sample: () => true },
  });
  assert.equal(open(process, undefined), null);
});
