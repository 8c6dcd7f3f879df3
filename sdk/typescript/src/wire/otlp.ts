/** A history as spans, in OTLP's JSON: a server span per segment, a client span per call. Keys are written in sorted order. */

import { sum, Whole } from './bytes';
import type { CallId } from './callid';
import type { Event, History, Segment } from './history';

type Value = { stringValue: string } | { intValue: string } | { boolValue: true };

interface Attribute {
  key: string;
  value: Value;
}

/** One span as OTLP/HTTP has it in JSON. */
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

/** `trace`: 16 bytes; `hasParent`: the request came with a `traceparent`. */
export function resourceSpans(trace: Buffer, hasParent: boolean, history: History): ResourceSpans[] {
  const document = new Document(trace.toString('hex'));
  document.segment(history.call, history.segment, hasParent, '');
  return document.services;
}

type Send = Extract<Event, { kind: 'SEND_REQUEST' }>;
type End = Extract<Event, { child: unknown }>;

class Document {
  readonly services: ResourceSpans[] = [];
  private readonly spans = new Map<string, Span[]>();

  constructor(private readonly traceId: string) {}

  segment(id: CallId, segment: Segment, hasParent: boolean, callersName: string): void {
    const spans = this.of(segment.service);
    const server = id.derive(0).toString();
    const last = segment.events[segment.events.length - 1];
    const lastUs = last === undefined ? 0 : last.atUs;
    const answer = last?.kind === 'SEND_RESPONSE' ? last.status : null;
    spans.push({
      attributes: serverAttributes(segment, answer),
      endTimeUnixNano: nanoseconds(segment.startUs, lastUs),
      kind: 2,
      name: segment.name || callersName || segment.service,
      ...(hasParent ? { parentSpanId: id.toString() } : {}),
      spanId: server,
      startTimeUnixNano: nanoseconds(segment.startUs, 0),
      status: answer !== null && (answer < 100 ? answer !== 0 : answer >= 500) ? { code: 2 } : {},
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
        spans.push(this.client(segment, server, call, event, end, lastUs));
        if (end?.child) {
          this.segment(call, end.child, true, event.name);
        }
      }
    }
  }

  private client(segment: Segment, server: string, id: CallId, send: Send, end: End | undefined, lastUs: Whole): Span {
    const bad = end !== undefined && (end.kind === 'CALL_FAILED' || (send.http ? end.status >= 400 : end.status !== 0));
    return {
      attributes: clientAttributes(send, end),
      endTimeUnixNano: nanoseconds(segment.startUs, end === undefined ? lastUs : end.atUs),
      kind: 3,
      name: send.name,
      parentSpanId: server,
      spanId: id.toString(),
      startTimeUnixNano: nanoseconds(segment.startUs, send.atUs),
      status: bad ? { code: 2 } : {},
      traceId: this.traceId,
    };
  }

  private of(service: string): Span[] {
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

function status(http: boolean, value: Whole): Attribute {
  return { key: http ? 'http.response.status_code' : 'rpc.grpc.status_code', value: { intValue: String(value) } };
}

function flag(key: string): Attribute {
  return { key, value: { boolValue: true } };
}

function serverAttributes(segment: Segment, answer: Whole | null): Attribute[] {
  const out: Attribute[] = [];
  if (answer !== null) {
    out.push(status(answer >= 100, answer));
  }
  if (segment.truncated) {
    out.push(flag('faultloom.truncated'));
  }
  if (segment.faultsOff) {
    out.push(flag('faultloom.faults_off'));
  }
  return out;
}

function clientAttributes(send: Send, end: End | undefined): Attribute[] {
  const out: Attribute[] = [];
  if (end !== undefined) {
    out.push(status(send.http && end.kind === 'RECV_RESPONSE', end.status));
  }
  out.push({ key: 'peer.service', value: { stringValue: send.peer } });
  if (send.fault !== null) {
    out.push({ key: 'faultloom.fault', value: { intValue: String(send.fault) } });
  }
  if (end?.kind === 'CALL_FAILED') {
    out.push(flag('faultloom.failed'));
  }
  if (end === undefined || end.gap) {
    out.push(flag('faultloom.gap'));
  }
  return out;
}

const MAX_U64 = (1n << 64n) - 1n;

/** Saturates at what 64 bits hold. */
function nanoseconds(startUs: Whole, atUs: Whole): string {
  const ns = BigInt(sum(startUs, atUs) ?? MAX_U64) * 1000n;
  return (ns > MAX_U64 ? MAX_U64 : ns).toString();
}
