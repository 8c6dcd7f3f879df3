// Helpers for the tests: trust settings, applications in child processes, and a compact form of histories.
'use strict';

const { spawn, spawnSync } = require('node:child_process');
const { once } = require('node:events');
const fs = require('node:fs');
const http = require('node:http');
const os = require('node:os');
const path = require('node:path');
const readline = require('node:readline');

const KEY = 'ab'.repeat(32);
const TRUST = `environment test;key trace t1 ${'cd'.repeat(32)};key fault f1 ${KEY};faults on`;
const REGISTER = path.join(__dirname, '..', 'register.js');

process.env.FAULTLOOM_TRUST ??= TRUST;
process.env.FAULTLOOM_SERVICE ??= 'test';
require('../dist/auto.js');
const faultloom = require('../dist/index.js');

/**
 * Starts an application of test/apps with the SDK (`sdk: false`: without) and waits for the line with its port. The
 * application is killed at the end of the test.
 */
async function app(t, file, { service = 'app', sdk = true, env = {}, flags = [], args = [] } = {}) {
  const settings = sdk ? { FAULTLOOM_TRUST: TRUST, FAULTLOOM_SERVICE: service } : { FAULTLOOM_TRUST: '' };
  const all = [
    '--require',
    path.join(__dirname, 'apps/lifetime.js'),
    ...(sdk && !flags.includes('--no-register') ? ['--require', REGISTER] : []),
    ...flags.filter((f) => f !== '--no-register'),
  ];
  const child = spawn(process.execPath, [...all, path.resolve(__dirname, 'apps', file), ...args], {
    env: { ...process.env, ...settings, ...env },
    stdio: ['pipe', 'pipe', 'pipe'],
  });
  const started = { child, stderr: '', port: 0 };
  child.stderr.on('data', (text) => (started.stderr += text));
  t.after(async () => {
    if (child.exitCode === null && child.signalCode === null) {
      child.kill('SIGKILL');
      await once(child, 'exit');
    }
  });
  const lines = readline.createInterface({ input: child.stdout });
  const line = await Promise.race([
    once(lines, 'line').then(([text]) => text),
    once(child, 'exit').then(([code]) => {
      throw new Error(`${file} ended with ${code}: ${started.stderr}`);
    }),
  ]);
  Object.assign(started, JSON.parse(line));
  return started;
}

/** Starts two services: test → front → back. */
async function chain(t, file, { back = {}, front = {} } = {}) {
  const last = await app(t, file, { service: 'back', ...back });
  const first = await app(t, file, {
    service: 'front',
    ...front,
    env: { NEXT: `127.0.0.1:${last.port}`, FAULTLOOM_PEERS: `127.0.0.1:${last.port}=back`, ...front.env },
  });
  return { first, last };
}

/** Status, headers and body of one request; `options` as for http.request. */
function sendRequest(port, path, { body, ...options } = {}) {
  return new Promise((resolve, reject) => {
    const one = http.request({ host: '127.0.0.1', port, path, ...options }, (response) => {
      const chunks = [];
      response.on('data', (chunk) => chunks.push(chunk));
      response.on('end', () =>
        resolve({ status: response.statusCode, headers: response.headers, body: Buffer.concat(chunks) }),
      );
      response.on('error', reject);
    });
    one.on('error', reject);
    one.end(body);
  });
}

/**
 * Runs `work` as a traced request with these faults. Returns its result (or the error it threw) and the root segment.
 */
async function tracedRequest(plan, work, options = {}) {
  const started = faultloom.start({ plan, ...options });
  let result;
  try {
    result = await started.run(work);
  } catch (error) {
    result = error;
  }
  return { result, segment: started.finish().segment };
}

/**
 * The events of a segment in compact form: `SEND /a.B/C`, `RECV 0 < back`, `FAILED 14`, `RECV 0 gap`, `REPLY 0`, and
 * `UNSCOPED 2 GET /x > back at file.js`.
 */
function events(segment) {
  return segment.events.map((e) => {
    switch (e.kind) {
      case 'SEND_REQUEST':
        return `SEND ${e.name}${e.fault === null ? '' : ` fault ${e.fault}`}`;
      case 'SEND_RESPONSE':
        return `REPLY ${e.status}`;
      case 'UNSCOPED_CALLS':
        return `UNSCOPED ${e.count} ${e.name} > ${e.peer} at ${e.site.replace(/:\d+$/, '')}`;
      default:
        return `${e.kind === 'RECV_RESPONSE' ? 'RECV' : 'FAILED'} ${e.status}${e.gap ? ' gap' : ''}${e.child === null ? '' : ` < ${e.child.service}`}`;
    }
  });
}

/** All segments below a segment, in order. */
function descendants(segment) {
  return segment.events.flatMap((e) => (e.child ? [e.child, ...descendants(e.child)] : []));
}

/** A new key and a certificate of `localhost`. Null: there is no openssl, and the test is skipped. */
function certificate(t) {
  const folder = fs.mkdtempSync(path.join(os.tmpdir(), 'faultloom-tls-'));
  t.after(() => fs.rmSync(folder, { recursive: true }));
  const args = [
    'req',
    '-x509',
    '-newkey',
    'rsa:2048',
    '-nodes',
    '-keyout',
    `${folder}/key`,
    '-out',
    `${folder}/cert`,
    '-days',
    '2',
    '-subj',
    '/CN=localhost',
  ];
  if (spawnSync('openssl', args).status !== 0) {
    t.skip('openssl is not installed: https is not tested');
    return null;
  }
  return { key: fs.readFileSync(`${folder}/key`), cert: fs.readFileSync(`${folder}/cert`) };
}

module.exports = { app, certificate, sendRequest, descendants, chain, events, faultloom, tracedRequest, TRUST, KEY, REGISTER };
