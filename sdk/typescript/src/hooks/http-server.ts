/**
 * Node's HTTP server, and so everything built on it: a request with an accepted envelope is served in a scope, and its reply
 * brings the history back. Other requests are served as they are.
 */

import type { IncomingMessage, ServerResponse } from 'node:http';
import { within } from '../scope/context';
import type { Process } from '../scope/process';
import { HTTP_HEADER } from '../wire/envelope';
import { HttpReply } from './http-reply';
import { MessageHeaders } from './message-headers';
import type { Fn, Loose, Patch } from './patch';

/** Requests that were looked at: a server may hand one on to another. */
const served = new WeakSet<IncomingMessage>();

export function hookHttpServer(patch: Patch, server: Loose, process: Process): void {
  patch.wrap(server['prototype'] as Loose, 'emit', (emit) =>
    function (this: unknown, event: unknown, ...args: unknown[]) {
      if (event !== 'request' && event !== 'checkContinue') {
        return emit.call(this, event, ...args);
      }
      const reply = open(process, args[0] as IncomingMessage, args[1] as ServerResponse);
      return reply === null ? emit.call(this, event, ...args) : within(reply.scope, () => emit.call(this, event, ...args));
    },
  );
}

function open(process: Process, request: IncomingMessage, response: ServerResponse): HttpReply | null {
  try {
    const { headers } = request;
    const own = headers[HTTP_HEADER];
    if ((own === undefined && headers.traceparent === undefined && process.sampler === null) || served.has(request)) {
      return null;
    }
    if (process.receiver.source.settings() === null) {
      return null; // deaf: not even the header is touched
    }
    served.add(request);
    if (own !== undefined) {
      // accepted or refused: nobody passes it on as his own
      new MessageHeaders(request).remove(HTTP_HEADER);
    }
    // what a client hook adds comes behind what a proxy forwards
    const last = own === undefined ? undefined : String(own).split(',').pop()!.trim();
    const scope = process.openHttp(last, one(headers.traceparent), one(headers['baggage']));
    if (scope === null) {
      return null;
    }
    const reply = new HttpReply(scope, request, response);
    // what arrives on a connection is reported outside any scope
    for (const emitter of [request, response] as unknown as Loose[]) {
      const emit = emitter['emit'] as Fn;
      emitter['emit'] = (...args: unknown[]) => within(scope, () => emit.apply(emitter, args));
    }
    return reply;
  } catch {
    return null;
  }
}

function one(value: string | string[] | undefined): string | undefined {
  return Array.isArray(value) ? value.join(',') : value;
}
