// A server in a worker thread.
'use strict';

const http = require('node:http');
const { isMainThread, parentPort, Worker } = require('node:worker_threads');

if (isMainThread) {
  new Worker(__filename).on('message', (port) => console.log(JSON.stringify({ port })));
} else {
  const server = http.createServer((_request, response) => response.end('from a thread'));
  server.listen(0, '127.0.0.1', () => parentPort.postMessage(server.address().port));
}
