// A service in ECMAScript modules, with named imports from Node's modules.
import { createServer, get } from 'node:http';
import { Server } from '@grpc/grpc-js';
import express from 'express';

const NEXT = process.env.NEXT;

function getStatus(path) {
  return new Promise((resolve) => {
    get(`http://${NEXT}${path}`, (response) => {
      response.resume();
      response.on('end', () => resolve(response.statusCode));
    }).on('error', (error) => resolve(error.code));
  });
}

const app = express();
app.get('/cart/:user', async (request, response) => response.json([await getStatus('/hello'), typeof Server]));
const server = createServer(app);
server.listen(0, '127.0.0.1', () => console.log(JSON.stringify({ port: server.address().port })));
