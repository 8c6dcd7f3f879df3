// A service in TypeScript, compiled to CommonJS.
import * as http from 'node:http';
import express, { Request, Response } from 'express';

const next: string = process.env['NEXT']!;
const app = express();
app.get('/cart/:user', (request: Request, response: Response) => {
  http.get(`http://${next}/hello`, (reply) => {
    reply.resume();
    reply.on('end', () => response.json(request.params['user']));
  });
});
const server: http.Server = http.createServer(app);
server.listen(0, '127.0.0.1', () => console.log(JSON.stringify({ port: (server.address() as { port: number }).port })));
