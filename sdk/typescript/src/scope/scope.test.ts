/** What a scope decides, records and leaves alone. */

import * as assert from 'node:assert/strict';
import { test } from 'node:test';
import { Receiver } from '../trust/receiver';
import { Settings } from '../trust/settings';
import { Source } from '../trust/source';
import { envelope, everySeed, FAULT_KEY, SETTINGS, signed, TestScope, TRACE_KEY } from '../testing';
import { CallId } from '../wire/callid';
import { cutField, appendField } from '../wire/carrier';
import { Envelope, toHeader } from '../wire/envelope';
import { decodeHistory, MAX_HISTORY_BYTES } from '../wire/history';
import { Joiner } from '../wire/piece';
import { fault } from '../wire/plan';
import { Sampler } from '../entry/sampler';
import { current, outside, within } from './context';
import { parsePeers, Process } from './process';
import { Call, Scope } from './scope';
import { wait, waitMs } from './wait';

function send(scope: Scope, name = '/back.Back/Get', peer = 'back'): Call {
  const call = scope.send(false, peer, name, 1, 4 << 20);
  assert.ok(call !== null);
  return call;
}

/** What a callee returns for a call. */
function child(call: Call, bytes = 0): Buffer {
  const scope = new TestScope({ call: call.id });
  while (bytes > 0) {
    send(scope, `/${bytes}${'x'.repeat(180)}`);
    bytes -= 200;
  }
  return scope.finish(0)!;
}

test('a call takes four events, two here and two there', () => {
  const scope = new TestScope();
  const call = send(scope);
  scope.atUs = 250;
  scope.replied(call, 0, child(call), false);
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

test('a history is taken once, and only if it answers the call', () => {
  const scope = new TestScope();
  const [a, b] = [send(scope), send(scope)];
  scope.replied(a, 0, child(b), false);
  scope.replied(a, 99, child(a), false);
  scope.replied(b, 0, child(b), false);
  const ends = decodeHistory(scope.finish(0)!).segment.events.filter((event) => 'child' in event);
  assert.deepEqual(
    ends.map((end) => 'child' in end && [end.call, end.gap, end.child !== null]),
    [
      [1, true, false],
      [2, false, true],
    ],
  );
});

test('a scope that has answered stays out of the way', () => {
  const scope = new TestScope();
  const [open, begun, stream] = [send(scope), send(scope), send(scope)];
  scope.begun(begun, 206);
  stream.stream();
  const { segment } = decodeHistory(scope.finish(0)!);
  assert.deepEqual(
    segment.events.slice(3).map((event) => [event.kind, 'status' in event && event.status]),
    [
      ['RECV_RESPONSE', 206],
      ['CALL_FAILED', 1],
      ['SEND_RESPONSE', 0],
    ],
  );
  scope.replied(open, 0, null, false);
  assert.equal(scope.send(false, 'b', '/x', 0, 0), null);
  assert.equal(scope.finish(0), null);
  assert.equal(scope.message(1), null);
  assert.equal(scope.finishStream(0), null);
  // what it recorded into is used again
  const other = new TestScope();
  scope.replied(open, 0, null, false);
  assert.equal(decodeHistory(other.finish(0)!).segment.events.length, 1);
});

test('a history stays readable: what would be too much is left out, and the segment says so', () => {
  const large = new TestScope();
  for (let i = 0; i < 6; i++) {
    const call = send(large);
    large.replied(call, 0, child(call, 1 << 20), false);
  }
  const bytes = large.finish(0)!;
  const { segment } = decodeHistory(bytes);
  const last = segment.events[11]!;
  assert.ok(bytes.length <= MAX_HISTORY_BYTES && segment.truncated && 'gap' in last && last.gap);

  const many = new TestScope();
  for (let i = 0; i < 60_000; i++) {
    many.replied(send(many), 0, null, false);
  }
  assert.ok(decodeHistory(many.finish(0)!).segment.truncated);

  const wide = new TestScope();
  for (let i = 0; i < 22_000; i++) {
    send(wide, `/${i}${'n'.repeat(300)}`, 'p'.repeat(300));
  }
  assert.ok(decodeHistory(wide.finish(0)!).segment.truncated);
});

test('many names are found again', () => {
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

test('a fault fires where it is planned, and not when faults are off', () => {
  const plan = [fault('unavailable', { callee: 'back', nth: 2 }), fault('status', { call: 'Get', arg: 5, maxFires: 1 })];
  const play = (settings: Settings) => {
    const process = new Process('front', { receiver: Receiver.fixed(settings) });
    const scope = new TestScope({ plan }, process);
    const fired = [1, 2, 3].map(() => send(scope).fault?.kind ?? null);
    return { fired, off: decodeHistory(scope.finish(0)!).segment.faultsOff };
  };
  assert.deepEqual(play(SETTINGS), { fired: ['status', 'unavailable', null], off: false });
  assert.deepEqual(play(new Settings('test', [FAULT_KEY], false)), { fired: [null, null, null], off: true });
  assert.deepEqual(play(SETTINGS), { fired: ['status', 'unavailable', null], off: false });
});

test('the next hop knows what happened below', () => {
  const after = [{ caller: 'front', callee: '', call: 'Get', times: 2 }];
  const scope = new TestScope({ plan: [fault('reset', { callee: 'far', after })] });
  const first = send(scope);
  const below = new TestScope({ call: first.id, plan: scope.envelope.plan });
  below.replied(send(below), 0, null, true);
  scope.replied(first, 0, below.finish(0), false);
  assert.equal(send(scope, '/x', 'far').fault?.kind, 'reset');
});

test('what would be too large is not sent, and the call goes out without it', () => {
  const names = Array.from({ length: 64 }, (_, i) => fault('reset', { callee: `${i}${'x'.repeat(26)}`, nth: 1 }));
  const scope = new TestScope({ plan: names.slice(0, 56), evidence: new Array(56).fill((1n << 64n) - 1n) });
  assert.equal(send(scope).envelope, null);
});

test('a stream takes its history along in pieces, and what came is a history', () => {
  const scope = new TestScope();
  const joiner = new Joiner();
  const message = (bytes: number): boolean => {
    const piece = scope.message(bytes);
    if (piece !== null) {
      joiner.add(cutField(appendField(Buffer.alloc(bytes), piece)).history!);
    }
    return piece !== null;
  };
  assert.equal(message(10), true);
  assert.equal(message(10), false, 'nothing is new');
  const call = send(scope);
  assert.equal(message(4 << 20), false, 'no room');
  assert.equal(message(10), true);
  const early = joiner.finish(new CallId(1, 2));
  assert.equal(early.complete, false);
  assert.equal(decodeHistory(early.history!).segment.events.length, 1);
  scope.replied(call, 0, null, true);
  joiner.add(scope.finishStream(0)!);
  const { history, complete } = joiner.finish(new CallId(1, 2));
  assert.ok(complete && decodeHistory(history!).segment.events.length === 3);
});

test('the pieces of a stream make the history that one reply would have brought', () => {
  everySeed((random) => {
    const streamed = new TestScope({ receiveLimit: 200 + random.below(2000) });
    const whole = new TestScope();
    const joiner = new Joiner();
    for (let steps = random.below(30); steps > 0; steps--) {
      streamed.atUs = whole.atUs += random.below(500);
      if (random.below(3) === 0) {
        const piece = streamed.message(random.below(300));
        if (piece !== null) {
          joiner.add(piece);
        }
        continue;
      }
      const name = `/s.S/${random.below(5)}`;
      const calls = [streamed, whole].map((scope) => [scope, send(scope, name)] as const);
      const end = random.below(3);
      for (const [scope, call] of calls) {
        if (end > 0) {
          scope.replied(call, end, end === 1 ? child(call, random.seed % 3000) : null, end === 2);
        }
      }
    }
    const last = streamed.finishStream(0);
    const history = whole.finish(0)!;
    assert.ok(last === null || last.length <= 3072);
    if (last !== null) {
      joiner.add(last);
    }
    const { history: joined, complete } = joiner.finish(new CallId(1, 2));
    if (complete) {
      assert.deepEqual(joined, history);
    } else if (joined !== null) {
      assert.ok(decodeHistory(joined).segment.truncated);
    }
  });
});

test('an open stream keeps what has come', () => {
  const scope = new TestScope();
  const call = send(scope);
  const callee = new TestScope({ call: call.id });
  send(callee);
  call.stream().add(callee.message(0)!);
  const end = decodeHistory(scope.finish(0)!).segment.events[1]!;
  assert.ok('child' in end && end.kind === 'CALL_FAILED' && end.status === 1 && !end.gap);
  assert.ok(end.child!.truncated && end.child!.events.length === 1);
});

test('a reply brings the history only if it was asked for, and not over a bridge', () => {
  assert.equal(new TestScope({ history: false }).finish(0), null);
  assert.equal(new TestScope({}, undefined, 'bridge').finish(0), null);
  assert.equal(new TestScope({}, undefined, 'entry').finishStream(0), null);
});

test('waits are capped, and end early when they are cancelled or faults are off', async () => {
  assert.equal(waitMs(fault('hang', { arg: 1n << 63n })), 30_000);
  assert.equal(waitMs(fault('hang')), 30_000);
  assert.equal(waitMs(fault('delay')), 0);
  await new Promise<void>((done) => wait(Receiver.fixed(SETTINGS), fault('delay', { arg: 1 }), done));
  // deaf is off
  await new Promise<void>((done) => wait(new Receiver(Source.fixed(null)), fault('hang'), done));
  const cancel = wait(Receiver.fixed(SETTINGS), fault('delay', { arg: 20 }), () => assert.fail('cancelled'));
  cancel();
  await new Promise((done) => setTimeout(done, 40));
});

test('the context follows promises and timers, and ends with the scope', async () => {
  const scope = new TestScope();
  assert.equal(current(), undefined);
  await within(scope, async () => {
    assert.equal(current(), scope);
    await new Promise((done) => setTimeout(done, 1));
    assert.equal(current(), scope);
    assert.equal(outside(current), undefined);
    scope.finish(0);
    assert.equal(current(), undefined);
  });
  assert.equal(current(), undefined);
});

test('peers are parsed', () => {
  const peers = parsePeers('127.0.0.1:1=a, [::1]:2=b,,=c,d=,e');
  assert.deepEqual([...peers], [['127.0.0.1:1', 'a'], ['[::1]:2', 'b']]);
});

// -- how scopes begin

function now(parts: Partial<Envelope>): Partial<Envelope> {
  return { expires: Math.floor(Date.now() / 1000) + 60, ...parts };
}

const PARENT = `00-${'0a'.repeat(16)}-00000000000000ff-01`;

test('an own envelope goes before a bridged one', () => {
  const process = new Process('front', { receiver: Receiver.fixed(SETTINGS) });
  const raw = envelope(now({}))!;
  const baggage = `faultloom=${toHeader(raw)}`;
  assert.equal(process.openGrpc(raw, 0, PARENT, baggage)?.origin, 'caller');
  assert.equal(process.openHttp(toHeader(raw), PARENT, baggage)?.origin, 'caller');
  const bridged = process.openHttp(undefined, PARENT, baggage)!;
  assert.equal(bridged.origin, 'bridge');
  assert.equal(bridged.envelope.call.toString(), '00000000000000ff');
  assert.deepEqual([bridged.envelope.accept, bridged.envelope.receiveLimit], [0, 0]);
  assert.equal(process.openGrpc(undefined, 0, undefined, baggage), null);
  assert.equal(process.openGrpc(undefined, 0, PARENT, undefined), null);
  assert.equal(process.openHttp('nonsense', PARENT, undefined), null);
});

test('one in N of the requests without an envelope is traced from here on', () => {
  const draws = [0.9, 0.2, 0.9];
  const sampler = new Sampler(4, () => draws.shift()!);
  const process = new Process('front', { receiver: Receiver.fixed(SETTINGS), sampler, bridge: true });
  assert.equal(process.openHttp(undefined, undefined, undefined), null);
  const scope = process.openHttp(undefined, PARENT, undefined)!;
  assert.equal(scope.origin, 'entry');
  assert.equal(scope.envelope.call.toString(), '00000000000000ff');
  assert.ok(scope.envelope.trace.equals(Buffer.alloc(16, 10)) && scope.envelope.bridge);
  assert.equal(process.openHttp(undefined, undefined, undefined), null);
  // the next hop believes it, by the trace key
  const accepted = Receiver.fixed(new Settings('test', [TRACE_KEY])).accept(send(scope).envelope!, Math.floor(Date.now() / 1000), 0);
  assert.ok(accepted !== null && typeof accepted === 'object' && accepted.history && accepted.plan === null && accepted.run === null);
});

test('without a trace key nothing is drawn', () => {
  const process = new Process('front', { receiver: Receiver.fixed(new Settings('test', [FAULT_KEY])), sampler: new Sampler(1) });
  assert.equal(process.openHttp(undefined, undefined, undefined), null);
  assert.equal(signed().history, true);
});

test('a sampler understands 1/N and needs an exporter', () => {
  const sampler = (FAULTLOOM_SAMPLE: string, exports = true) => Sampler.fromEnvironment({ FAULTLOOM_SAMPLE }, exports)?.n;
  assert.equal(sampler('1/1'), 1);
  assert.equal(sampler('1/1000000'), 1_000_000);
  for (const bad of ['1/0', '1/1000001', '2/4', '0.5', '1/4x', '1/04']) {
    assert.equal(sampler(bad), undefined, bad);
  }
  assert.equal(sampler('1/4', false), undefined);
  const counted = new Sampler(4);
  let drawn = 0;
  for (let i = 0; i < 4000; i++) {
    drawn += counted.draw() ? 1 : 0;
  }
  assert.ok(drawn > 800 && drawn < 1200, `${drawn}`);
});
