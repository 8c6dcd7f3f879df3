// A server that completes few connections: it listens with a queue of one and never accepts.
'use strict';

const net = require('node:net');

const server = net.createServer();
server.listen({ port: 0, host: '127.0.0.1', backlog: 1 }, () => {
  // synchronously, because the event loop stops
  require('node:fs').writeSync(1, `${JSON.stringify({ port: server.address().port })}\n`);
  Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0);
});
