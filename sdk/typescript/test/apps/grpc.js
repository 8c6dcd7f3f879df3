// An echo service over gRPC. NEXT=host:port is the service that "call …" calls.
'use strict';

const path = require('node:path');
const grpc = process.env.GRPC ? require(process.env.GRPC) : require('@grpc/grpc-js');
const loader = require('@grpc/proto-loader');

const { Echo } = grpc.loadPackageDefinition(
  loader.loadSync(path.join(__dirname, 'echo.proto'), { defaults: true }),
).test;

function connect(address, options = {}) {
  return new Echo(address, grpc.credentials.createInsecure(), options);
}

/** Calls a unary method. Returns the text, or [code, details, message] of an error. */
function unary(client, text, options = {}, count = 0) {
  return new Promise((resolve) => {
    client.Unary({ text, count }, options, (error, reply) =>
      resolve(error ? [error.code, error.details, error.message] : reply.text),
    );
  });
}

function fail(text) {
  const [, code] = text.split(' ');
  return Object.assign(new Error('as requested'), { code: Number(code), details: 'as requested' });
}

/** The reply of the four methods to a text. */
async function serve(next, text) {
  const [verb, ...rest] = text.split(' ');
  if (verb === 'call') {
    const replies = [];
    for (let n = Number(rest[0]); n > 0; n--) {
      replies.push(await unary(next, rest.slice(1).join(' ') || 'hello'));
    }
    return JSON.stringify(replies);
  }
  if (verb === 'big') {
    return 'x'.repeat(Number(rest[0]));
  }
  return text;
}

const SERVICE = (next) => ({
  Unary(call, callback) {
    if (call.request.text.startsWith('fail')) {
      callback(fail(call.request.text));
    } else {
      serve(next, call.request.text).then((text) => callback(null, { text }), callback);
    }
  },
  Upload(call, callback) {
    const texts = [];
    call.on('data', (message) => texts.push(message.text));
    // an event of the connection, which must run in the scope of the call
    call.on('end', () => serve(next, texts.join(' ')).then((text) => callback(null, { text }), callback));
  },
  async Download(call) {
    for (let n = call.request.count; n > 0; n--) {
      call.write({ text: await serve(next, call.request.text), count: n });
    }
    if (call.request.text.startsWith('fail')) {
      call.emit('error', fail(call.request.text));
    } else {
      call.end();
    }
  },
  Chat(call) {
    let last = Promise.resolve();
    call.on('data', (message) => {
      last = last.then(() => serve(next, message.text)).then((text) => call.write({ text }));
    });
    call.on('end', () => last.then(() => call.end()));
  },
});

function listen(next, options = {}) {
  const server = new grpc.Server(options);
  server.addService(Echo.service, SERVICE(next));
  return new Promise((resolve, reject) => {
    server.bindAsync('127.0.0.1:0', grpc.ServerCredentials.createInsecure(), (error, port) => {
      if (error) {
        reject(error);
        return;
      }
      if (grpc.ServerInterceptingCall === undefined) {
        server.start(); // needed until 1.10
      }
      resolve({ server, port });
    });
  });
}

module.exports = { connect, Echo, grpc, listen, unary };

if (require.main === module) {
  const next = process.env.NEXT ? connect(process.env.NEXT) : null;
  listen(next).then(({ port }) => console.log(JSON.stringify({ port })));
}
