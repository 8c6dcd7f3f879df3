/** A server for the tests and its methods as promises. */

'use strict';

const grpc = require('@grpc/grpc-js');
const { serve } = require('../service');

/** Serves on a free port until the end of the test. Returns a function per method, which rejects with the error. */
async function startService(t, Service, methods) {
  const { server, port } = await serve('127.0.0.1:0', Service.service, methods);
  const client = new Service(`127.0.0.1:${port}`, grpc.credentials.createInsecure());
  t.after(() => {
    client.close();
    server.forceShutdown();
  });
  const call = (method) => (request) =>
    new Promise((resolve, reject) => {
      client[method](request, (error, reply) => (error === null ? resolve(reply) : reject(error)));
    });
  return Object.fromEntries(Object.keys(methods).map((method) => [method, call(method)]));
}

module.exports = { startService };
