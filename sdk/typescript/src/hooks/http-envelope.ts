/** The envelope among the headers of an HTTP request. */

import type { ClientRequest } from 'node:http';
import type { Call, Scope } from '../scope/scope';
import { BAGGAGE, baggageOut, TRACEPARENT, traceparentOut } from '../wire/bridge';
import { HTTP_HEADER, toHeader } from '../wire/envelope';
import { undoable } from './http-body';

/** Sets it in a request whose headers have not left. */
export function setEnvelope(scope: Scope, call: Call, request: ClientRequest): void {
  const names = [HTTP_HEADER, 'accept-encoding', ...(scope.envelope.bridge ? [TRACEPARENT, BAGGAGE] : [])];
  const present: [string, unknown][] = names.map((name) => [name, request.getHeader(name)]);
  request.removeHeader(HTTP_HEADER);
  for (const [name, value] of withEnvelope(scope, call, present.filter(([, value]) => value !== undefined).flat())) {
    if (request.getHeader(name) !== value) {
      request.setHeader(name, value);
    }
  }
}

/** Node composes a list of headers, or headers that expect something, when it makes the request. */
export function leavesAtOnce(headers: unknown): boolean {
  return Array.isArray(headers) || Object.keys(headers ?? {}).some((name) => name.toLowerCase() === 'expect');
}

/** Headers given in any form, as names and values in turn. */
export function listed(headers: unknown): string[] {
  if (headers === undefined || headers === null) {
    return [];
  }
  if (Array.isArray(headers)) {
    return Array.isArray(headers[0]) ? (headers as string[][]).flat() : [...(headers as string[])];
  }
  const iterable = headers as Partial<Iterable<[string, string]>>;
  const pairs = typeof iterable[Symbol.iterator] === 'function' ? [...(headers as Iterable<[string, string]>)] : Object.entries(headers as object);
  return pairs.flatMap(([name, value]) => (value === undefined ? [] : [name, value as string]));
}

/** The same headers with the envelope, in place of one that was passed on; only encodings that we can undo are asked for. */
export function withEnvelope(scope: Scope, call: Call, headers: unknown): [string, string][] {
  const { history, bridge, trace } = scope.envelope;
  const list = listed(headers);
  const out: [string, string][] = [];
  const replaced: Record<string, string> = {};
  for (let i = 0; i + 1 < list.length; i += 2) {
    const name = list[i]!.toLowerCase();
    const value = list[i + 1]!;
    if (name === HTTP_HEADER || (bridge && call.envelope !== null && (name === TRACEPARENT || name === BAGGAGE))) {
      replaced[name] = String(value);
    } else {
      out.push([list[i]!, name === 'accept-encoding' && history ? undoable(String(value)) : value]);
    }
  }
  if (call.envelope !== null) {
    out.push([HTTP_HEADER, toHeader(call.envelope)]);
    if (bridge) {
      out.push([TRACEPARENT, traceparentOut(replaced[TRACEPARENT], trace, call.id)]);
      const baggage = baggageOut(replaced[BAGGAGE], call.envelope);
      if (baggage !== undefined) {
        out.push([BAGGAGE, baggage]);
      }
    }
  }
  return out;
}
