// An HTTP service. NEXT=host:port is the service that /call/… calls. FRAMEWORK=express|fastify,
// CLIENT=http|fetch|undici.
'use strict';

const http = require('node:http');

const NEXT = process.env.NEXT;
const agent = new http.Agent({ keepAlive: true });

/** Sends a GET by Node's client. Returns [status, body], or the error's [code, message]. */
function get(path, options = {}) {
  return new Promise((resolve) => {
    const request = http.get(`http://${NEXT}${path}`, { agent, ...options }, (response) => {
      const chunks = [];
      response.on('data', (chunk) => chunks.push(chunk));
      response.on('end', () => resolve([response.statusCode, Buffer.concat(chunks).toString('latin1')]));
      response.on('error', (error) => resolve([error.code, error.message]));
    });
    request.on('timeout', () => request.destroy(Object.assign(new Error('too slow'), { code: 'ETIMEDOUT' })));
    request.on('error', (error) => resolve([error.code ?? error.name, error.message]));
  });
}

async function byFetch(path, options = {}, fetch = globalThis.fetch) {
  try {
    const response = await fetch(`http://${NEXT}${path}`, options);
    return [response.status, Buffer.from(await response.arrayBuffer()).toString('latin1')];
  } catch (error) {
    return [error.cause?.code ?? error.name, error.message, error.cause?.message];
  }
}

async function byUndici(path, options = {}) {
  try {
    const { statusCode, body } = await require(process.env.UNDICI ?? 'undici').request(
      `http://${NEXT}${path}`,
      options,
    );
    return [statusCode, Buffer.from(await body.arrayBuffer()).toString('latin1')];
  } catch (error) {
    return [error.code ?? error.name, error.message];
  }
}

const CLIENTS = { http: get, fetch: byFetch, undici: byUndici };
const call = CLIENTS[process.env.CLIENT ?? 'http'];

/** /call/N/path: N calls, one after the other. */
async function calls(n, path) {
  const replies = [];
  for (; n > 0; n--) {
    replies.push(await call(`/${path}`));
  }
  return replies;
}

function plain(request, response) {
  const [, verb, ...rest] = request.url.split('/');
  switch (verb) {
    case 'call':
      calls(Number(rest[0]), rest.slice(1).join('/')).then((replies) => response.end(JSON.stringify(replies)));
      break;
    case 'big':
      response.end('x'.repeat(Number(rest[0])));
      break;
    case 'pieces':
      response.writeHead(200, { 'content-type': 'application/octet-stream' });
      for (let n = Number(rest[0]); n > 0; n--) {
        response.write(Buffer.alloc(1000, n % 256));
      }
      calls(Number(rest[1] ?? 0), 'hello').then(() => response.end());
      break;
    case 'events':
      response.writeHead(200, { 'content-type': 'text/event-stream' });
      response.write('data: 1\n\n');
      response.end('data: 2\n\n');
      break;
    case 'status':
      response.writeHead(Number(rest[0])).end();
      break;
    case 'echo': {
      // events of the connection, which must run in the scope of the request
      const chunks = [];
      request.on('data', (chunk) => chunks.push(chunk));
      request.on('end', () => {
        calls(NEXT ? 1 : 0, 'hello').then(() => response.end(Buffer.concat(chunks)));
      });
      break;
    }
    case 'headers':
      response.setHeader('vary', 'accept');
      response.end(JSON.stringify(request.headers));
      break;
    default:
      response.end(`hello ${request.url}`);
  }
}

function serve() {
  if (process.env.FRAMEWORK === 'express') {
    const express = require(process.env.EXPRESS ?? 'express');
    const app = express();
    const cart = express.Router();
    cart.use(express.json());
    cart.get('/:user', async (request, response) =>
      response.json(NEXT ? await calls(1, 'hello') : request.params.user),
    );
    cart.post('/:user/items', async (request, response) =>
      response.json({ body: request.body, replies: await calls(1, 'hello') }),
    );
    app.use('/cart', cart);
    app.use((request, response) => plain(request, response));
    return http.createServer(app);
  }
  return http.createServer(plain);
}

async function main() {
  if (process.env.FRAMEWORK === 'fastify') {
    const app = require(process.env.FASTIFY ?? 'fastify')();
    app.get('/cart/:user', async (request) => (NEXT ? calls(1, 'hello') : request.params.user));
    app.post('/cart/:user/items', async (request) => ({ body: request.body, replies: await calls(1, 'hello') }));
    await app.listen({ port: 0, host: '127.0.0.1' });
    console.log(JSON.stringify({ port: app.server.address().port }));
    return;
  }
  const server = serve();
  server.listen(0, '127.0.0.1', () => console.log(JSON.stringify({ port: server.address().port })));
}

module.exports = { byFetch, byUndici, get, plain };

if (require.main === module) {
  main();
}
