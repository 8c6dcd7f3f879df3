// Forwards a journey over HTTP and gRPC. See ../README.md.
'use strict';

const path = require('node:path');
const grpc = require('@grpc/grpc-js');
const loader = require('@grpc/proto-loader');
const express = require('express');

/** The timeout for a call to the next stop. */
const CALL_TIMEOUT_MS = 5000;

const name = process.env.NAME;
const definition = loader.loadSync(path.join(__dirname, '../proto/relay.proto'), { defaults: true });
const { Relay } = grpc.loadPackageDefinition(definition).relay;
const clients = new Map();

/** Visits this relay, then the remaining stops. */
async function visit(stops) {
  const visits = { names: [name], failure: '' };
  if (stops.length === 0) return visits;
  const [kind, address] = stops[0].split(' ');
  const next = { names: [], failure: '' };
  let failure = '';
  if (kind === 'http') {
    failure = await callHttp(address, stops.slice(1), next);
  } else {
    try {
      await callGrpc(kind, address, { stops: stops.slice(1) }, next);
    } catch (error) {
      failure = `grpc ${error.code}`;
    }
  }
  visits.names.push(...next.names);
  visits.failure = failure || next.failure;
  return visits;
}

async function callHttp(address, stops, next) {
  const query = new URLSearchParams(stops.map((stop) => ['stop', stop]));
  let reply, body;
  try {
    reply = await fetch(`http://${address}/relay?${query}`, { signal: AbortSignal.timeout(CALL_TIMEOUT_MS) });
    body = await reply.text();
  } catch (error) {
    return describeFailure(error);
  }
  if (reply.status !== 200) return `status ${reply.status}`;
  try {
    addVisits(next, JSON.parse(body));
  } catch {
    return 'garbled';
  }
  return '';
}

function describeFailure(error) {
  if (error.name === 'TimeoutError') return 'timeout';
  const code = error.cause?.code ?? error.cause?.errors?.[0]?.code;
  switch (code) {
    case 'ECONNREFUSED':
      return 'refused';
    case 'ECONNRESET':
    case 'UND_ERR_SOCKET':
      return 'reset';
    case 'ETIMEDOUT':
    case 'UND_ERR_HEADERS_TIMEOUT':
      return 'timeout';
  }
  return `${error} ${code}`;
}

function callGrpc(kind, address, journey, next) {
  let client = clients.get(address);
  if (!client) {
    client = new Relay(address, grpc.credentials.createInsecure());
    clients.set(address, client);
  }
  const deadline = { deadline: Date.now() + CALL_TIMEOUT_MS };
  return new Promise((resolve, reject) => {
    const unary = (error, reply) => {
      if (error) return reject(error);
      addVisits(next, reply);
      resolve();
    };
    if (kind === 'call') return client.Call(journey, deadline, unary);
    if (kind === 'collect') {
      const call = client.Collect(deadline, unary);
      call.write(journey);
      call.write(journey);
      return call.end();
    }
    const call = kind === 'watch' ? client.Watch(journey, deadline) : client.Talk(deadline);
    let received = 0;
    call.on('data', (visits) => {
      addVisits(next, visits);
      received += 1;
      if (kind === 'talk') received < 2 ? call.write(journey) : call.end();
    });
    call.on('error', reject);
    call.on('end', resolve);
    if (kind === 'talk') call.write(journey);
  });
}

function addVisits(all, visits) {
  all.names.push(...visits.names);
  all.failure ||= visits.failure;
}

const app = express();
app.get('/relay', async (request, response) => {
  response.json(await visit([request.query.stop ?? []].flat()));
});
app.get('/healthz', (_, response) => response.end());
const web = app.listen(Number(process.env.PORT), '127.0.0.1');

const server = new grpc.Server();
server.addService(Relay.service, {
  Call: (call, reply) => visit(call.request.stops).then((visits) => reply(null, visits)),
  Watch: async (call) => {
    for (let i = 0; i < 2; i++) call.write(await visit(call.request.stops));
    call.end();
  },
  Collect: (call, reply) => {
    const all = { names: [], failure: '' };
    let journeys = Promise.resolve();
    call.on('data', (journey) => {
      journeys = journeys.then(async () => addVisits(all, await visit(journey.stops)));
    });
    call.on('end', () => journeys.then(() => reply(null, all)));
  },
  Talk: (call) => {
    let journeys = Promise.resolve();
    call.on('data', (journey) => {
      journeys = journeys.then(async () => call.write(await visit(journey.stops)));
    });
    call.on('end', () => journeys.then(() => call.end()));
  },
});
server.bindAsync(`127.0.0.1:${process.env.GRPC_PORT}`, grpc.ServerCredentials.createInsecure(), (error) => {
  if (!error) return;
  console.error(`${name}: ${error.message}`);
  process.exit(1);
});

for (const signal of ['SIGTERM', 'SIGINT']) {
  process.on(signal, () => {
    web.close();
    server.forceShutdown();
    process.exit(0);
  });
}
