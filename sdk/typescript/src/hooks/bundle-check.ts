/**
 * Detects a bundle with @grpc/grpc-js inlined. Such a copy is not loaded from its own file, so it cannot be hooked.
 * Libraries on top of Node's http and fetch are traced in a bundle too.
 */

import { readFile, stat } from 'node:fs';

const MAX_BYTES = 64 << 20;
const GRPC = '@grpc/grpc-js';
// the library's user agent; assembled at run time, because this file may be in the bundle itself
const MARK = ['grpc-node', 'js/'].join('-');

/** Checks the main program after it has started. `found` is called with the library and the reason. */
export function checkBundle(found: (name: string, reason: string) => void): void {
  setImmediate(() => {
    const main = require.main?.filename ?? process.argv[1];
    if (main === undefined || main.includes('node_modules')) {
      return;
    }
    stat(main, (error, stats) => {
      if (error !== null || stats.size > MAX_BYTES) {
        return;
      }
      readFile(main, 'latin1', (problem, text) => {
        if (problem === null && text.includes(MARK)) {
          found(
            GRPC,
            "is inlined in the program's bundle: leave it out of the bundle, or import 'faultloom/auto-grpc' first in it",
          );
        }
      });
    });
  });
}
