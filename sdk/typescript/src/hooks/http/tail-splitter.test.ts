import assert from 'node:assert';
import { test } from 'node:test';
import { CallId } from '../../wire/callid';
import { encodeTail } from '../../wire/carrier';
import { TailSplitter } from './tail-splitter';

const CALL = CallId.parse('0102030405060708');
const HISTORY = Buffer.from('01' + '0102030405060708' + '00' + '04' + '6261636b' + '00' + '00', 'hex');

/** Splits a body that arrives in chunks of `size` bytes. */
function split(body: Buffer, size: number): { message: Buffer; history: Buffer | null } {
  let history: Buffer | null = null;
  const splitter = new TailSplitter(CALL, (found) => (history = found));
  const parts: Buffer[] = [];
  for (let at = 0; at < body.length; at += size) {
    parts.push(splitter.feed(Buffer.from(body.subarray(at, at + size))));
  }
  parts.push(splitter.end());
  return { message: Buffer.concat(parts), history };
}

test('a body is the same however it is cut into chunks', () => {
  // text, starts of tails that are ruled out after some bytes, and the tail
  const start = HISTORY.subarray(0, 12);
  const start2 = Buffer.concat([Buffer.of(2), start.subarray(1)]);
  const text = Buffer.from('text '.repeat(20));
  const message = Buffer.concat([text, start, start2, Buffer.alloc(40, 1), start, Buffer.alloc(9)]);
  for (const version of [1, 2]) {
    const history = Buffer.concat([Buffer.of(version), HISTORY.subarray(1)]);
    const body = Buffer.concat([message, encodeTail(history)]);
    for (const size of [1, 2, 3, 7, 16, 50, body.length]) {
      assert.deepStrictEqual(split(body, size), { message, history }, `version ${version}, chunks of ${size}`);
    }
  }
});

test('bytes held back are not copied again for each chunk', (t) => {
  const copied = t.mock.method(Buffer.prototype, 'copy');
  const allocated = t.mock.method(Buffer, 'allocUnsafe');
  const splitter = new TailSplitter(CALL, () => undefined);
  // the name is as long as permitted, then anything may follow
  splitter.feed(Buffer.concat([HISTORY.subarray(0, 10), Buffer.from([64]), Buffer.alloc(64, 'a')]));
  const chunk = Buffer.alloc(1024, 'b');
  for (let i = 0; i < 2000; i++) {
    assert.strictEqual(splitter.feed(chunk).length, 0);
  }
  assert.strictEqual(splitter.abandon().length, 75 + 2000 * 1024);
  assert.ok(allocated.mock.callCount() < 20, `${allocated.mock.callCount()} allocations`);
  assert.ok(copied.mock.callCount() < 2020, `${copied.mock.callCount()} copies`);
});
