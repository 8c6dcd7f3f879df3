/** The conformance program: `node dist/conform.js VECTORFOLDER` prints the result of each vector on one line. */

import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { Json, parse, print } from './conform/json';
import { result } from './conform/kinds';

/** The output lines for a folder of vectors, sorted by name. `expect` is not read. */
export function* lines(folder: string): Generator<string> {
  for (const group of ['bad', 'good']) {
    const names = readdirSync(join(folder, group)).filter((name) => name.endsWith('.json'));
    for (const name of names.sort()) {
      const { kind, input } = parse(readFileSync(join(folder, group, name), 'utf8')) as { kind: string; input: Json };
      let value: Json;
      try {
        value = result(kind, input);
      } catch (error) {
        value = { failed: String(error) };
      }
      yield `${group}/${name.slice(0, -'.json'.length)} ${print(value)}`;
    }
  }
}

function main(): void {
  const [folder, ...more] = process.argv.slice(2);
  if (folder === undefined || more.length > 0) {
    console.error('usage: node conform.js VECTORFOLDER');
    process.exitCode = 2;
    return;
  }
  for (const line of lines(folder)) {
    console.log(line);
  }
}

if (require.main === module) {
  main();
}
