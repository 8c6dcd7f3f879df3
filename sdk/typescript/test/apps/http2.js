// An HTTP/2 service. NEXT=host:port is the service that /call/… calls; TLS=1: with TLS, of the key and certificate in
// KEY and CERT; API=stream: with the `stream` event; FRAMEWORK=koa|fastify.
'use strict';

const fs = require('node:fs');
const http2 = require('node:http2');

const { NEXT, TLS, API, FRAMEWORK, KEY, CERT } = process.env;
const scheme = TLS ? 'https' : 'http';

/** One session for all calls. */
let session = null;
function connected() {
  if (session === null || session.closed || session.destroyed) {
    session = http2.connect(`${scheme}://${NEXT}`, TLS ? { ca: fs.readFileSync(CERT), servername: 'localhost' } : {});
    session.on('error', () => undefined);
  }
  return session;
}

/** Sends a request. Returns the status, the body and the names of all events of the stream, in order. */
function request(path, { method = 'GET', headers = {}, body, options, prepare, from = connected() } = {}) {
  return new Promise((resolve) => {
    const result = { status: 0, body: '', headers: {}, trailers: {}, error: '', message: '', cause: '', events: [] };
    const chunks = [];
    const stream = from.request({ ':path': path, ':method': method, ...headers }, options);
    stream.on('response', (received) => {
      result.events.push('response');
      result.status = received[':status'];
      result.headers = { ...received };
    });
    stream.on('trailers', (received) => {
      result.events.push('trailers');
      result.trailers = { ...received };
    });
    stream.on('data', (chunk) => chunks.push(chunk));
    for (const name of ['end', 'aborted', 'timeout']) {
      stream.on(name, () => result.events.push(name));
    }
    stream.on('error', (error) => {
      result.events.push('error');
      result.error = error.code ?? error.name;
      result.message = error.message;
      result.cause = error.cause?.code ?? error.cause?.name ?? '';
    });
    stream.on('close', () => {
      result.events.push('close');
      result.rstCode = stream.rstCode;
      result.body = Buffer.concat(chunks).toString('latin1');
      resolve(result);
    });
    prepare?.(stream);
    if (method !== 'GET' && method !== 'HEAD' && method !== 'DELETE') {
      stream.end(body);
    }
  });
}

async function calls(n, path) {
  const replies = [];
  for (; n > 0; n--) {
    const { status, error, body, message } = await request(`/${path}`);
    replies.push([error || status, error ? message : body]);
  }
  return replies;
}

/** Serves a request by functions that both APIs have. */
function serve(path, headers, { head, write, end, stream, trailer }) {
  const [, verb, ...rest] = path.split('/');
  switch (verb) {
    case 'call':
      calls(Number(rest[0]), rest.slice(1).join('/')).then((replies) => {
        head(200, { 'content-type': 'application/json' });
        end(JSON.stringify(replies));
      });
      break;
    case 'big':
      end('x'.repeat(Number(rest[0])));
      break;
    case 'length': {
      const body = Buffer.alloc(Number(rest[0]), 'y');
      head(200, { 'content-length': body.length });
      write(body.subarray(0, body.length / 2));
      setImmediate(() => setImmediate(() => end(body.subarray(body.length / 2))));
      break;
    }
    case 'pieces':
      head(200, { 'content-type': 'application/octet-stream' });
      for (let n = Number(rest[0]); n > 0; n--) {
        write(Buffer.alloc(1000, n % 256));
      }
      calls(Number(rest[1] ?? 0), 'hello').then(() => end());
      break;
    case 'events':
      head(200, { 'content-type': 'text/event-stream' });
      write('data: 1\n\n');
      setImmediate(() => setImmediate(() => end('data: 2\n\n')));
      break;
    case 'frames': // of a stream of Connect: the second is sent when the client has the first
      head(200, { 'content-type': 'application/connect+json' });
      write(Buffer.from([0, 0, 0, 0, 1, 0x31]));
      stream.once('data', () => {
        calls(Number(rest[0]), 'hello').then(() => end(Buffer.from([0, 0, 0, 0, 1, 0x32])));
      });
      break;
    case 'status':
      head(Number(rest[0]), {});
      end();
      break;
    case 'trailers':
      trailer({ own: 'trailer' });
      end('with trailers');
      break;
    case 'reset':
      head(200, {});
      write('abc');
      setImmediate(() => setImmediate(() => stream.close(http2.constants[rest[0]])));
      break;
    case 'refuse':
      stream.close(http2.constants[rest[0]]);
      break;
    case 'goaway':
      if (rest[0] === 'body') {
        head(200, {});
        write('abc');
      }
      setImmediate(() => setImmediate(() => stream.session.goaway(http2.constants.NGHTTP2_INTERNAL_ERROR)));
      break;
    case 'file':
      stream.respondWithFile(__filename, { 'content-type': 'text/plain' });
      break;
    case 'push':
      stream.pushStream({ ':path': '/pushed' }, (error, pushed) => {
        if (!error) {
          pushed.respond({ ':status': 200 });
          pushed.end('pushed');
        }
        end('pushes');
      });
      break;
    case 'silent':
      break;
    case 'echo': {
      const chunks = [];
      stream.on('data', (chunk) => chunks.push(chunk));
      stream.on('end', () => calls(NEXT ? 1 : 0, 'hello').then(() => end(Buffer.concat(chunks))));
      break;
    }
    case 'headers':
      head(200, { vary: 'accept' });
      end(JSON.stringify(headers));
      break;
    default:
      end(`hello ${path}`);
  }
}

function byStream(stream, headers) {
  const trailers = {};
  let hasHead = false;
  const head = (status, more) => {
    hasHead = true;
    stream.respond({ ':status': status, ...more }, { waitForTrailers: Object.keys(trailers).length > 0 });
  };
  const before = (action) => (chunk) => {
    if (!hasHead) {
      head(200, {});
    }
    action(chunk);
  };
  stream.on('error', () => undefined);
  stream.on('wantTrailers', () => stream.sendTrailers(trailers));
  serve(headers[':path'], headers, {
    head,
    write: before((chunk) => stream.write(chunk)),
    end: before((chunk) => stream.end(chunk)),
    stream,
    trailer: (more) => Object.assign(trailers, more),
  });
}

function byRequest(request, response) {
  response.stream.on('error', () => undefined);
  serve(request.url, request.headers, {
    head: (status, headers) => response.writeHead(status, headers),
    write: (chunk) => response.write(chunk),
    end: (chunk) => response.end(chunk),
    stream: response.stream,
    trailer: (more) => response.addTrailers(more),
  });
}

const tls = TLS ? { key: fs.readFileSync(KEY), cert: fs.readFileSync(CERT), allowHTTP1: true } : {};

function create() {
  if (FRAMEWORK === 'koa') {
    const app = new (require('koa'))();
    const router = new (require('@koa/router'))();
    router.get('/cart/:user', async (context) => (context.body = NEXT ? await calls(1, 'hello') : context.params.user));
    app.use(router.routes());
    return http2.createServer(app.callback());
  }
  const server = TLS ? http2.createSecureServer(tls) : http2.createServer();
  if (API === 'stream') {
    server.on('stream', byStream);
    if (TLS) {
      // HTTP/1.1 has no streams
      server.on('request', (request, response) => request.httpVersionMajor === 1 && response.end(`one ${request.url}`));
    }
  } else {
    server.on('request', (request, response) =>
      request.httpVersionMajor === 1 ? response.end(`one ${request.url}`) : byRequest(request, response),
    );
  }
  server.on('sessionError', () => undefined);
  return server;
}

async function main() {
  if (FRAMEWORK === 'fastify') {
    const app = require('fastify')({ http2: true });
    app.get('/cart/:user', async (request) => (NEXT ? calls(1, 'hello') : request.params.user));
    await app.listen({ port: 0, host: '127.0.0.1' });
    console.log(JSON.stringify({ port: app.server.address().port }));
    return;
  }
  const server = create();
  server.listen(0, '127.0.0.1', () => console.log(JSON.stringify({ port: server.address().port })));
}

module.exports = { request };

if (require.main === module) {
  main();
}
