/**
 * Converts a history to OTLP/JSON spans: a server span per segment, a client span per call. Keys are in sorted order.
 */

import { addUint64, MAX_U64, Uint64 } from './bytes';
import type { CallId } from './callid';
import type { Event, History, Segment } from './history';

type Value = { stringValue: string } | { intValue: string } | { boolValue: true };

interface Attribute {
  key: string;
  value: Value;
}

/** A span in OTLP/JSON. */
export interface Span {
  attributes: Attribute[];
  endTimeUnixNano: string;
  kind: 2 | 3;
  name: string;
  parentSpanId?: string;
  spanId: string;
  startTimeUnixNano: string;
  status: { code?: 2 };
  traceId: string;
}

/** The spans of one service. */
export interface ResourceSpans {
  resource: { attributes: Attribute[] };
  scopeSpans: [{ scope: { name: string }; spans: Span[] }];
}

/** `trace`: 16 bytes; `hasParent`: the request had a `traceparent`. */
export function resourceSpans(trace: Buffer, hasParent: boolean, history: History): ResourceSpans[] {
  const collector = new SpanCollector(trace.toString('hex'));
  collector.addSegment(history.call, history.segment, hasParent, '');
  return collector.services;
}

type Send = Extract<Event, { kind: 'SEND_REQUEST' }>;
type End = Extract<Event, { child: unknown }>;

class SpanCollector {
  readonly services: ResourceSpans[] = [];
  private readonly spans = new Map<string, Span[]>();

  constructor(private readonly traceId: string) {}

  addSegment(id: CallId, segment: Segment, hasParent: boolean, callerName: string): void {
    const spans = this.spansOf(segment.service);
    const server = id.derive(0).toString();
    const last = segment.events[segment.events.length - 1];
    const lastUs = last === undefined ? 0 : last.atUs;
    const status = last?.kind === 'SEND_RESPONSE' ? last.status : null;
    spans.push({
      attributes: serverAttributes(segment, status),
      endTimeUnixNano: nanoseconds(segment.startUs, lastUs),
      kind: 2,
      name: segment.name || callerName || segment.service,
      ...(hasParent ? { parentSpanId: id.toString() } : {}),
      spanId: server,
      startTimeUnixNano: nanoseconds(segment.startUs, 0),
      status: status !== null && (status < 100 ? status !== 0 : status >= 500) ? { code: 2 } : {},
      traceId: this.traceId,
    });
    const ends = new Map<number, End>();
    for (const event of segment.events) {
      if (event.kind === 'RECV_RESPONSE' || event.kind === 'CALL_FAILED') {
        ends.set(event.call, event);
      }
    }
    for (const event of segment.events) {
      if (event.kind === 'SEND_REQUEST') {
        const end = ends.get(event.call);
        const call = id.derive(event.call);
        spans.push(this.clientSpan(segment, server, call, event, end, lastUs));
        if (end?.child) {
          this.addSegment(call, end.child, true, event.name);
        }
      }
    }
  }

  private clientSpan(
    segment: Segment,
    server: string,
    id: CallId,
    send: Send,
    end: End | undefined,
    lastUs: Uint64,
  ): Span {
    const isError =
      end !== undefined && (end.kind === 'CALL_FAILED' || (send.http ? end.status >= 400 : end.status !== 0));
    return {
      attributes: clientAttributes(send, end),
      endTimeUnixNano: nanoseconds(segment.startUs, end === undefined ? lastUs : end.atUs),
      kind: 3,
      name: send.name,
      parentSpanId: server,
      spanId: id.toString(),
      startTimeUnixNano: nanoseconds(segment.startUs, send.atUs),
      status: isError ? { code: 2 } : {},
      traceId: this.traceId,
    };
  }

  private spansOf(service: string): Span[] {
    let spans = this.spans.get(service);
    if (spans === undefined) {
      spans = [];
      this.spans.set(service, spans);
      this.services.push({
        resource: { attributes: [{ key: 'service.name', value: { stringValue: service } }] },
        scopeSpans: [{ scope: { name: 'faultloom' }, spans }],
      });
    }
    return spans;
  }
}

function statusAttribute(http: boolean, value: Uint64): Attribute {
  return { key: http ? 'http.response.status_code' : 'rpc.grpc.status_code', value: { intValue: String(value) } };
}

function trueAttribute(key: string): Attribute {
  return { key, value: { boolValue: true } };
}

function serverAttributes(segment: Segment, status: Uint64 | null): Attribute[] {
  const out: Attribute[] = [];
  if (status !== null) {
    out.push(statusAttribute(status >= 100, status));
  }
  if (segment.truncated) {
    out.push(trueAttribute('faultloom.truncated'));
  }
  if (segment.faultsOff) {
    out.push(trueAttribute('faultloom.faults_off'));
  }
  const unscoped = unscopedCalls(segment);
  if (unscoped !== 0) {
    out.push({ key: 'faultloom.unscoped_calls', value: { intValue: String(unscoped) } });
  }
  return out;
}

/** The number of calls that belonged to no request, at most 2^64 - 1. */
function unscopedCalls(segment: Segment): Uint64 {
  let sum: Uint64 = 0;
  for (const event of segment.events) {
    if (event.kind === 'UNSCOPED_CALLS') {
      sum = addUint64(sum, event.count) ?? MAX_U64;
    }
  }
  return sum;
}

function clientAttributes(send: Send, end: End | undefined): Attribute[] {
  const out: Attribute[] = [];
  if (end !== undefined) {
    out.push(statusAttribute(send.http && end.kind === 'RECV_RESPONSE', end.status));
  }
  out.push({ key: 'peer.service', value: { stringValue: send.peer } });
  if (send.fault !== null) {
    out.push({ key: 'faultloom.fault', value: { intValue: String(send.fault) } });
  }
  if (end?.kind === 'CALL_FAILED') {
    out.push(trueAttribute('faultloom.failed'));
  }
  if (end === undefined || end.gap) {
    out.push(trueAttribute('faultloom.gap'));
  }
  if (send.inherited) {
    out.push(trueAttribute('faultloom.inherited'));
  }
  if (end !== undefined && end.connectUs !== 0) {
    out.push({ key: 'faultloom.connect_us', value: { intValue: String(end.connectUs) } });
  }
  return out;
}

/** Nanoseconds since the epoch as a decimal string, saturating at 2^64 - 1. */
function nanoseconds(startUs: Uint64, atUs: Uint64): string {
  const ns = BigInt(addUint64(startUs, atUs) ?? MAX_U64) * 1000n;
  return (ns > MAX_U64 ? MAX_U64 : ns).toString();
}
