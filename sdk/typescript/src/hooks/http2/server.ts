/**
 * Servers of Node's http2, with `stream` events or with the compatibility API, and HTTP/1.1 requests on the same
 * port. The compatibility API, and thus Fastify and Koa, is built on the streams, so a request is traced by its stream.
 *
 * Requests of gRPC are left to the hooks of @grpc/grpc-js, which is built on http2.
 */

import type { IncomingMessage, ServerResponse } from 'node:http';
import type { ServerHttp2Stream } from 'node:http2';
import { withScope } from '../../scope/context';
import type { Process } from '../../scope/process';
import { emitIn, openScope, serveRequest, untraced } from '../http/server';
import { Loose, Patch, prototypeHook } from '../patch';
import { isGrpc, LooseHeaders } from './headers';
import { StreamReply } from './stream-reply';

/** Replies by their streams. */
const replies = new WeakMap<object, StreamReply>();

export function hookHttp2Server(patch: Patch, http2: Loose, process: Process): void {
  const hookServer = prototypeHook((prototype) => hookEvents(patch, prototype, process));
  for (const name of ['createServer', 'createSecureServer']) {
    patch.wrap(http2, name, (create) => (...args) => {
      const server = create(...args) as object;
      hookServer(server);
      return server;
    });
  }
}

function hookEvents(patch: Patch, prototype: Loose, process: Process): void {
  patch.wrap(
    prototype,
    'emit',
    (emit) =>
      function (this: unknown, event: unknown, ...args: unknown[]) {
        const serve = (): unknown => emit.call(this, event, ...args);
        if (event === 'stream') {
          return serveStream(process, args as StreamEvent, serve);
        }
        if (event !== 'request' && event !== 'checkContinue') {
          return serve();
        }
        const [request, response] = args as [IncomingMessage, ServerResponse];
        if (request.httpVersionMajor === 1) {
          return serveRequest(process, request, response, serve);
        }
        replies.get((request as unknown as Loose)['stream'] as object)?.setRequest(request);
        return serve();
      },
  );
}

type StreamEvent = [stream: ServerHttp2Stream, headers: LooseHeaders, flags: number, rawHeaders: string[]];

function serveStream(process: Process, event: StreamEvent, serve: () => unknown): unknown {
  const [stream, headers, , rawHeaders] = event;
  if (isGrpc(headers) || headers[':method'] === 'CONNECT') {
    return serve();
  }
  const context = openReply(process, stream, headers, rawHeaders)?.scope ?? untraced(stream, [stream], stream);
  return context === null ? serve() : withScope(context, serve);
}

function openReply(
  process: Process,
  stream: ServerHttp2Stream,
  headers: LooseHeaders,
  rawHeaders: string[],
): StreamReply | null {
  const scope = openScope(process, stream, { headers, rawHeaders: rawHeaders ?? [] });
  if (scope === null) {
    return null;
  }
  try {
    const reply = new StreamReply(scope, stream, headers);
    replies.set(stream, reply);
    emitIn(scope, [stream]);
    return reply;
  } catch {
    return null;
  }
}
