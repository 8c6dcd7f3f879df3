/**
 * The server that all Node.js services of the shop share.
 *
 * Settings are environment variables: PORT (required) and BIND (default: 127.0.0.1). A service runs until SIGTERM or
 * SIGINT; calls in progress then have 1.5 seconds to finish.
 */

'use strict';

const path = require('node:path');
const grpc = require('@grpc/grpc-js');
const { HealthImplementation } = require('grpc-health-check');
const loader = require('@grpc/proto-loader');

const STOP_TIMEOUT_MS = 1500;

/**
 * The services of shop.proto. 64-bit amounts are decimal strings, which are exact; missing values are the zero of the
 * type.
 */
const shop = grpc.loadPackageDefinition(
  loader.loadSync(path.join(__dirname, '../proto/shop.proto'), { defaults: true, keepCase: true, longs: String }),
).shop;

/** The host:port to listen on. Throws Error for an invalid setting. */
function listenAddress(environment) {
  const port = environment.PORT ?? '';
  if (!/^[0-9]+$/.test(port) || Number(port) > 65535) {
    throw new Error(`PORT must be a port number, not ${JSON.stringify(port)}`);
  }
  const host = environment.BIND || '127.0.0.1';
  return `${host.includes(':') ? `[${host}]` : host}:${port}`;
}

/** An error reply. */
function errorReply(code, details) {
  return { code, details };
}

/** Starts a server with the service's methods and the standard health service. Resolves to the server and its port. */
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

/** Serves until SIGTERM or SIGINT. If the server cannot start, prints one line on stderr and exits with status 1. */
async function main(name, service, methods) {
  grpc.setLogVerbosity(grpc.logVerbosity.NONE); // the errors contain the same information
  try {
    const { server, health } = await serve(listenAddress(process.env), service, methods);
    const stop = () => {
      health.setStatus('', 'NOT_SERVING');
      const timer = setTimeout(() => server.forceShutdown(), STOP_TIMEOUT_MS);
      server.tryShutdown(() => clearTimeout(timer));
    };
    process.once('SIGTERM', stop);
    process.once('SIGINT', stop);
  } catch (error) {
    console.error(`${name}: ${error.message}`);
    process.exitCode = 1;
  }
}

module.exports = { errorReply, listenAddress, main, serve, shop };
