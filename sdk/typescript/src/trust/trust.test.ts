/** Trust: no settings, rotating keys, the switch for faults, and the replay check. */

import * as assert from 'node:assert/strict';
import { createHmac } from 'node:crypto';
import { mkdtempSync, renameSync, rmSync, utimesSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'node:test';
import { inspect } from 'node:util';
import { envelope, ENVIRONMENT, everySeed, FAULT_KEY, NOW, SETTINGS, TRACE_KEY, trustText, until } from '../testing';
import { CallId } from '../wire/callid';
import { encodeHeader } from '../wire/envelope';
import { fault } from '../wire/plan';
import { Mac } from './mac';
import { Receiver } from './receiver';
import { Key, TrustError, TrustSettings } from './settings';
import { TrustSource } from './trust-source';
import { Signer } from './signer';

const PLAN = [fault('reset')];

test('a receiver without settings ignores every envelope', () => {
  const inactive = Receiver.fixed(null);
  assert.equal(inactive.accept(envelope()!, NOW, 0), null);
  assert.equal(inactive.acceptHeader('!', NOW, 0), null);
  assert.equal(inactive.faultsEnabled(), false);
  assert.equal(TrustSource.fromEnvironment({}).state(), 'no trust settings');
});

test('invalid settings are rejected as a whole', () => {
  const settings = TrustSettings.parse(`# comment\n\nenvironment e;key trace t ${'ab'.repeat(32)}; faults off\r\n`);
  assert.equal(settings.environment, 'e');
  assert.equal(settings.faultsEnabled, false);
  assert.equal(settings.key('t')?.fault, false);
  const bad: [string, number][] = [
    ['environment e\nkey fault f1 zz', 2],
    [`environment e\nkey fault f1 ${'ab'.repeat(31)}`, 2],
    [`environment e\nkey admin f1 ${'ab'.repeat(32)}`, 2],
    [`environment e\nkey fault ${'f'.repeat(33)} ${'ab'.repeat(32)}`, 2],
    ['nonsense', 1],
    ['environment e;faults maybe', 2],
    [`key fault f1 ${'ab'.repeat(32)}`, 0],
    ['', 0],
  ];
  for (const [text, line] of bad) {
    assert.throws(
      () => TrustSettings.parse(text),
      (error: TrustError) => error.line === line && !error.message.includes('abab'),
    );
  }
  everySeed((random) => {
    try {
      TrustSettings.parse(random.text(40));
    } catch (error) {
      assert.ok(error instanceof TrustError);
    }
  });
});

test('printing a key does not reveal its secret', () => {
  assert.equal(JSON.stringify(FAULT_KEY), '{"id":"f1","fault":true,"mac":{}}');
  assert.equal(inspect(FAULT_KEY, { showHidden: true, depth: 9 }), "Key { id: 'f1', fault: true, mac: Mac {} }");
  assert.throws(() => new Key('k', true, Buffer.alloc(31)), RangeError);
});

test('authentication codes equal those of node:crypto', () => {
  everySeed((random) => {
    const [key, prefix, message] = [random.bytes(64), random.bytes(20), random.bytes(random.pick([70, 300, 5000]))];
    const expected = createHmac('sha256', key).update(prefix).update(message).digest();
    assert.deepEqual(new Mac(key).sign(prefix, message, 32), expected);
  }, 100);
  for (let length = 0; length < 200; length++) {
    const message = Buffer.alloc(length, length);
    const expected = createHmac('sha256', 'key').update(message).digest();
    assert.deepEqual(new Mac(Buffer.from('key')).sign(Buffer.alloc(0), message, 16), expected.subarray(0, 16));
  }
});

test('a trace key cannot sign a plan', () => {
  assert.throws(() => envelope({ plan: PLAN }, TRACE_KEY), { code: 'plan_not_permitted' });
  const history = { history: true, bridge: false, trace: Buffer.alloc(16), run: null, expires: 1, plan: null };
  assert.ok(new Signer(TRACE_KEY, ENVIRONMENT).sign(history).length > 0);
});

test('a plan is accepted once per call and attempt, an envelope without a plan any number of times', () => {
  const receiver = Receiver.fixed(SETTINGS);
  const plan = envelope({ plan: PLAN })!;
  assert.equal(typeof receiver.accept(plan, NOW, 0), 'object');
  assert.equal(receiver.accept(plan, NOW, 0), 'replayed');
  assert.equal(typeof receiver.accept(plan, NOW, 1), 'object');
  assert.equal(typeof receiver.acceptBridged(encodeHeader(plan), new CallId(9, 9), NOW, 0), 'object');
  assert.equal(receiver.acceptBridged(encodeHeader(plan), new CallId(9, 9), NOW, 0), 'replayed');
  const history = envelope()!;
  assert.equal(typeof receiver.accept(history, NOW, 0), 'object');
  assert.equal(typeof receiver.accept(history, NOW, 0), 'object');
});

test('the replay cache evicts the oldest entries, and only for new ones', () => {
  const receiver = new Receiver(TrustSource.fixed(SETTINGS), 3);
  const plan = (n: number) => envelope({ plan: PLAN, call: new CallId(0, n) })!;
  for (const n of [1, 2, 3]) {
    assert.equal(typeof receiver.accept(plan(n), NOW, 0), 'object');
  }
  // a replay evicts nothing: all three stay in the cache
  assert.equal(receiver.accept(plan(1), NOW, 0), 'replayed');
  assert.equal(receiver.accept(plan(2), NOW, 0), 'replayed');
  assert.equal(receiver.accept(plan(3), NOW, 0), 'replayed');
  assert.equal(typeof receiver.accept(plan(4), NOW, 0), 'object');
  assert.equal(typeof receiver.accept(plan(1), NOW, 0), 'object');
  assert.equal(receiver.accept(plan(3), NOW, 0), 'replayed');
});

/** A trust file that is replaced by rename. */
class TrustFile {
  private readonly folder = mkdtempSync(join(tmpdir(), 'faultloom-trust-'));
  readonly path = join(this.folder, 'trust');
  private version = 0;

  write(text: string): void {
    writeFileSync(`${this.path}.new`, text);
    // two writes within the resolution of the clock must differ
    utimesSync(`${this.path}.new`, 1_000_000, ++this.version);
    renameSync(`${this.path}.new`, this.path);
  }

  remove(): void {
    rmSync(this.folder, { recursive: true, force: true });
  }
}

const FUTURE_KEY = `environment ${ENVIRONMENT}\nkey fault f2 ${'03'.repeat(32)}\n`;

test('keys rotate and faults are disabled while the process runs', async () => {
  const file = new TrustFile();
  try {
    file.write(trustText());
    const receiver = new Receiver(
      TrustSource.fromEnvironment({ FAULTLOOM_TRUST_FILE: file.path, FAULTLOOM_TRUST: 'ignored' }),
    );
    const accepts = (key: Key): boolean => {
      const accepted = receiver.accept(envelope({}, key)!, NOW, 0);
      return accepted !== null && typeof accepted === 'object';
    };
    const next = new Key('f2', true, Buffer.alloc(32, 3));
    assert.ok(accepts(FAULT_KEY) && !accepts(next) && receiver.faultsEnabled());
    file.write(trustText('off'));
    await until(() => !receiver.faultsEnabled());
    assert.ok(accepts(FAULT_KEY));
    file.write(FUTURE_KEY);
    await until(() => accepts(next));
    assert.ok(!accepts(FAULT_KEY) && receiver.faultsEnabled());
    file.write('environment e\nbroken');
    await until(() => !accepts(next));
    assert.ok(!receiver.faultsEnabled());
    assert.equal(receiver.source.state(), 'line 2 of the trust settings');
    file.write(trustText());
    await until(() => accepts(FAULT_KEY));
    assert.equal(receiver.source.state(), 'keys');
    file.remove();
    await until(() => !accepts(FAULT_KEY));
    assert.match(receiver.source.state(), /ENOENT/);
  } finally {
    file.remove();
  }
});

test('the trust file is checked at most every 200 ms', async () => {
  const file = new TrustFile();
  try {
    file.write(trustText());
    const source = TrustSource.fromFile(file.path);
    const began = performance.now();
    assert.ok(source.settings()!.faultsEnabled);
    file.write(trustText('off'));
    let reads = 0;
    while (source.settings()!.faultsEnabled) {
      reads++;
      await new Promise((resolve) => setTimeout(resolve, 1));
    }
    assert.ok(performance.now() - began >= 200 && reads > 1);
  } finally {
    file.remove();
  }
});
