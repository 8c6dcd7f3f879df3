// A server in a child process, which inherits NODE_OPTIONS.
'use strict';

const { spawn } = require('node:child_process');
const http = require('node:http');

if (process.argv[2] === 'child') {
  const server = http.createServer((_request, response) => response.end('from a child'));
  server.listen(0, '127.0.0.1', () => process.send(server.address().port));
  process.on('disconnect', () => process.exit());
} else {
  const child = spawn(process.execPath, [__filename, 'child'], { stdio: ['ignore', 'inherit', 'inherit', 'ipc'] });
  child.on('message', (port) => console.log(JSON.stringify({ port })));
}
