// Installation: ways to load the SDK, and programs that must stay unchanged.
'use strict';

const assert = require('node:assert');
const { execFileSync, spawnSync } = require('node:child_process');
const fs = require('node:fs');
const os = require('node:os');
const path = require('node:path');
const { test } = require('node:test');
const esbuild = require('esbuild');
const { app, chain, descendants, events, REGISTER, sendRequest, tracedRequest, TRUST } = require('./support.js');
const { connect, unary } = require('./apps/grpc.js');

const PACKAGE = path.join(__dirname, '..');
const NODE = Number(process.versions.node.split('.')[0]);

function folder(t) {
  const made = fs.mkdtempSync(path.join(os.tmpdir(), 'faultloom-node-'));
  t.after(() => fs.rmSync(made, { recursive: true }));
  return made;
}

/** Runs a script with the SDK and returns its output. */
function run(code, env = {}, flags = ['--require', REGISTER]) {
  const { FAULTLOOM_TRUST, FAULTLOOM_SERVICE, ...rest } = process.env;
  const { stdout, stderr, status } = spawnSync(process.execPath, [...flags, '-e', code], {
    env: { ...rest, ...env },
    encoding: 'utf8',
  });
  return { stdout: stdout.trim(), stderr: stderr.trim(), status };
}

const HOOKED = `
  const http = require('http');
  const Module = require('module');
  console.log(Object.hasOwn(http.Server.prototype, 'emit'), String(Module.prototype.load).includes('checkModule('), String(fetch).includes('hookedDispatcher'));
`;

test('without trust settings nothing is hooked', () => {
  assert.deepStrictEqual(run(HOOKED), { stdout: 'false false false', stderr: '', status: 0 });
  assert.strictEqual(run(HOOKED, { FAULTLOOM_TRUST: TRUST }).stdout, 'true true true');
});

test('invalid settings result in one warning, and nothing is hooked', () => {
  const { stdout, stderr } = run(HOOKED, { FAULTLOOM_TRUST: 'environment test;key fault f1 abc' });
  assert.strictEqual(stdout, 'false false false');
  assert.match(stderr, /^faultloom: [^\n]*line 2[^\n]*$/);
});

test('a trust file that is created later is used', async (t) => {
  const file = path.join(folder(t), 'trust');
  const { port } = await app(t, 'http.js', { service: 'back', env: { FAULTLOOM_TRUST_FILE: file } });
  const inactive = await tracedRequest([], () => sendRequest(port, '/hello'));
  assert.strictEqual(events(inactive.segment)[1], 'RECV 200 gap');
  fs.writeFileSync(file, TRUST.replaceAll(';', '\n'));
  for (let tries = 0; ; tries++) {
    const { segment } = await tracedRequest([], () => sendRequest(port, '/hello'));
    if (events(segment)[1] === 'RECV 200 < back') {
      break;
    }
    assert.ok(tries < 50);
    await new Promise((resolve) => setTimeout(resolve, 100));
  }
});

/** Asserts that a service with the route /cart/:user is traced together with its callee. */
async function assertTraced(t, file, options = {}) {
  const back = await app(t, 'http.js', { service: 'back' });
  const front = await app(t, file, {
    service: 'front',
    ...options,
    env: { NEXT: `127.0.0.1:${back.port}`, ...options.env },
  });
  const { segment } = await tracedRequest([], () => sendRequest(front.port, '/cart/jo'));
  const [first] = descendants(segment);
  assert.strictEqual(first.name, 'GET /cart/{user}');
  assert.deepStrictEqual(events(first), ['SEND GET /hello', 'RECV 200 < back', 'REPLY 200']);
  return front;
}

test('ECMAScript modules, by --require', (t) => assertTraced(t, 'modules.mjs'));

test('ECMAScript modules, by NODE_OPTIONS', (t) =>
  assertTraced(t, 'modules.mjs', { flags: ['--no-register'], env: { NODE_OPTIONS: `--require ${REGISTER}` } }));

test("ECMAScript modules, by import 'faultloom/auto'", (t) =>
  assertTraced(t, 'imports.mjs', { flags: ['--no-register'] }));

test("CommonJS, by require('faultloom/auto'), also after the libraries", async (t) => {
  const file = path.join(folder(t), 'late.js');
  fs.writeFileSync(
    file,
    `require(${JSON.stringify(path.join(__dirname, 'apps/grpc.js'))});
     const { listen } = require(${JSON.stringify(path.join(__dirname, 'apps/grpc.js'))});
     require(${JSON.stringify(path.join(PACKAGE, 'dist/auto.js'))});
     listen(null).then(({ port }) => console.log(JSON.stringify({ port })));`,
  );
  const { port } = await app(t, file, { service: 'late', flags: ['--no-register'] });
  const client = connect(`127.0.0.1:${port}`);
  t.after(() => client.close());
  const { segment } = await tracedRequest([], () => unary(client, 'hello'));
  assert.strictEqual(events(segment)[1], 'RECV 0 < late');
});

test('TypeScript output', async (t) => {
  const file = path.join(PACKAGE, 'node_modules/.cache/typed.cjs');
  esbuild.buildSync({
    entryPoints: [path.join(__dirname, 'apps/typed.ts')],
    outfile: file,
    format: 'cjs',
    platform: 'node',
  });
  await assertTraced(t, file);
});

test('a second copy of the SDK installs nothing', async (t) => {
  const copy = folder(t);
  fs.cpSync(path.join(PACKAGE, 'dist'), path.join(copy, 'dist'), { recursive: true });
  fs.copyFileSync(path.join(PACKAGE, 'register.js'), path.join(copy, 'register.js'));
  await assertTraced(t, 'modules.mjs', { flags: ['--require', path.join(copy, 'register.js')] });
});

test('worker threads are traced', async (t) => {
  const { port } = await app(t, 'worker.js', { service: 'thread' });
  const { segment } = await tracedRequest([], () => sendRequest(port, '/hello'));
  assert.strictEqual(events(segment)[1], 'RECV 200 < thread');
});

test('child processes are traced by NODE_OPTIONS', async (t) => {
  const { port } = await app(t, 'child.js', {
    service: 'child',
    flags: ['--no-register'],
    env: { NODE_OPTIONS: `--require ${REGISTER}` },
  });
  const { segment } = await tracedRequest([], () => sendRequest(port, '/hello'));
  assert.strictEqual(events(segment)[1], 'RECV 200 < child');
});

test('an unsupported version is reported, and the library is left unchanged', async (t) => {
  const root = folder(t);
  const library = path.join(root, 'node_modules/@grpc/grpc-js');
  fs.mkdirSync(path.join(library, 'build/src'), { recursive: true });
  fs.writeFileSync(
    path.join(library, 'package.json'),
    '{"name":"@grpc/grpc-js","version":"1.7.3","main":"build/src/index.js"}',
  );
  fs.writeFileSync(
    path.join(library, 'build/src/index.js'),
    'exports.Client = class { makeUnaryRequest() { return 1; } };',
  );
  fs.writeFileSync(
    path.join(root, 'main.js'),
    "console.log(new (require('@grpc/grpc-js').Client)().makeUnaryRequest.toString());",
  );
  const status = path.join(root, 'status');
  const { stdout, stderr } = spawnSync(process.execPath, ['--require', REGISTER, path.join(root, 'main.js')], {
    env: { ...process.env, FAULTLOOM_SERVICE: 'old', FAULTLOOM_STATUS: status },
    encoding: 'utf8',
  });
  assert.strictEqual(stdout.trim(), 'makeUnaryRequest() { return 1; }');
  assert.match(stderr, /^faultloom: @grpc\/grpc-js 1\.7\.3 not supported[^\n]*\n$/);
  const [name] = fs.readdirSync(status);
  const written = JSON.parse(fs.readFileSync(path.join(status, name), 'utf8'));
  assert.match(name, /^old\.\d+\.json$/);
  assert.strictEqual(written.sdk, 'node');
  assert.strictEqual(written.trust, 'keys');
  assert.deepStrictEqual(
    written.libraries.map(({ name: library, state }) => [library, state]),
    [
      ['node:http', 'hooked'],
      ['@grpc/grpc-js', 'refused'],
    ],
  );
});

function bundle(t, first) {
  const file = path.join(folder(t), 'bundle.js');
  esbuild.buildSync({
    stdin: {
      contents: `${first}\nrequire('./grpc.js').listen(null).then(({ port }) => console.log(JSON.stringify({ port })));`,
      resolveDir: path.join(__dirname, 'apps'),
    },
    outfile: file,
    bundle: true,
    minify: true,
    platform: 'node',
    // the service reads its proto file from __dirname
    define: { __dirname: JSON.stringify(path.join(__dirname, 'apps')) },
    external: [],
  });
  return file;
}

test('a bundle with gRPC inlined is detected', async (t) => {
  const status = folder(t);
  const started = await app(t, bundle(t, ''), { service: 'bundle', env: { FAULTLOOM_STATUS: status } });
  for (let tries = 0; !/inlined/.test(started.stderr); tries++) {
    assert.ok(tries < 50);
    await new Promise((resolve) => setTimeout(resolve, 100));
  }
  const [name] = fs.readdirSync(status);
  const { libraries } = JSON.parse(fs.readFileSync(path.join(status, name), 'utf8'));
  assert.match(libraries.find((one) => one.name === '@grpc/grpc-js').reason, /^is inlined in the program's bundle/);
});

test("a bundle with import 'faultloom/auto-grpc' is hooked, with and without --require", async (t) => {
  const file = bundle(t, "require('faultloom/auto-grpc');");
  for (const flags of [['--no-register'], []]) {
    const started = await app(t, file, { service: 'bundle', flags });
    const client = connect(`127.0.0.1:${started.port}`);
    t.after(() => client.close());
    const { segment } = await tracedRequest([], () => unary(client, 'hello'));
    assert.strictEqual(events(segment)[1], 'RECV 0 < bundle');
    assert.strictEqual(started.stderr, '');
  }
});

test('an unwritable status folder and a missing home directory do not affect the program', async (t) => {
  const { HOME, ...env } = process.env;
  const out = execFileSync(process.execPath, ['--require', REGISTER, '-e', "require('http'); console.log('ran')"], {
    cwd: '/',
    env: { ...env, FAULTLOOM_STATUS: '/proc/none' },
    encoding: 'utf8',
  });
  assert.strictEqual(out.trim(), 'ran');
});

for (const version of ['grpc-js-1.8', 'grpc-js-1.10']) {
  test(`${version} as caller and callee`, async (t) => {
    const { first } = await chain(t, 'grpc.js', {
      front: { env: { GRPC: version } },
      back: { env: { GRPC: version } },
    });
    const client = connect(`127.0.0.1:${first.port}`);
    t.after(() => client.close());
    const { result, segment } = await tracedRequest(
      [{ ...require('../dist').fault('unavailable', { callee: 'back', nth: 2 }) }],
      () => unary(client, 'call 3'),
    );
    const [before, disturbed, after] = JSON.parse(result);
    assert.deepStrictEqual([before, disturbed[0], after], ['hello', 14, 'hello']);
    assert.deepStrictEqual(events(descendants(segment)[0]).slice(0, 5), [
      'SEND /test.Echo/Unary',
      'RECV 0 < back',
      'SEND /test.Echo/Unary fault 0',
      'FAILED 14',
      'SEND /test.Echo/Unary',
    ]);
    const stream = await tracedRequest(
      [],
      () =>
        new Promise((resolve) =>
          client
            .Download({ text: 'call 1', count: 3 })
            .on('data', () => 0)
            .on('end', resolve),
        ),
    );
    assert.strictEqual(descendants(stream.segment)[0].events.length, 7);
  });
}

for (const [what, env] of [
  ['Express 4', { FRAMEWORK: 'express', EXPRESS: 'express4' }],
  ['Fastify 4', { FRAMEWORK: 'fastify', FASTIFY: 'fastify4' }],
  ['undici 7', { FRAMEWORK: 'express', CLIENT: 'undici', UNDICI: 'undici7' }],
]) {
  test(what, { skip: what === 'undici 7' && NODE < 20 ? 'undici 7 needs Node.js 20' : false }, (t) =>
    assertTraced(t, 'http.js', { env }),
  );
}
