/** Cases of the fault dispatcher that the vectors of kind `hook` do not cover. */

import * as assert from 'node:assert/strict';
import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { fault, KINDS } from '../wire/plan';
import { faultEffect, sendsAfterWait } from './faults';

test('a wait that ends early because faults are disabled sends a delayed call', () => {
  for (const kind of KINDS) {
    for (const timeoutMs of [null, 10]) {
      const planned = fault(kind, { arg: 100 });
      const effect = faultEffect('http', planned, timeoutMs);
      assert.equal(sendsAfterWait(planned, effect, true), effect.sends, kind);
      assert.equal(sendsAfterWait(planned, effect, false), effect.sends || kind === 'delay', kind);
    }
  }
});

test('a timeout that equals the wait of a fault ends the call', () => {
  const delay = fault('delay', { arg: 100 });
  assert.equal(faultEffect('grpc', delay, 101).sends, true);
  assert.equal(faultEffect('grpc', delay, 100).sends, false);
});

test('no other hook compares kinds of faults', () => {
  const folder = join(__dirname, '../../src/hooks');
  const files = ['.', 'grpc', 'http', 'undici'].flatMap((name) =>
    readdirSync(join(folder, name))
      .filter((file) => file.endsWith('.ts') && !file.endsWith('.test.ts') && file !== 'faults.ts')
      .map((file) => join(folder, name, file)),
  );
  assert.ok(files.length > 15);
  for (const file of files) {
    assert.doesNotMatch(readFileSync(file, 'utf8'), /\.kind\b/, file);
  }
});
