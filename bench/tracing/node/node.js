/**
 * A service of the chain that the tracing bench measures. The counterpart of ../chain/node.go.
 *
 *     node node.js node [NEXT [CALLS]]     NEXT: address of the next service; CALLS: calls per request (default 1)
 *
 * The same file runs untraced, with Faultloom's SDK (--require …/sdk/typescript/register.js), and with OpenTelemetry's
 * (--require ./otel.js). It prints a JSON line when it is ready, then executes commands from its input:
 *
 *     cpu              {"cpu_us": user and system time of this process so far}
 *     profile FILE     starts a CPU profile, which the next `profile` writes to FILE
 *     flush            exports OpenTelemetry's batches, so that their cost is not measured in the next window
 */

'use strict';

const fs = require('node:fs');
const inspector = require('node:inspector');
const path = require('node:path');
const readline = require('node:readline');
const grpc = require('@grpc/grpc-js');
const loader = require('@grpc/proto-loader');

const definition = loader.loadSync(path.join(__dirname, '../proto/chain.proto'), { defaults: true, keepCase: true });
const { Chain } = grpc.loadPackageDefinition(definition).bench.chain.v1;

/** The method Forward: calls the next service, if any, and returns the receipt with one more hop. */
function forward(next, calls) {
  if (next === null) {
    return ({ request }, reply) => reply(null, { id: request.id, hops: request.hops + 1, items: request.items });
  }
  return ({ request }, reply) => {
    const parcel = { id: request.id, hops: request.hops + 1, items: request.items };
    let left = calls;
    const call = () => {
      next.Forward(parcel, (error, receipt) => {
        left -= 1;
        if (error !== null || left === 0) {
          reply(error, receipt);
        } else {
          call();
        }
      });
    };
    call();
  };
}

let session = null;

function profile([file]) {
  if (session !== null) {
    session.running.post('Profiler.stop', (_error, { profile: data }) =>
      fs.writeFileSync(session.file, JSON.stringify(data)),
    );
    session.running.disconnect();
    session = null;
  }
  if (file !== undefined) {
    session = { file, running: new inspector.Session() };
    session.running.connect();
    session.running.post('Profiler.enable');
    session.running.post('Profiler.start');
  }
  return {};
}

const commands = {
  cpu: () => {
    const { user, system } = process.cpuUsage();
    return { cpu_us: user + system };
  },
  profile,
  flush: async () => {
    await globalThis.flushSpans?.();
    return {};
  },
};

async function control(ready) {
  const print = (value) => process.stdout.write(`${JSON.stringify(value)}\n`);
  print(ready);
  for await (const line of readline.createInterface({ input: process.stdin })) {
    const [name, ...rest] = line.split(' ');
    if (commands[name] === undefined) {
      throw new Error(`unknown command ${name}`);
    }
    print(await commands[name](rest));
  }
  process.exit(0); // without exporting the rest, which is not measured
}

function main([role, address, calls = '1', ...more]) {
  if (role !== 'node' || more.length > 0 || !(Number(calls) >= 1)) {
    console.error('usage: node node.js node [NEXT [CALLS]]');
    process.exit(2);
  }
  const next = address === undefined ? null : new Chain(address, grpc.credentials.createInsecure());
  const server = new grpc.Server();
  server.addService(Chain.service, { Forward: forward(next, Number(calls)) });
  server.bindAsync('127.0.0.1:0', grpc.ServerCredentials.createInsecure(), (error, port) => {
    if (error !== null) {
      throw error;
    }
    control({ address: `127.0.0.1:${port}` });
  });
}

main(process.argv.slice(2));
