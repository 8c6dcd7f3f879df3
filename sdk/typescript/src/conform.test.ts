/** Every vector has the expected result. */

import * as assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { lines } from './conform';
import { parse, print } from './conform/json';

const VECTORS = join(__dirname, '../../../spec/vectors');

for (const line of lines(VECTORS)) {
  const blank = line.indexOf(' ');
  const name = line.slice(0, blank);
  test(name, () => {
    const { expect } = parse(readFileSync(join(VECTORS, `${name}.json`), 'utf8')) as { expect: unknown };
    assert.equal(line.slice(blank + 1), print(expect));
  });
}
