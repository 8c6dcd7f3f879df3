/** The exporter, its flush at exit, and the status file. */

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
import { StatusFile } from './status';

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

test('histories are sent in one batch within a second', async () => {
  const collector = await Collector.start();
  const out = exporter(collector.url);
  const began = Date.now();
  out.add(finished());
  out.add(finished());
  assert.equal(collector.bodies.length, 0);
  await until(() => collector.bodies.length > 0);
  assert.equal(collector.bodies[0]!.resourceSpans.length, 2);
  assert.ok(Date.now() - began < 5000);
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

// each way in which a process ends
for (const way of ['nothing left', 'process.exit', 'SIGTERM']) {
  test(`queued histories are sent when the process ends: ${way}`, async () => {
    const collector = await Collector.start();
    const child = fork(join(__dirname, 'exit.fixture.js'), [collector.url, way], { execArgv: [] });
    const ended = new Promise<[number | null, string | null]>((end) =>
      child.on('exit', (code, signal) => end([code, signal])),
    );
    if (way === 'SIGTERM') {
      await new Promise((ready) => child.once('message', ready));
      child.kill('SIGTERM');
    }
    const [code, signal] = await ended;
    assert.deepEqual(
      [code, signal],
      way === 'SIGTERM' ? [null, 'SIGTERM'] : way === 'process.exit' ? [3, null] : [0, null],
    );
    assert.equal(collector.histories, 70);
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
