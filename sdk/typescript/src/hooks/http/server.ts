/**
 * Node's HTTP server and everything built on it: a request with an accepted envelope is served in a scope, and its
 * reply returns the history. Other requests are served unchanged.
 */

import type { EventEmitter } from 'node:events';
import type { IncomingMessage, ServerResponse } from 'node:http';
import { UntracedRequest, untracedRequest, withScope } from '../../scope/context';
import type { Process } from '../../scope/process';
import type { Scope } from '../../scope/scope';
import { anyOpenScope } from '../../scope/unscoped';
import { lastValue } from '../../wire/carrier';
import { HTTP_HEADER } from '../../wire/envelope';
import type { Fn, Loose, Patch } from '../patch';
import { MessageHeaders, ReceivedHeaders } from './message-headers';
import { ServerReply } from './server-reply';

/** Requests that were checked: a server may pass a request to another one. */
const checked = new WeakSet<object>();

export function hookHttpServer(patch: Patch, server: Loose, process: Process): void {
  patch.wrap(
    server['prototype'] as Loose,
    'emit',
    (emit) =>
      function (this: unknown, event: unknown, ...args: unknown[]) {
        const serve = (): unknown => emit.call(this, event, ...args);
        return event === 'request' || event === 'checkContinue'
          ? serveRequest(process, args[0] as IncomingMessage, args[1] as ServerResponse, serve)
          : serve();
      },
  );
}

/** Serves a request of HTTP/1.1. */
export function serveRequest(
  process: Process,
  request: IncomingMessage,
  response: ServerResponse,
  serve: () => unknown,
): unknown {
  const context = openReply(process, request, response)?.scope ?? untraced(request, [request, response], response);
  return context === null ? serve() : withScope(context, serve);
}

/**
 * The context of a request that is not traced, until its reply has ended; null if no scope is open, which might count
 * its calls.
 */
export function untraced(request: object, emitters: object[], closing: EventEmitter): UntracedRequest | null {
  if (!anyOpenScope() || checked.has(request) || untracedRequest() !== undefined) {
    return null;
  }
  const context: UntracedRequest = { isUntraced: true, finished: false };
  closing.once('close', () => (context.finished = true));
  // the connection emits these events in no scope
  emitIn(context, emitters);
  return context;
}

export function emitIn(context: Scope | UntracedRequest, emitters: object[]): void {
  for (const emitter of emitters as Loose[]) {
    const emit = emitter['emit'] as Fn;
    emitter['emit'] = (...args: unknown[]) => withScope(context, () => emit.apply(emitter, args));
  }
}

function openReply(process: Process, request: IncomingMessage, response: ServerResponse): ServerReply | null {
  const scope = openScope(process, request, request);
  if (scope === null) {
    return null;
  }
  try {
    const reply = new ServerReply(scope, request, response);
    // the connection emits these events in no scope
    emitIn(scope, [request, response]);
    return reply;
  } catch {
    return null;
  }
}

/**
 * Opens the scope of a request with these headers, and removes the envelope from them. Returns null if the request is
 * not traced.
 */
export function openScope(process: Process, request: object, message: ReceivedHeaders): Scope | null {
  try {
    const { headers } = message;
    const header = headers[HTTP_HEADER];
    const isBridged = headers['traceparent'] !== undefined && headers['baggage'] !== undefined;
    if ((header === undefined && !isBridged && process.sampler === null) || checked.has(request)) {
      return null;
    }
    if (process.receiver.source.settings() === null) {
      return null; // inactive: the header stays in place
    }
    checked.add(request);
    if (header !== undefined) {
      // removed even if it is refused, so that the application does not forward it
      new MessageHeaders(message).remove(HTTP_HEADER);
    }
    const envelope = header === undefined ? undefined : lastValue(String(header)); // Node joins the lines of a header
    return process.openScope({
      envelope,
      attempt: 0,
      traceparent: joined(headers['traceparent']),
      baggage: joined(headers['baggage']),
    });
  } catch {
    return null;
  }
}

function joined(value: string | string[] | number | undefined): string | undefined {
  return value === undefined ? undefined : String(value);
}
