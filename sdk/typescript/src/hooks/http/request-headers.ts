/** Adds the envelope to the headers of an HTTP request. */

import type { ClientRequest } from 'node:http';
import type { OutgoingCall, Scope } from '../../scope/scope';
import { BAGGAGE, injectBridge, TRACEPARENT } from '../../wire/bridge';
import { encodeHeader, HTTP_HEADER } from '../../wire/envelope';
import { decodableEncodings } from './body';

/** Sets it in a request whose headers have not been sent. */
export function setEnvelope(scope: Scope, call: OutgoingCall, request: ClientRequest): void {
  const names = [HTTP_HEADER, 'accept-encoding', ...(scope.envelope.bridge ? [TRACEPARENT, BAGGAGE] : [])];
  const present: [string, unknown][] = names.map((name) => [name, request.getHeader(name)]);
  request.removeHeader(HTTP_HEADER);
  for (const [name, value] of withEnvelope(scope, call, present.filter(([, value]) => value !== undefined).flat())) {
    if (request.getHeader(name) !== value) {
      request.setHeader(name, value);
    }
  }
}

/** Whether Node serializes these headers when it creates the request: a list, or headers with `Expect`. */
export function sendsHeadersAtOnce(headers: unknown): boolean {
  return Array.isArray(headers) || Object.keys(headers ?? {}).some((name) => name.toLowerCase() === 'expect');
}

/** Headers in any form as a flat list of names and values. */
export function flatHeaders(headers: unknown): string[] {
  if (headers === undefined || headers === null) {
    return [];
  }
  if (Array.isArray(headers)) {
    return Array.isArray(headers[0]) ? (headers as string[][]).flat() : [...(headers as string[])];
  }
  const iterable = headers as Partial<Iterable<[string, string]>>;
  const pairs =
    typeof iterable[Symbol.iterator] === 'function'
      ? [...(headers as Iterable<[string, string]>)]
      : Object.entries(headers as object);
  return pairs.flatMap(([name, value]) => (value === undefined ? [] : [name, value as string]));
}

/**
 * Headers with the envelope, which replaces a forwarded one. Accept-Encoding is restricted to codings that can be
 * decoded.
 */
export function withEnvelope(scope: Scope, call: OutgoingCall, headers: unknown): [string, string][] {
  const { history, bridge, trace } = scope.envelope;
  const list = flatHeaders(headers);
  const out: [string, string][] = [];
  const replaced: Record<string, string> = {};
  for (let i = 0; i + 1 < list.length; i += 2) {
    const name = list[i]!.toLowerCase();
    const value = list[i + 1]!;
    if (name === HTTP_HEADER || (bridge && call.envelope !== null && (name === TRACEPARENT || name === BAGGAGE))) {
      replaced[name] = String(value);
    } else {
      out.push([list[i]!, name === 'accept-encoding' && history ? decodableEncodings(String(value)) : value]);
    }
  }
  if (call.envelope !== null) {
    out.push([HTTP_HEADER, encodeHeader(call.envelope)]);
    if (bridge) {
      const own = [replaced[TRACEPARENT], replaced[BAGGAGE]] as const;
      const { traceparent, baggage } = injectBridge(...own, call.envelope, trace, call.id);
      out.push([TRACEPARENT, traceparent], [BAGGAGE, baggage]);
    }
  }
  return out;
}
