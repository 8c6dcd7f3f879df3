/** The exporter, its flush at exit, the status file, sampling, and the settings of a process. */

import * as assert from 'node:assert/strict';
import { fork } from 'node:child_process';
import { mkdtempSync, readdirSync, readFileSync, rmSync } from 'node:fs';
import * as http from 'node:http';
import { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, test } from 'node:test';
import { TestScope, until } from '../testing';
import { VERSION } from '../version';
import { Span } from '../wire/otlp';
import { Exporter } from './exporter';
import { Sampler } from './sampler';
import { StatusFile } from './status';
import { parsePeers, processFromEnvironment } from './this-process';

interface Document {
  resourceSpans: { scopeSpans: { spans: Span[] }[] }[];
}

/** A collector that replies with `status`. */
class Collector {
  readonly bodies: Document[] = [];
  status = 200;
  private readonly server = http.createServer((request, response) => {
    const parts: Buffer[] = [];
    request.on('data', (part: Buffer) => parts.push(part));
    request.on('end', () => {
      assert.equal(request.headers['content-type'], 'application/json');
      this.bodies.push(JSON.parse(Buffer.concat(parts).toString()) as Document);
      response.writeHead(this.status).end();
    });
  });

  static async start(): Promise<Collector> {
    const collector = new Collector();
    await new Promise<void>((listening) => collector.server.listen(0, '127.0.0.1', listening));
    after(() => collector.server.close());
    return collector;
  }

  get url(): string {
    return `http://127.0.0.1:${(this.server.address() as AddressInfo).port}/v1/traces`;
  }

  get histories(): number {
    return this.bodies.reduce((sum, body) => sum + body.resourceSpans.length, 0);
  }
}

function exporter(url: string): Exporter {
  return Exporter.fromEnvironment({ FAULTLOOM_EXPORT: url })!;
}

function finished(name = '') {
  return { trace: Buffer.alloc(16, 3), hasParent: false, history: new TestScope().finish(0, name)! };
}

test('histories of one second are sent in one batch', async () => {
  const collector = await Collector.start();
  const out = exporter(collector.url);
  const began = Date.now();
  out.add(finished());
  out.add(finished());
  assert.equal(collector.bodies.length, 0);
  await until(() => collector.bodies.length > 0);
  assert.equal(collector.bodies[0]!.resourceSpans.length, 2);
  const waitedMs = Date.now() - began;
  assert.ok(waitedMs >= 900 && waitedMs < 5000, `${waitedMs}`);
});

test('a full batch is sent at once, and batches have a maximum size', async () => {
  const collector = await Collector.start();
  const out = exporter(collector.url);
  for (let i = 0; i < 150; i++) {
    out.add(finished());
  }
  await out.flush(5000);
  assert.deepEqual(
    collector.bodies.map((body) => body.resourceSpans.length),
    [64, 64, 22],
  );
});

test('a full queue drops new histories, a refused batch is dropped, and the next one is delivered', async () => {
  const collector = await Collector.start();
  const out = exporter(collector.url);
  for (let i = 0; i < 300; i++) {
    out.add(finished());
  }
  await out.flush(5000);
  assert.equal(collector.histories, 256);
  collector.status = 503;
  out.add(finished());
  await out.flush(5000);
  collector.status = 204;
  out.add(finished('again'));
  await out.flush(5000);
  assert.equal(collector.bodies.at(-1)!.resourceSpans[0]!.scopeSpans[0]!.spans[0]!.name, 'again');
});

test('an unreachable collector does not affect the application', async () => {
  const out = exporter('http://127.0.0.1:1/v1/traces');
  out.add(finished());
  await out.flush(5000);
  assert.equal(out.hasPending(), false);
});

test('an invalid address disables the export', () => {
  for (const FAULTLOOM_EXPORT of ['', 'collector:4318', 'file:///tmp/x', 'http://']) {
    assert.equal(Exporter.fromEnvironment({ FAULTLOOM_EXPORT }), null);
  }
});

/** Runs the fixture. Returns how it ended and the number of histories that it exported. */
async function runFixture(way: string): Promise<[code: number | null, signal: string | null, histories: number]> {
  const collector = await Collector.start();
  const child = fork(join(__dirname, 'exit.fixture.js'), [collector.url, way], { execArgv: [] });
  const ended = new Promise<[number | null, string | null]>((end) =>
    child.on('exit', (code, signal) => end([code, signal])),
  );
  if (way === 'SIGTERM') {
    await new Promise((ready) => child.once('message', ready));
    child.kill('SIGTERM');
  }
  return [...(await ended), collector.histories];
}

const ENDS: Record<string, [code: number | null, signal: string | null]> = {
  'empty event loop': [0, null],
  'process.exit': [3, null],
  SIGTERM: [null, 'SIGTERM'],
};

for (const [way, end] of Object.entries(ENDS)) {
  test(`queued histories are sent when the process ends: ${way}`, async () => {
    const [code, signal, histories] = await runFixture(way);
    assert.deepEqual([code, signal, histories], [...end, 70]);
  });
}

test('the status file lists the state of each library', () => {
  const folder = mkdtempSync(join(tmpdir(), 'faultloom-status-'));
  try {
    let trust = 'no trust settings';
    const status = StatusFile.fromEnvironment({ FAULTLOOM_STATUS: join(folder, 'new') }, 'a/b c', () => trust)!;
    status.write();
    const path = join(folder, 'new', `a_b_c.${process.pid}.json`);
    const read = () => JSON.parse(readFileSync(path, 'utf8')) as object;
    const head = { service: 'a/b c', pid: process.pid, sdk: 'node', version: VERSION, runtime: process.version };
    assert.deepEqual(read(), { ...head, trust, libraries: [] });
    trust = 'keys';
    status.hooked('express', '5.1.0');
    status.refused('fastify', '9.0.0', 'newer than 5');
    status.hooked('express', '5.1.0');
    assert.deepEqual(read(), {
      ...head,
      trust,
      libraries: [
        { name: 'express', version: '5.1.0', state: 'hooked', reason: '' },
        { name: 'fastify', version: '9.0.0', state: 'refused', reason: 'newer than 5' },
      ],
    });
    assert.deepEqual(readdirSync(join(folder, 'new')), [`a_b_c.${process.pid}.json`]);
    new StatusFile('/proc/nowhere/at/all', 'x', () => '').hooked('a', '1');
  } finally {
    rmSync(folder, { recursive: true });
  }
});

test('VERSION equals the version of the package', () => {
  const { version } = JSON.parse(readFileSync(join(__dirname, '../../package.json'), 'utf8')) as { version: string };
  assert.equal(version, VERSION);
});

test('a sampler accepts 1/N and requires an exporter', () => {
  const sampler = (FAULTLOOM_SAMPLE: string, exports = true) =>
    Sampler.fromEnvironment({ FAULTLOOM_SAMPLE }, exports)?.n;
  assert.equal(sampler('1/1'), 1);
  assert.equal(sampler('1/1000000'), 1_000_000);
  for (const bad of ['1/0', '1/1000001', '2/4', '0.5', '1/4x', '1/04']) {
    assert.equal(sampler(bad), undefined, bad);
  }
  assert.equal(sampler('1/4', false), undefined);
  const draws = [0.25, 0.24, 0.9];
  const drawn = new Sampler(4, () => draws.shift()!);
  assert.deepEqual([drawn.sample(), drawn.sample(), drawn.sample()], [false, true, false]);
  const sampled = new Sampler(4);
  let count = 0;
  for (let i = 0; i < 4000; i++) {
    count += sampled.sample() ? 1 : 0;
  }
  assert.ok(count > 800 && count < 1200, `${count}`);
});

test('control characters in the name of the service are replaced', () => {
  const script = process.argv[1]!;
  for (const [name, expected] of [
    ['front', 'front'],
    ['a\0b\x1f c\x7f\n', 'a?b? c??'],
    ['é\x80', 'é\x80'],
    ['\n'.repeat(63) + 'é', '?'.repeat(63)],
    ['\x7f'.repeat(65), '?'.repeat(64)],
  ] as const) {
    assert.equal(processFromEnvironment({ FAULTLOOM_SERVICE: name }).name, expected);
    try {
      process.argv[1] = `/bin/${name}.js`;
      assert.equal(processFromEnvironment({}).name, expected);
    } finally {
      process.argv[1] = script;
    }
  }
});

test('FAULTLOOM_PEERS is parsed', () => {
  const peers = parsePeers('127.0.0.1:1=a, [::1]:2=b,,=c,d=,e');
  assert.deepEqual(
    [...peers],
    [
      ['127.0.0.1:1', 'a'],
      ['[::1]:2', 'b'],
    ],
  );
});
