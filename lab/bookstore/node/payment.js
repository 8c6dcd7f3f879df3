// Charges customers over gRPC. See ../README.md.
'use strict';

const path = require('node:path');
const grpc = require('@grpc/grpc-js');
const loader = require('@grpc/proto-loader');

const proto = process.env.PROTO ?? path.join(__dirname, '../proto/bookstore.proto');
const definition = loader.loadSync(proto, { longs: Number, defaults: true });
const { Payment } = grpc.loadPackageDefinition(definition).bookstore;

/** Charges by customer. */
const charges = new Map();
let count = 0;

const server = new grpc.Server();
server.addService(Payment.service, {
  Charge: (call, reply) => {
    const { customer, cents } = call.request;
    count += 1;
    const charge = { id: `charge-${count}`, cents };
    charges.set(customer, [...(charges.get(customer) ?? []), charge]);
    reply(null, charge);
  },
  List: (call, reply) => reply(null, { charges: charges.get(call.request.customer) ?? [] }),
});
const address = `${process.env.BIND ?? '127.0.0.1'}:${process.env.PORT}`;
server.bindAsync(address, grpc.ServerCredentials.createInsecure(), (error) => {
  if (!error) return;
  console.error(`payment: ${error.message}`);
  process.exit(1);
});
