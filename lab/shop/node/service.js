/**
 * What every Node.js service of the shop does in the same way.
 *
 * Settings come from the environment: PORT (required) and BIND (127.0.0.1). A service runs until SIGTERM or SIGINT; calls in
 * progress then get one and a half seconds.
 */

'use strict';

const path = require('node:path');
const grpc = require('@grpc/grpc-js');
const { HealthImplementation } = require('grpc-health-check');
const loader = require('@grpc/proto-loader');

const STOP_TIMEOUT_MS = 1500;

/** The services of shop.proto. 64-bit amounts come as decimal text, which loses no digit; missing values as the type's zero. */
const shop = grpc.loadPackageDefinition(
  loader.loadSync(path.join(__dirname, '../proto/shop.proto'), { defaults: true, keepCase: true, longs: String }),
).shop;

/** The host:port to serve on. Throws Error for a setting that makes no sense. */
function ownAddress(environment) {
  const port = environment.PORT ?? '';
  if (!/^[0-9]+$/.test(port) || Number(port) > 65535) {
    throw new Error(`PORT must be a port number, not ${JSON.stringify(port)}`);
  }
  const host = environment.BIND || '127.0.0.1';
  return `${host.includes(':') ? `[${host}]` : host}:${port}`;
}

/** An error reply. */
function refusal(code, details) {
  return { code, details };
}

/** Starts a server with the service's methods and the standard health service; resolves to it and its port. */
async function serve(address, service, methods) {
  const server = new grpc.Server();
  server.addService(service, methods);
  const health = new HealthImplementation({ '': 'SERVING' });
  health.addToServer(server);
  const port = await new Promise((resolve, reject) => {
    server.bindAsync(address, grpc.ServerCredentials.createInsecure(), (error, bound) => {
      error === null ? resolve(bound) : reject(error);
    });
  });
  return { server, health, port };
}

/** Serves until the process is told to stop; what prevents it is one line on stderr and status 1. */
async function main(name, service, methods) {
  grpc.setLogVerbosity(grpc.logVerbosity.NONE); // what it would say stands in the errors
  try {
    const { server, health } = await serve(ownAddress(process.env), service, methods);
    const stop = () => {
      health.setStatus('', 'NOT_SERVING');
      const late = setTimeout(() => server.forceShutdown(), STOP_TIMEOUT_MS);
      server.tryShutdown(() => clearTimeout(late));
    };
    process.once('SIGTERM', stop);
    process.once('SIGINT', stop);
  } catch (error) {
    console.error(`${name}: ${error.message}`);
    process.exitCode = 1;
  }
}

module.exports = { main, ownAddress, refusal, serve, shop };
