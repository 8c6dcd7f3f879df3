/** Cases of the fault dispatcher that the vectors of kind `hook` do not cover. */

import * as assert from 'node:assert/strict';
import { readdirSync, readFileSync } from 'node:fs';
import { join, relative } from 'node:path';
import { test } from 'node:test';
import { fault, KINDS } from '../wire/plan';
import { faultEffect, sendsAfterWait } from './faults';

test('a delayed call is sent if faults are disabled during its wait', () => {
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

test('only the dispatcher distinguishes kinds of faults', () => {
  // scopes also have kinds of events
  const inHooks = /\.kind\b|\bkind\b[^;\n]*\} = /;
  const elsewhere = /fault[?!]?\.kind\b/i;
  const source = join(__dirname, '../../src');
  const found: string[] = [];
  let hooks = 0;
  for (const module of ['trust', 'scope', 'entry', 'hooks']) {
    for (const file of sourceFiles(join(source, module))) {
      hooks += module === 'hooks' ? 1 : 0;
      if ((module === 'hooks' ? inHooks : elsewhere).test(readFileSync(file, 'utf8'))) {
        found.push(relative(source, file));
      }
    }
  }
  assert.deepEqual(found, ['hooks/faults.ts']);
  assert.ok(hooks > 20);
});

/** The source files in a folder and the folders below it, without tests. */
function sourceFiles(folder: string): string[] {
  return readdirSync(folder, { withFileTypes: true }).flatMap((entry) => {
    const path = join(folder, entry.name);
    if (entry.isDirectory()) {
      return sourceFiles(path);
    }
    return entry.name.endsWith('.test.ts') ? [] : [path];
  });
}
