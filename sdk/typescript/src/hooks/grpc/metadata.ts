/** Our value in outgoing metadata. */

import type { OutgoingCall, Scope } from '../../scope/scope';
import { BAGGAGE, injectBridge, TRACEPARENT } from '../../wire/bridge';
import { GRPC_KEY } from '../../wire/envelope';
import type { Fn, Loose } from '../patch';
import type { Metadata } from './status';

/** A call's outgoing metadata: with the envelope of this call, and without one that the application forwarded. */
export function withEnvelope(original: Metadata, call: OutgoingCall, scope: Scope): Metadata {
  const metadata = original.clone();
  const envelope = call.envelope;
  if (envelope === null) {
    metadata.remove(GRPC_KEY);
  } else {
    setOwnValue(metadata, envelope);
    if (scope.envelope.bridge) {
      const own = [text(metadata, TRACEPARENT), text(metadata, BAGGAGE)] as const;
      const { traceparent, baggage } = injectBridge(...own, envelope, scope.envelope.trace, call.id);
      metadata.set(TRACEPARENT, traceparent);
      metadata.set(BAGGAGE, baggage);
    }
  }
  return metadata;
}

/** Whether there is a value for a lower-case key. Unlike `Metadata.get`, it does not allocate a list. */
export function hasKey(metadata: Metadata, key: string): boolean {
  const values = (metadata as unknown as Loose)['internalRepr'] as unknown;
  return values instanceof Map ? values.has(key) : metadata.get(key).length > 0;
}

/** Whether there are no values; false if that cannot be determined. */
export function isEmpty(metadata: Metadata): boolean {
  const values = (metadata as unknown as Loose)['internalRepr'] as unknown;
  return values instanceof Map && values.size === 0;
}

/** Metadata that was empty when the call started, without the values that were added since. */
export function clearedMetadata(metadata: Metadata): Metadata {
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
 * Sets our value in metadata that only the library will read. The library copies metadata three times per call, with
 * all buffers in them, and encodes buffers as base64 at the end. A base64 string is passed through without copies.
 */
export function setOwnValue(metadata: Metadata, value: Buffer): void {
  excludeFromHpack(metadata);
  const values = (metadata as unknown as Loose)['internalRepr'] as unknown;
  if (values instanceof Map) {
    values.set(GRPC_KEY, [value.toString('base64')]);
  } else {
    metadata.set(GRPC_KEY, value);
  }
}

const patchedClasses = new WeakSet<object>();

/**
 * Keeps our value out of the HPACK table of this connection and of those of proxies: it never repeats and would evict
 * headers that do. The class is patched when the first value is sent, so a process that sends none pays nothing.
 */
function excludeFromHpack(metadata: Metadata): void {
  const prototype = Object.getPrototypeOf(metadata) as Loose;
  if (patchedClasses.has(prototype)) {
    return;
  }
  patchedClasses.add(prototype);
  const toHttp2Headers = prototype['toHttp2Headers'] as unknown;
  if (typeof toHttp2Headers !== 'function') {
    return;
  }
  // loaded by the library already; processes without gRPC do not load it
  const { sensitiveHeaders } = require('node:http2') as typeof import('node:http2');
  prototype['toHttp2Headers'] = function (this: unknown) {
    const headers = (toHttp2Headers as Fn).call(this) as Loose;
    if (headers[GRPC_KEY] !== undefined) {
      headers[sensitiveHeaders] = OWN_KEYS;
    }
    return headers;
  };
}

const OWN_KEYS = [GRPC_KEY];
