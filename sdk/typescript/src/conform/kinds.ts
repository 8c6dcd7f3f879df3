/** What each kind of vector asks for: its input in, its result out. spec/README.md describes both. */

import { parseSettings } from '../trust/settings';
import { Receiver } from '../trust/receiver';
import { baggageOut, bridgeIn, parseTraceparent, traceparentOut } from '../wire/bridge';
import { Whole } from '../wire/bytes';
import { CallId } from '../wire/callid';
import { appendField, Carried, corrupt, cutField, cutTail, encodeTail, Headers, MAX_HEADER_BYTES, mayTail } from '../wire/carrier';
import { ACCEPT_FIELD, ACCEPT_TAIL, Envelope, HTTP_HEADER } from '../wire/envelope';
import { Event, readHistory, Segment, takesField } from '../wire/history';
import { normalHttpName, rawHttpName } from '../wire/names';
import { resourceSpans } from '../wire/otlp';
import { Joiner } from '../wire/piece';
import { Fault } from '../wire/plan';
import { matches, Selector } from '../wire/selector';
import { truncate } from '../wire/truncate';
import type { Json } from './json';
import { scope } from './steps';

/** The result of a vector. Throws for a kind that is not known here. */
export function result(kind: string, input: Json): Json {
  const play = kinds[kind];
  if (play === undefined) {
    throw new Error(`unknown vector kind ${kind}`);
  }
  return play(input as never);
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
    return typeof history === 'string' ? { error: history } : { call: history.call.toString(), segment: segment(history.segment, history.call) };
  },
  truncate: (input: { history: string; limit: number }) => ({ history: orNull(truncate(hex(input.history), input.limit)) }),
  field: ({ message, history }: Message) => ({ bytes: appendField(hex(message), hex(history)).toString('hex') }),
  cut_field: ({ bytes }: Bytes) => carried(cutField(hex(bytes))),
  takes_field: ({ history }: { history: string }) => ({ takes_field: takesField(hex(history)) }),
  tail: ({ message, history }: Message) => ({ bytes: message + encodeTail(hex(history)).toString('hex') }),
  cut_tail: ({ bytes }: Bytes) => carried(cutTail(hex(bytes))),
  match: ({ pairs }: { pairs: { selector: Selector; caller: string; peer: string; name: string }[] }) => ({
    matches: pairs.map((pair) => matches(pair.selector, pair.caller, pair.peer, pair.name)),
  }),
  name: ({ requests }: { requests: { method: string; target: string }[] }) => ({
    names: requests.map(({ method, target }) => normalHttpName(rawHttpName(method, target))),
  }),
  carrier,
  call_id: ({ parent, numbers }: { parent: string; numbers: number[] }) => ({
    ids: numbers.map((n) => CallId.parse(parent).derive(n).toString()),
  }),
  join: ({ call, pieces }: { call: string; pieces: string[] }) => {
    const joiner = new Joiner();
    pieces.forEach((piece) => joiner.add(hex(piece)));
    const { history, complete } = joiner.finish(CallId.parse(call));
    return { history: orNull(history), complete };
  },
  bridge_out: (input: { envelope: string; trace: string; call: string; headers: { [name: string]: string } }) => ({
    headers: {
      traceparent: traceparentOut(input.headers['traceparent'], hex(input.trace), CallId.parse(input.call)),
      baggage: baggageOut(input.headers['baggage'], hex(input.envelope)),
    },
  }),
  bridge_in: ({ headers }: { headers: { [name: string]: string } }) => {
    const own = headers[HTTP_HEADER];
    const bridged = own === undefined ? bridgeIn(headers['traceparent'], headers['baggage']) : null;
    return {
      carrier: own !== undefined ? 'own' : bridged !== null ? 'baggage' : 'none',
      envelope: own ?? bridged?.envelope ?? null,
      call: bridged?.traceparent.parent.toString() ?? null,
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
    return typeof history === 'string' ? { error: 'malformed' } : { resourceSpans: resourceSpans(hex(input.trace), input.has_parent, history) };
  },
  corrupt: ({ bytes }: Bytes) => ({ bytes: corrupt(hex(bytes)).toString('hex') }),
};

export function hex(text: string): Buffer {
  return Buffer.from(text, 'hex');
}

export function orNull(bytes: Buffer | null): string | null {
  return bytes === null ? null : bytes.toString('hex');
}

function carried({ message, history }: Carried): Json {
  return { message: message.toString('hex'), history: orNull(history) };
}

interface Attempt {
  carrier: 'grpc' | 'http' | 'baggage';
  value: string;
  attempt: number;
  call?: string;
}

/** Envelopes handed in one after the other. */
/** A header's bytes as servers hand them over: a character each. */
function header(text: string): string {
  return Buffer.from(text, 'utf8').toString('latin1');
}

function envelope({ trust, now, attempts }: { trust: string; now: number; attempts: Attempt[] }): Json {
  const receiver = Receiver.fixed(parseSettings(trust));
  const results = attempts.map(({ carrier, value, attempt, call }) => {
    const bridged = carrier === 'baggage' && call !== undefined ? CallId.parse(call) : undefined;
    const accepted =
      carrier === 'grpc' ? receiver.accept(hex(value), now, attempt) : receiver.acceptHeader(header(value), now, attempt, bridged);
    return accepted === null || typeof accepted === 'string' ? { error: accepted } : acceptedEnvelope(accepted);
  });
  return { results };
}

function acceptedEnvelope(e: Envelope): Json {
  return {
    trace: e.trace.toString('hex'),
    run: orNull(e.run),
    bridge: e.bridge,
    expires: e.expires,
    key: e.key,
    environment: e.environment,
    history: e.history,
    plan: e.plan && e.plan.map(fault),
    call: e.call.toString(),
    accept: [...((e.accept & ACCEPT_FIELD) === 0 ? [] : ['field']), ...((e.accept & ACCEPT_TAIL) === 0 ? [] : ['tail'])],
    receive_limit: e.receiveLimit,
    evidence: e.evidence,
  };
}

function fault({ maxFires, afterSent, ...same }: Fault): Json {
  return { ...same, max_fires: maxFires, after_counts: afterSent ? 'sent' : 'completed' };
}

function segment(s: Segment, id: CallId): Json {
  return {
    service: s.service,
    name: s.name,
    start_us: s.startUs,
    truncated: s.truncated,
    faults_off: s.faultsOff,
    events: s.events.map((e) => event(e, id)),
  };
}

function event(e: Event, id: CallId): Json {
  const at_us: Whole = e.atUs;
  switch (e.kind) {
    case 'SEND_REQUEST': {
      const { kind, call, name, peer, http, fault } = e;
      return { kind, at_us, call, id: id.derive(call).toString(), name, peer, protocol: http ? 'http' : 'grpc', fault };
    }
    case 'SEND_RESPONSE':
      return { kind: e.kind, at_us, status: e.status };
    default: {
      const { kind, call, status, gap, child } = e;
      return { kind, at_us, call, status, gap, child: child && segment(child, id.derive(call)) };
    }
  }
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
  const headers = (all: { [name: string]: string }): Headers => {
    const lower = new Map(Object.entries(all).map(([name, value]) => [name.toLowerCase(), value]));
    return (name) => lower.get(name);
  };
  if (input.history_bytes <= MAX_HEADER_BYTES) {
    return { carrier: 'header' };
  }
  const may = input.complete && mayTail(accept, input.method, headers(input.request_headers), input.status, headers(input.headers));
  return { carrier: may ? 'tail' : 'truncated_header' };
}
