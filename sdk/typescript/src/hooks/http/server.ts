/**
 * Node's HTTP server and everything built on it: a request with an accepted envelope is served in a scope, and its
 * reply returns the history. Other requests are served unchanged.
 */

import type { IncomingMessage, ServerResponse } from 'node:http';
import { withScope } from '../../scope/context';
import type { Process } from '../../scope/process';
import { lastValue } from '../../wire/carrier';
import { HTTP_HEADER } from '../../wire/envelope';
import type { Fn, Loose, Patch } from '../patch';
import { MessageHeaders } from './message-headers';
import { ServerReply } from './server-reply';

/** Requests that were checked: a server may pass a request to another one. */
const checked = new WeakSet<IncomingMessage>();

export function hookHttpServer(patch: Patch, server: Loose, process: Process): void {
  patch.wrap(
    server['prototype'] as Loose,
    'emit',
    (emit) =>
      function (this: unknown, event: unknown, ...args: unknown[]) {
        if (event !== 'request' && event !== 'checkContinue') {
          return emit.call(this, event, ...args);
        }
        const reply = openReply(process, args[0] as IncomingMessage, args[1] as ServerResponse);
        return reply === null
          ? emit.call(this, event, ...args)
          : withScope(reply.scope, () => emit.call(this, event, ...args));
      },
  );
}

function openReply(process: Process, request: IncomingMessage, response: ServerResponse): ServerReply | null {
  try {
    const { headers } = request;
    const header = headers[HTTP_HEADER];
    const isBridged = headers.traceparent !== undefined && headers['baggage'] !== undefined;
    if ((header === undefined && !isBridged && process.sampler === null) || checked.has(request)) {
      return null;
    }
    if (process.receiver.source.settings() === null) {
      return null; // inactive: the header stays in place
    }
    checked.add(request);
    if (header !== undefined) {
      // removed even if it is refused, so that the application does not forward it
      new MessageHeaders(request).remove(HTTP_HEADER);
    }
    const envelope = header === undefined ? undefined : lastValue(String(header)); // Node joins the lines of a header
    const scope = process.openScope({
      envelope,
      attempt: 0,
      traceparent: joined(headers.traceparent),
      baggage: joined(headers['baggage']),
    });
    if (scope === null) {
      return null;
    }
    const reply = new ServerReply(scope, request, response);
    // the connection emits these events in no scope
    for (const emitter of [request, response] as unknown as Loose[]) {
      const emit = emitter['emit'] as Fn;
      emitter['emit'] = (...args: unknown[]) => withScope(scope, () => emit.apply(emitter, args));
    }
    return reply;
  } catch {
    return null;
  }
}

function joined(value: string | string[] | undefined): string | undefined {
  return Array.isArray(value) ? value.join(',') : value;
}
