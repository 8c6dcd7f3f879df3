/**
 * Notices a bundle that has a library inlined: it is loaded from no file of its own, so no hook sees it. Libraries that only
 * use what Node brings (http, fetch) are seen in a bundle as well; gRPC's is not.
 */

import { readFile, stat } from 'node:fs';

const MAX_BYTES = 64 << 20;
const GRPC = '@grpc/grpc-js';
// how the library introduces itself to servers; put together here, since this file may be in the bundle itself
const MARK = ['grpc-node', 'js/'].join('-');

/** Looks at the main program once it has begun; `found` is told what is wrong with which library. */
export function lookIntoBundle(found: (name: string, reason: string) => void): void {
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
          found(GRPC, "is inlined in the program's bundle: leave it out of the bundle, or import 'faultloom/auto-grpc' first in it");
        }
      });
    });
  });
}
