// The shop's pages, over TLS.
'use strict';

const crypto = require('node:crypto');
const fs = require('node:fs');
const https = require('node:https');

const { PORT, PRICES_URL, STOCK_URL, TLS_CERT, TLS_KEY, CA, CLIENT_CERT, CLIENT_KEY } = process.env;
const USER = 'anna';
const PASSWORD = 'correct horse';
const BODY_BYTES_MAX = 1 << 20;

const agent = new https.Agent({
  ca: fs.readFileSync(CA),
  cert: fs.readFileSync(CLIENT_CERT),
  key: fs.readFileSync(CLIENT_KEY),
  keepAlive: true,
});
/** Session → user. */
const sessions = new Map();

function get(url) {
  return new Promise((resolve, reject) => {
    const request = https.get(url, { agent }, (reply) => {
      const parts = [];
      reply.on('data', (part) => parts.push(part));
      reply.on('error', reject);
      reply.on('end', () => {
        if (reply.statusCode !== 200) return reject(new Error(`${url}: status ${reply.statusCode}`));
        resolve(JSON.parse(Buffer.concat(parts).toString()));
      });
    });
    request.on('error', reject);
  });
}

async function read(request) {
  const parts = [];
  let length = 0;
  for await (const part of request) {
    parts.push(part);
    length += part.length;
    if (length > BODY_BYTES_MAX) throw new Error('the body is too long');
  }
  return Buffer.concat(parts);
}

function userOf(request) {
  const session = /(?:^|; )session=([0-9a-f]+)/.exec(request.headers.cookie ?? '');
  return session && sessions.get(session[1]);
}

function send(response, status, value, headers = {}) {
  response.writeHead(status, { 'content-type': 'application/json', ...headers });
  response.end(JSON.stringify(value));
}

async function home(response) {
  const price = await get(`${PRICES_URL}/price/mug-01`);
  let stock = null;
  try {
    stock = (await get(`${STOCK_URL}/stock/mug-01`)).count;
  } catch {
    // the page is useful without it
  }
  send(response, 200, { product: 'mug-01', cents: price.cents, stock });
}

async function login(request, response) {
  const form = new URLSearchParams((await read(request)).toString());
  if (form.get('user') !== USER || form.get('password') !== PASSWORD) {
    return send(response, 401, { error: 'wrong user or password' });
  }
  const session = crypto.randomBytes(16).toString('hex');
  sessions.set(session, USER);
  send(response, 303, {}, { location: '/account', 'set-cookie': `session=${session}; Path=/; Secure; HttpOnly` });
}

async function handle(request, response) {
  const { pathname } = new URL(request.url, 'https://localhost');
  switch (`${request.method} ${pathname}`) {
    case 'GET /':
      return home(response);
    case 'POST /login':
      return login(request, response);
    case 'GET /account': {
      const user = userOf(request);
      if (!user) return send(response, 401, { error: 'log in first' });
      const price = await get(`${PRICES_URL}/price/mug-01`);
      return send(response, 200, { user, cents: price.cents });
    }
    case 'GET /upload':
    case 'POST /upload': {
      const body = await read(request);
      const sha256 = crypto.createHash('sha256').update(body).digest('hex');
      const { method, headers, url } = request;
      return send(response, 200, { method, url, type: headers['content-type'] ?? null, sha256, text: body.toString('latin1') });
    }
    case 'GET /old':
      return send(response, 301, {}, { location: './' });
    case 'GET /loop':
      return send(response, 302, {}, { location: '/loop/again' });
    case 'GET /loop/again':
      return send(response, 302, {}, { location: '/loop' });
    case 'GET /away':
      return send(response, 302, {}, { location: `${STOCK_URL}/stock/mug-01` });
    case 'GET /healthz':
      return send(response, 200, {});
    default:
      return send(response, 404, { error: 'no such page' });
  }
}

const options = { cert: fs.readFileSync(TLS_CERT), key: fs.readFileSync(TLS_KEY) };
https
  .createServer(options, (request, response) => {
    handle(request, response).catch((error) => send(response, 500, { error: error.message }));
  })
  .listen(Number(PORT), '127.0.0.1');
