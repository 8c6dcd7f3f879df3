// The published package: packed, installed into a project, and used by an application there.
'use strict';

const assert = require('node:assert');
const { execFileSync } = require('node:child_process');
const fs = require('node:fs');
const os = require('node:os');
const path = require('node:path');
const { test } = require('node:test');
const { app, descendants, events, sendRequest, tracedRequest } = require('./support.js');

const PACKAGE = path.join(__dirname, '..');

test('the packed and installed package instruments an application', async (t) => {
  const project = fs.mkdtempSync(path.join(os.tmpdir(), 'faultloom-project-'));
  t.after(() => fs.rmSync(project, { recursive: true }));
  const npm = (args, cwd) =>
    execFileSync('npm', ['--loglevel=error', ...args], {
      cwd,
      encoding: 'utf8',
      env: { ...process.env, FAULTLOOM_TRUST: '' },
    });
  const [{ filename, files }] = JSON.parse(
    npm(['pack', '--json', '--ignore-scripts', '--pack-destination', project], PACKAGE),
  );
  const names = files.map((file) => file.path);
  for (const name of [
    'dist/index.js',
    'dist/index.d.ts',
    'dist/auto.js',
    'dist/auto-grpc.js',
    'register.js',
    'package.json',
    'README.md',
  ]) {
    assert.ok(names.includes(name), name);
  }
  assert.deepStrictEqual(
    names.filter((name) => /test|fixture|\.ts$/.test(name) && !name.endsWith('.d.ts')),
    [],
  );
  fs.writeFileSync(path.join(project, 'package.json'), '{"name":"project","private":true}');
  npm(['install', '--offline', '--no-audit', '--no-fund', `./${filename}`], project);
  fs.copyFileSync(path.join(__dirname, 'apps/http.js'), path.join(project, 'app.js'));

  const back = await app(t, path.join(project, 'app.js'), {
    service: 'back',
    flags: ['--no-register'],
    env: { NODE_OPTIONS: `--require ${project}/node_modules/faultloom/register.js` },
  });
  const front = await app(t, path.join(project, 'app.js'), {
    service: 'front',
    flags: ['--no-register', '--require', path.join(project, 'node_modules/faultloom/register')],
    env: { NEXT: `127.0.0.1:${back.port}` },
  });
  const { segment } = await tracedRequest([], () => sendRequest(front.port, '/call/1/hello'));
  assert.deepStrictEqual(descendants(segment).map(events), [
    ['SEND GET /hello', 'RECV 200 < back', 'REPLY 200'],
    ['REPLY 200'],
  ]);
});
