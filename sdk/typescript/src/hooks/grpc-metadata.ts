/** Our value in metadata that leave. */

import type { Call, Scope } from '../scope/scope';
import { baggageOut, BAGGAGE, TRACEPARENT, traceparentOut } from '../wire/bridge';
import { GRPC_KEY } from '../wire/envelope';
import type { Metadata } from './grpc-status';
import type { Fn, Loose } from './patch';

/** A call's metadata as they leave: with our envelope, and without one that the application passed on. */
export function withEnvelope(given: Metadata, call: Call, scope: Scope): Metadata {
  const metadata = given.clone();
  const envelope = call.envelope;
  if (envelope === null) {
    metadata.remove(GRPC_KEY);
  } else {
    setOwn(metadata, envelope);
    if (scope.envelope.bridge) {
      metadata.set(TRACEPARENT, traceparentOut(text(metadata, TRACEPARENT), scope.envelope.trace, call.id));
      const baggage = baggageOut(text(metadata, BAGGAGE), envelope);
      if (baggage !== undefined) {
        metadata.set(BAGGAGE, baggage);
      }
    }
  }
  return metadata;
}

/** Is there a value under this key (in lower case)? The library's own answer would be a list, made for the purpose. */
export function has(metadata: Metadata, key: string): boolean {
  const values = (metadata as unknown as Loose)['internalRepr'] as unknown;
  return values instanceof Map ? values.has(key) : metadata.get(key).length > 0;
}

/** Are there no values? False where that cannot be told. */
export function isEmpty(metadata: Metadata): boolean {
  const values = (metadata as unknown as Loose)['internalRepr'] as unknown;
  return values instanceof Map && values.size === 0;
}

/** Metadata that were empty, without what was put into them since. */
export function emptied(metadata: Metadata): Metadata {
  if (isEmpty(metadata)) {
    return metadata;
  }
  const empty = metadata.clone();
  ((empty as unknown as Loose)['internalRepr'] as Map<string, unknown>).clear();
  return empty;
}

function text(metadata: Metadata, key: string): string | undefined {
  const values = metadata.get(key);
  return values.length === 0 ? undefined : values.map(String).join(',');
}

/**
 * Puts our value into metadata that nobody but the library reads any more. It copies bytes each time it copies metadata, which
 * it does three times per call, and writes them as base64 in the end; a text it just passes on.
 */
export function setOwn(metadata: Metadata, value: Buffer): void {
  markOwn(metadata);
  const values = (metadata as unknown as Loose)['internalRepr'] as unknown;
  if (values instanceof Map) {
    values.set(GRPC_KEY, [value.toString('base64')]);
  } else {
    metadata.set(GRPC_KEY, value);
  }
}

const marking = new WeakSet<object>();

/**
 * Keeps our value out of HPACK's table, on this connection and on all behind it: it never comes again, and would drive out what
 * does. The class is changed when the first value leaves, so that a process that sends none pays nothing.
 */
function markOwn(metadata: Metadata): void {
  const prototype = Object.getPrototypeOf(metadata) as Loose;
  if (marking.has(prototype)) {
    return;
  }
  marking.add(prototype);
  const toHttp2Headers = prototype['toHttp2Headers'] as unknown;
  if (typeof toHttp2Headers !== 'function') {
    return;
  }
  // the library has loaded it; a process without gRPC does not need to
  const { sensitiveHeaders } = require('node:http2') as typeof import('node:http2');
  prototype['toHttp2Headers'] = function (this: unknown) {
    const headers = (toHttp2Headers as Fn).call(this) as Loose;
    if (headers[GRPC_KEY] !== undefined) {
      headers[sensitiveHeaders] = OWN;
    }
    return headers;
  };
}

const OWN = [GRPC_KEY];
