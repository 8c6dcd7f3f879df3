// Required by every application: ends it with the test that started it, even if the test was killed.
'use strict';

const { isMainThread } = require('node:worker_threads');

if (isMainThread) {
  process.stdin.on('end', () => process.exit()).resume();
}
