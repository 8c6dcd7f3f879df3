// Required before every application: it ends with the test that started it, even if that was killed.
'use strict';

const { isMainThread } = require('node:worker_threads');

if (isMainThread) {
  process.stdin.on('end', () => process.exit()).resume();
}
