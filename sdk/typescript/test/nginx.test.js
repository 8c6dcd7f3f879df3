// A proxy between peers: nginx with compression and a cache, configured correctly and incorrectly.
'use strict';

const assert = require('node:assert');
const { spawn } = require('node:child_process');
const { once } = require('node:events');
const fs = require('node:fs');
const net = require('node:net');
const os = require('node:os');
const path = require('node:path');
const { test } = require('node:test');
const { gunzipSync } = require('node:zlib');
const { chain, descendants, events, faultloom, sendRequest, tracedRequest } = require('./support.js');

const { fault } = faultloom;

function find() {
  const folders = [...process.env.PATH.split(':'), '/usr/sbin', '/usr/local/sbin'];
  return (
    process.env.FAULTLOOM_TEST_NGINX ??
    folders.map((folder) => path.join(folder, 'nginx')).find((file) => fs.existsSync(file))
  );
}

const NGINX = find();
const skip =
  NGINX === undefined
    ? 'nginx is not installed (Debian package nginx-light): behavior behind a proxy is not tested'
    : false;

const CONFIG = ({ root, port, upstream }) => `
daemon off;
${process.getuid() === 0 ? 'user root;' : ''}
worker_processes 1;
pid ${root}/pid;
error_log ${root}/error.log;
events { worker_connections 64; }
http {
  access_log off;
  client_body_temp_path ${root}/body; proxy_temp_path ${root}/proxy;
  fastcgi_temp_path ${root}/f; uwsgi_temp_path ${root}/u; scgi_temp_path ${root}/s;
  proxy_cache_path ${root}/cache keys_zone=one:1m;
  gzip on; gzip_types *; gzip_proxied any; gzip_min_length 1; gzip_http_version 1.0;
  server {
    listen 127.0.0.1:${port};
    location / {
      proxy_pass http://127.0.0.1:${upstream};
      proxy_cache one; proxy_cache_valid 200 1m; add_header X-Cache $upstream_cache_status;
    }
    location /careless/ {
      proxy_pass http://127.0.0.1:${upstream}/;
      proxy_cache one; proxy_cache_valid 200 1m; add_header X-Cache $upstream_cache_status;
      proxy_cache_key $uri$is_args$args; proxy_ignore_headers Cache-Control Vary Expires;
    }
  }
}
`;

async function freePort() {
  const server = net.createServer().listen(0, '127.0.0.1');
  await once(server, 'listening');
  const { port } = server.address();
  server.close();
  await once(server, 'close');
  return port;
}

/** Starts nginx in front of the service front; returns its port. */
async function proxied(t) {
  const { first } = await chain(t, 'http.js');
  const root = fs.mkdtempSync(path.join(os.tmpdir(), 'faultloom-nginx-'));
  const port = await freePort();
  fs.writeFileSync(`${root}/conf`, CONFIG({ root, port, upstream: first.port }));
  const child = spawn(NGINX, ['-p', root, '-c', `${root}/conf`, '-e', `${root}/error.log`], { stdio: 'inherit' });
  t.after(async () => {
    child.kill('SIGTERM');
    if (child.exitCode === null) {
      await once(child, 'exit');
    }
    fs.rmSync(root, { recursive: true });
  });
  for (let tries = 0; ; tries++) {
    try {
      await sendRequest(port, '/hello');
      return port;
    } catch (error) {
      if (tries > 200 || child.exitCode !== null) {
        throw error;
      }
      await new Promise((resolve) => setTimeout(resolve, 50));
    }
  }
}

const GZIP = { headers: { 'accept-encoding': 'gzip, deflate' } };
const CALLERS = {
  http: (port, target) => sendRequest(port, target, GZIP),
  fetch: async (port, target) => {
    const response = await fetch(`http://127.0.0.1:${port}${target}`);
    return { headers: Object.fromEntries(response.headers), body: Buffer.from(await response.arrayBuffer()) };
  },
};

test('histories pass a proxy that compresses, and a traced reply is not cached', { skip }, async (t) => {
  const port = await proxied(t);
  for (const [name, call] of Object.entries(CALLERS)) {
    for (const pieces of [1, 100, 3000]) {
      const { result, segment } = await tracedRequest([], () => call(port, `/pieces/${pieces}/60`));
      // fetch decodes; an application that uses http does that itself
      const body = name === 'http' ? gunzipSync(result.body) : result.body;
      assert.strictEqual(body.length, pieces * 1000, name);
      assert.ok(body.subarray(-1000).every((byte) => byte === 1));
      assert.strictEqual(result.headers['content-encoding'], 'gzip');
      assert.strictEqual(descendants(segment).length, 61);
    }
    for (let n = 0; n < 2; n++) {
      const { result, segment } = await tracedRequest([], () => call(port, `/traced/${name}`));
      assert.strictEqual(result.headers['x-cache'], 'MISS');
      assert.deepStrictEqual(events(segment), [`SEND GET /traced/${name}`, 'RECV 200 < front', 'REPLY 0']);
    }
  }
});

test('a history of another request from a misconfigured cache is a gap', { skip }, async (t) => {
  const port = await proxied(t);
  for (const [name, call] of Object.entries(CALLERS)) {
    for (const target of [`/careless/hello/${name}`, `/careless/pieces/80/60?${name}`]) {
      const found = [];
      for (let n = 0; n < 2; n++) {
        const { result, segment } = await tracedRequest([], () => call(port, target));
        found.push([result.headers['x-cache'], result.body.length, events(segment)[1]]);
      }
      assert.deepStrictEqual(found[0].slice(0, 1).concat(found[0][2]), ['MISS', 'RECV 200 < front']);
      assert.deepStrictEqual(found[1], ['HIT', found[0][1], 'RECV 200 gap']);
    }
  }
});

test('faults have the same effect behind a proxy', { skip }, async (t) => {
  const port = await proxied(t);
  const plan = [
    fault('corrupt-reply', { nth: 2, callee: '127.0.0.1' }),
    fault('lost-reply', { nth: 3, callee: '127.0.0.1' }),
  ];
  const { result, segment } = await tracedRequest(plan, async () => {
    const bodies = [];
    for (let n = 0; n < 4; n++) {
      bodies.push(
        await sendRequest(port, '/other').then(
          ({ body }) => body.toString('latin1'),
          (error) => error.code,
        ),
      );
    }
    return bodies;
  });
  assert.deepStrictEqual(result, ['hello /other', 'hello \xff\xff\xff\xff\xff\xff', 'ECONNRESET', 'hello /other']);
  assert.deepStrictEqual(
    events(segment).filter((event) => !event.startsWith('SEND')),
    ['RECV 200 < front', 'RECV 200 < front', 'FAILED 14 < front', 'RECV 200 < front', 'REPLY 0'],
  );
});
