import { createServer } from 'node:http';
import { readFile } from 'node:fs/promises';
import { extname, join, normalize } from 'node:path';
import { fileURLToPath } from 'node:url';

/**
 * Serves the built page, and files as replies of the API: `/api/v1/PATH` is `FOLDER/api/v1/PATH.json`. It uses the
 * content-security policy of `faultloom ui`, so that a page that violates it fails here.
 */

const DIST = fileURLToPath(new URL('../dist', import.meta.url));
export const TOKEN = 'test-token';
const SESSION = 'test-session';
const POLICY =
  "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self' data:; base-uri 'none'; form-action 'none'";
/** @type {Record<string, string>} */
const TYPES = { '.js': 'text/javascript', '.css': 'text/css', '.html': 'text/html' };

/**
 * @typedef {object} Options
 * @property {string} folder
 * @property {number} [port]
 * @property {Map<string, { status: number; body: unknown }>} [replies] Replies that stand in for files, by path below
 *   `/api/v1/`; another method than GET stands before the path.
 * @property {string} [events] Text that the event stream sends.
 */

/**
 * @param {Options} options
 * @returns {Promise<{ server: import('node:http').Server; url: string }>}
 */
export function serve(options) {
  const server = createServer((request, response) => {
    const path = decodeURIComponent(new URL(request.url ?? '/', 'http://localhost').pathname);
    /** @type {(status: number, type: string, body: string | Buffer) => void} */
    const send = (status, type, body) => {
      response.writeHead(status, {
        'Content-Type': type,
        'Content-Security-Policy': POLICY,
        'X-Content-Type-Options': 'nosniff',
        'Referrer-Policy': 'no-referrer',
      });
      response.end(body);
    };
    /** @type {(status: number, body: unknown) => void} */
    const json = (status, body) => send(status, 'application/json', JSON.stringify(body));
    /** @type {(status: number, what: string) => void} */
    const refuse = (status, what) => json(status, { error: { what, why: null, next: null } });
    if (path === '/api/v1/session') {
      let text = '';
      request.on('data', (chunk) => (text += String(chunk)));
      request.on('end', () => (text.includes(TOKEN) ? json(200, { session: SESSION }) : refuse(401, 'wrong token')));
    } else if (path.startsWith('/api/v1/')) {
      if (request.headers.authorization !== `Bearer ${SESSION}`) return refuse(401, 'no session');
      const name = path.slice('/api/v1/'.length);
      const reply = options.replies?.get(`${request.method === 'GET' ? '' : `${request.method} `}${name}`);
      if (reply !== undefined) return json(reply.status, reply.body);
      if (name === 'events') {
        response.writeHead(200, { 'Content-Type': 'text/event-stream' });
        response.write(options.events ?? ': open\n\n');
        return;
      }
      const file = join(options.folder, 'api/v1', `${normalize(name)}.json`);
      readFile(file).then(
        (body) => send(200, 'application/json', body),
        () => refuse(404, 'there is no such run'),
      );
    } else {
      const name = path.startsWith('/assets/') ? normalize(path) : '/index.html';
      readFile(join(DIST, name)).then(
        (body) => send(200, TYPES[extname(name)] ?? 'application/octet-stream', body),
        () => send(404, 'text/plain', 'not found'),
      );
    }
  });
  return new Promise((resolve) => {
    server.listen(options.port ?? 0, '127.0.0.1', () => {
      const address = server.address();
      const port = typeof address === 'object' && address !== null ? address.port : 0;
      resolve({ server, url: `http://127.0.0.1:${port}` });
    });
  });
}
