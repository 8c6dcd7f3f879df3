/** Computes the result of each kind of vector from its input. spec/README.md describes both. */

import { CallResult, faultEffect, Protocol, replyEffect, unsentEffect } from '../hooks/faults';
import { Receiver } from '../trust/receiver';
import { TrustSettings } from '../trust/settings';
import { extractBridge, injectBridge, parseTraceparent } from '../wire/bridge';
import { Uint64 } from '../wire/bytes';
import { CallId } from '../wire/callid';
import {
  allowsTail,
  appendField,
  corruptBody,
  cutField,
  CutMessage,
  cutTail,
  encodeTail,
  HeaderLookup,
  lastValue,
  MAX_HEADER_BYTES,
} from '../wire/carrier';
import { ACCEPT_FIELD, ACCEPT_TAIL, Envelope, HTTP_HEADER } from '../wire/envelope';
import { Event, readCounted, readHistory, Segment, takesField, VERSION_1 } from '../wire/history';
import { normalizeHttpName, rawHttpName } from '../wire/names';
import { resourceSpans } from '../wire/otlp';
import { PieceJoiner } from '../wire/piece';
import { fault, Fault, Kind } from '../wire/plan';
import { matches, Selector } from '../wire/selector';
import { truncateHistory } from '../wire/truncate';
import { hex, hexOrNull, Json } from './json';
import { scope } from './scope-player';

/** The result of a vector. Throws for an unknown kind. */
export function result(kind: string, input: Json): Json {
  const compute = kinds[kind];
  if (compute === undefined) {
    throw new Error(`unknown vector kind ${kind}`);
  }
  return compute(input as never);
}

interface Bytes {
  bytes: string;
}

interface Message {
  message: string;
  history: string;
}

const kinds: { [kind: string]: (input: never) => Json } = {
  envelope,
  scope,
  history: ({ bytes }: Bytes) => {
    const history = readHistory(hex(bytes));
    return typeof history === 'string'
      ? { error: history }
      : { call: history.call.toString(), segment: segmentJson(history.segment, history.call) };
  },
  truncate: (input: { history: string; limit: number }) => ({
    history: hexOrNull(truncateHistory(hex(input.history), input.limit)),
  }),
  field: ({ message, history }: Message) => ({ bytes: appendField(hex(message), hex(history)).toString('hex') }),
  cut_field: ({ bytes }: Bytes) => cutJson(cutField(hex(bytes))),
  takes_field: ({ history }: { history: string }) => ({ takes_field: takesField(hex(history)) }),
  tail: ({ message, history }: Message) => ({ bytes: message + encodeTail(hex(history)).toString('hex') }),
  cut_tail: ({ bytes }: Bytes) => cutJson(cutTail(hex(bytes))),
  match: ({ pairs }: { pairs: { selector: Selector; caller: string; peer: string; name: string }[] }) => ({
    matches: pairs.map((pair) => matches(pair.selector, pair.caller, pair.peer, pair.name)),
  }),
  name: ({ requests }: { requests: { method: string; target: string }[] }) => ({
    names: requests.map(({ method, target }) => normalizeHttpName(rawHttpName(method, target))),
  }),
  carrier,
  call_id: ({ parent, numbers }: { parent: string; numbers: number[] }) => ({
    ids: numbers.map((n) => CallId.parse(parent).derive(n).toString()),
  }),
  join: ({ call, pieces }: { call: string; pieces: string[] }) => {
    const joiner = new PieceJoiner();
    pieces.forEach((piece) => joiner.add(hex(piece)));
    const history = joiner.history(CallId.parse(call));
    return { history: hexOrNull(history), complete: history !== null && joiner.isComplete };
  },
  bridge_out: (input: { envelope: string; trace: string; call: string; headers: { [name: string]: string } }) => ({
    headers: injectBridge(
      input.headers['traceparent'],
      input.headers['baggage'],
      hex(input.envelope),
      hex(input.trace),
      CallId.parse(input.call),
    ),
  }),
  bridge_in: ({ headers }: { headers: { [name: string]: string } }) => {
    const own = headers[HTTP_HEADER];
    const bridged = own === undefined ? extractBridge(headers['traceparent'], headers['baggage']) : null;
    return {
      carrier: own !== undefined ? 'own' : bridged !== null ? 'baggage' : 'none',
      envelope: own ?? bridged?.envelope ?? null,
      call: bridged?.call.toString() ?? null,
    };
  },
  traceparent: ({ values }: { values: string[] }) => ({
    values: values.map((value) => {
      const valid = parseTraceparent(value);
      return valid && { trace: valid.trace.toString('hex'), parent: valid.parent.toString() };
    }),
  }),
  otlp: (input: { trace: string; has_parent: boolean; history: string }) => {
    const history = readHistory(hex(input.history));
    return typeof history === 'string'
      ? { error: 'malformed' }
      : { resourceSpans: resourceSpans(hex(input.trace), input.has_parent, history) };
  },
  corrupt: ({ bytes }: Bytes) => ({ bytes: corruptBody(hex(bytes)).toString('hex') }),
  counted: ({ parts, version }: { parts: [string, number][]; version?: number }) => {
    const bytes = Buffer.concat(parts.map(([part, times]) => Buffer.from(part.repeat(times), 'hex')));
    const segment = readCounted(version ?? VERSION_1, bytes, 0);
    return { result: segment === 'too large' ? 'too_large' : segment === undefined ? 'unreadable' : 'counted' };
  },
  last_value: ({ lines }: { lines: string[] }) => ({
    value: lines.length === 0 ? null : lastValue(lines.join(', ')),
  }),
  hook,
};

function cutJson({ message, history }: CutMessage): Json {
  return { message: message.toString('hex'), history: hexOrNull(history) };
}

interface Attempt {
  carrier: 'grpc' | 'http' | 'baggage';
  value: string;
  /** Of several lines, in place of `value`. */
  values?: string[];
  /** The envelope in the message of a gRPC request, which counts alone. */
  field?: string | null;
  attempt: number;
  call?: string;
}

/** A header as Node's server passes it on: one character per byte. */
function header(text: string): string {
  return Buffer.from(text, 'utf8').toString('latin1');
}

/** Envelopes that arrive one after the other. */
function envelope({ trust, now, attempts }: { trust: string; now: number; attempts: Attempt[] }): Json {
  const receiver = Receiver.fixed(TrustSettings.parse(trust));
  const results = attempts.map((one) => {
    const accepted = accept(receiver, now, one);
    return accepted === null || typeof accepted === 'string' ? { error: accepted } : acceptedEnvelope(accepted);
  });
  return { results };
}

function accept(receiver: Receiver, now: number, { carrier, value, values = [value], field, attempt, call }: Attempt) {
  switch (carrier) {
    case 'grpc':
      return receiver.accept(hex(field ?? values[values.length - 1]!), now, attempt);
    case 'http':
      return receiver.acceptHeader(lastValue(values.map(header).join(', ')), now, attempt);
    case 'baggage':
      return call === undefined
        ? receiver.acceptHeader(header(value), now, attempt)
        : receiver.acceptBridged(header(value), CallId.parse(call), now, attempt);
  }
}

function acceptedEnvelope(e: Envelope): Json {
  return {
    trace: e.trace.toString('hex'),
    run: hexOrNull(e.run),
    bridge: e.bridge,
    expires: e.expires,
    key: e.key,
    environment: e.environment,
    history: e.history,
    plan: e.plan && e.plan.map(faultJson),
    call: e.call.toString(),
    accept: [
      ...((e.accept & ACCEPT_FIELD) === 0 ? [] : ['field']),
      ...((e.accept & ACCEPT_TAIL) === 0 ? [] : ['tail']),
    ],
    receive_limit: e.receiveLimit,
    evidence: e.evidence,
  };
}

function faultJson({ maxFires, afterSent, ...same }: Fault): Json {
  return { ...same, max_fires: maxFires, after_counts: afterSent ? 'sent' : 'completed' };
}

function segmentJson(s: Segment, id: CallId): Json {
  return {
    service: s.service,
    name: s.name,
    start_us: s.startUs,
    truncated: s.truncated,
    faults_off: s.faultsOff,
    events: s.events.map((e) => eventJson(e, id)),
  };
}

function eventJson(e: Event, id: CallId): Json {
  const at_us: Uint64 = e.atUs;
  switch (e.kind) {
    case 'SEND_REQUEST': {
      const { kind, call, name, peer, fault } = e;
      const mark = e.inherited ? { inherited: true } : {};
      return { kind, at_us, call, id: id.derive(call).toString(), name, peer, protocol: protocol(e), fault, ...mark };
    }
    case 'SEND_RESPONSE':
      return { kind: e.kind, at_us, status: e.status };
    case 'UNSCOPED_CALLS': {
      const { kind, name, peer, count, site } = e;
      return { kind, at_us, name, peer, protocol: protocol(e), count, site };
    }
    default: {
      const { kind, call, status, gap, child, connectUs } = e;
      const time = connectUs === 0 ? {} : { connect_us: connectUs };
      return { kind, at_us, call, status, gap, child: child && segmentJson(child, id.derive(call)), ...time };
    }
  }
}

function protocol({ http }: { http: boolean }): Protocol {
  return http ? 'http' : 'grpc';
}

interface Reply {
  method: string;
  request_headers: { [name: string]: string };
  status: number;
  headers: { [name: string]: string };
  complete: boolean;
  accept: string[];
  history_bytes: number;
}

function carrier(input: Reply): Json {
  const accept = input.accept.includes('tail') ? ACCEPT_TAIL : 0;
  const headers = (all: { [name: string]: string }): HeaderLookup => {
    const lower = new Map(Object.entries(all).map(([name, value]) => [name.toLowerCase(), value]));
    return (name) => lower.get(name);
  };
  if (input.history_bytes <= MAX_HEADER_BYTES) {
    return { carrier: 'header' };
  }
  const isAllowed =
    input.complete &&
    allowsTail(accept, input.method, headers(input.request_headers), input.status, headers(input.headers));
  return { carrier: isAllowed ? 'tail' : 'truncated_header' };
}

interface HookCall {
  protocol: Protocol;
  fault: { kind: Kind; arg: Uint64 } | null;
  timeout_ms: number | null;
  result: CallResult;
}

/** A call with a fault, from the caller's side. */
function hook(input: HookCall): Json {
  const planned = input.fault && fault(input.fault.kind, { arg: input.fault.arg });
  const before = faultEffect(input.protocol, planned, input.timeout_ms);
  const end = before.sends ? replyEffect(input.protocol, planned, input.result) : unsentEffect(before);
  return {
    sent: before.sends,
    wait_ms: before.waitMs,
    caller: { outcome: end.outcome, status: end.status },
    event: { kind: end.event, status: end.eventStatus, history: before.sends && input.result.history, gap: end.gap },
  };
}
