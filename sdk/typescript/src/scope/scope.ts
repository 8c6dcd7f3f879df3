/**
 * A scope: the work a service does to answer one call. It numbers the calls sent, decides which planned fault fires at each,
 * and records one segment of the history (3MileBeach §4.2, §4.3).
 *
 * Events are written once, as they happen, in their final form; histories of callees are appended as they came and are looked
 * into only if a plan has conditions to count. A scope that has answered is *over*: it decides, sends and records nothing any
 * more, so work that outlives its request runs as if it had no scope.
 */

import { performance } from 'node:perf_hooks';
import { cut, Whole, Writer } from '../wire/bytes';
import type { CallId } from '../wire/callid';
import { MAX_TRAILER_BYTES } from '../wire/carrier';
import { encodeEnvelope, Envelope } from '../wire/envelope';
import {
  answers,
  CALL_FAILED,
  CHILD_FLAG,
  FAULT_FLAG,
  FAULTS_OFF,
  GAP_FLAG,
  HEAD_BYTES,
  headRoom,
  HTTP_FLAG,
  MAX_HISTORY_BYTES,
  MAX_HISTORY_EVENTS,
  readSegment,
  RECV_RESPONSE,
  SEND_REQUEST,
  SEND_RESPONSE,
  TAKES_FIELD,
  TRUNCATED,
  writeHead,
} from '../wire/history';
import { MAX_NAME_BYTES, normalHttpName } from '../wire/names';
import { Joiner, Pieces } from '../wire/piece';
import { Fault, NO_COUNTERS } from '../wire/plan';
import { Evidence } from './evidence';
import type { Process } from './process';

/** Left for the end of a history that would become too large to be read. */
const ROOM = 1024;

/** gRPC's CANCELLED. */
const CANCELLED = 1;

/** How a request came to its scope: from a caller that takes the history back, over a bridge, or drawn at the entry. */
export type Origin = 'caller' | 'bridge' | 'entry';

/** One call that was sent. */
export class Call {
  /** Has its end been recorded? */
  ended = false;
  /** Of a reply that has begun, else -1. */
  begun = -1;
  /** Of a stream: the pieces that came. */
  joiner: Joiner | null = null;

  constructor(
    /** From 1. */
    readonly number: number,
    readonly id: CallId,
    /** As selectors see them. */
    readonly peer: string,
    readonly name: string,
    /** Index in the plan of the fault that fires, or -1. */
    readonly faultIndex: number,
    /** Null: none fires. */
    readonly fault: Fault | null,
    /** What the request must carry; null: it would be too large, nothing is sent. */
    readonly envelope: Buffer | null,
    /** Is its send recorded? */
    readonly recorded: boolean,
  ) {}

  /** Makes it a stream, whose history comes in pieces. */
  stream(): Joiner {
    return (this.joiner ??= new Joiner());
  }

  /** The history that the pieces of a stream made so far, or null. */
  joined(): Buffer | null {
    return this.joiner === null ? null : this.joiner.finish(this.id).history;
  }
}

export class Scope {
  /** Has it answered? */
  over = false;
  /** The call's name where the history has no caller that names it. */
  called = '';
  readonly startUs: Whole;
  private readonly startMs: number;
  private readonly evidence: Evidence | null;
  private sent: Call[] = [];
  private readonly strings: string[] = [];
  private indexes: Map<string, number> | null = null;
  private events: Writer;
  private eventCount = 0;
  private flags = 0;
  private lastUs = 0;
  private pieces: Pieces | null = null;

  /**
   * `hasParent`: the request came with a `traceparent`; only what is exported tells it. `startUs`: µs since the epoch, given by
   * tests only; `now` is then theirs as well.
   */
  constructor(
    readonly process: Process,
    readonly envelope: Envelope,
    readonly origin: Origin = 'caller',
    private readonly hasParent = false,
    startUs?: Whole,
  ) {
    this.startMs = performance.now();
    this.startUs = startUs ?? wallUs(this.startMs);
    this.events = recordings.pop() ?? new Writer(RECORDING_BYTES);
    this.evidence = envelope.plan === null ? null : new Evidence(envelope.plan, envelope.evidence);
    if (this.evidence !== null) {
      this.faultsOn();
    }
  }

  /** µs since the start, by the monotonic clock. */
  now(): number {
    return Math.floor((performance.now() - this.startMs) * 1000);
  }

  /** Does the reply bring the history back? */
  get returnsHistory(): boolean {
    return this.origin === 'caller' && this.envelope.history;
  }

  /** Notes that further requests of this method may have their envelopes in a field. */
  takesField(): void {
    this.flags |= TAKES_FIELD;
  }

  /** Reads the switch; that it was off once stays on record. */
  private faultsOn(): boolean {
    const on = this.process.receiver.faultsOn();
    if (!on) {
      this.flags |= FAULTS_OFF;
    }
    return on;
  }

  /**
   * Decides about one send and records it. `name`: the gRPC method, or the raw "METHOD /path" without query; `peer`: see
   * Process.peer; `receiveLimit`: bytes, 0 if unknown. Null if the scope is over: then the request goes out as if there were none.
   */
  send(http: boolean, peer: string, name: string, accept: number, receiveLimit: Whole): Call | null {
    if (this.over) {
      return null;
    }
    const number = this.sent.length + 1;
    const id = this.envelope.call.derive(number);
    const evidence = this.evidence;
    let index = -1;
    if (evidence !== null) {
      index = evidence.decide(this.process.service, peer, name, this.faultsOn());
    }
    const recorded = this.recordSend(http, peer, name, index);
    let counters = NO_COUNTERS;
    if (evidence !== null) {
      evidence.count(true, this.process.service, peer, name);
      counters = evidence.hop();
    }
    const envelope = encodeEnvelope(this.envelope.passedOn, id, accept, receiveLimit, counters) ?? null;
    const call = new Call(number, id, peer, name, index, index < 0 ? null : evidence!.plan[index]!, envelope, recorded);
    this.sent.push(call);
    return call;
  }

  private recordSend(http: boolean, peer: string, name: string, index: number): boolean {
    const shown = recordable(http ? normalHttpName(name) : name);
    const shownPeer = recordable(peer);
    const before = this.sent.length === 0 ? true : this.sent[this.sent.length - 1]!.recorded;
    const tag = SEND_REQUEST | (http ? HTTP_FLAG : 0) | (index < 0 ? 0 : FAULT_FLAG);
    // calls are numbered by position: after one that had no room, none may follow
    if (!before || !this.event(tag, 3 * (shown.length + shownPeer.length) + 32)) {
      return false;
    }
    this.reference(shown);
    this.reference(shownPeer);
    if (index >= 0) {
      this.events.varint(index);
    }
    return true;
  }

  /**
   * Records that a call's reply arrived, of whatever status. A history is taken once per call and only if it answers this
   * call: somebody else's (a caching proxy hands such back) is a gap. `gap`, without a history: the callee may have run.
   */
  replied(call: Call, status: Whole, history: Buffer | null, gap: boolean): void {
    this.end(RECV_RESPONSE, call, status, history, gap);
  }

  /** Records that a call ended without a reply. `code` is a gRPC code, for HTTP too. */
  failed(call: Call, code: Whole, history: Buffer | null, gap: boolean): void {
    this.end(CALL_FAILED, call, code, history, gap);
  }

  /** Notes that a reply has begun whose history is still to come. If it never does, that is a gap. */
  begun(call: Call, status: number): void {
    call.begun = status;
  }

  private end(kind: number, call: Call, status: Whole, history: Buffer | null, gap: boolean): void {
    if (this.over || call.ended) {
      return;
    }
    call.ended = true;
    let child = history !== null && answers(history, call.id) ? history : null;
    if (history !== null) {
      gap = child === null;
    }
    if (this.evidence !== null && this.evidence.learns) {
      if (kind === RECV_RESPONSE) {
        this.evidence.count(false, this.process.service, call.peer, call.name);
      }
      if (child !== null) {
        const segment = readSegment(child, HEAD_BYTES);
        if (segment !== undefined) {
          this.evidence.walk(segment);
        } // else it is embedded all the same: that the whole cannot be read tells more than a gap
      }
    }
    if (!call.recorded) {
      this.flags |= TRUNCATED;
      return;
    }
    if (child !== null && this.events.length + child.length > MAX_HISTORY_BYTES - ROOM) {
      child = null;
      gap = true;
      this.flags |= TRUNCATED;
    }
    if (!this.event(kind | (child === null ? 0 : CHILD_FLAG) | (gap ? GAP_FLAG : 0), 32)) {
      return;
    }
    this.events.varint(call.number);
    this.events.varint(status);
    if (child !== null) {
      this.events.varint(child.length - HEAD_BYTES);
      this.events.put(child, HEAD_BYTES);
    }
  }

  /**
   * What a stream's reply message of that many bytes takes along, to be appended as its field; null if nothing. Streams end
   * with `finishStream`.
   */
  message(bytes: number): Buffer | null {
    if (this.over || !this.returnsHistory) {
      return null;
    }
    this.pieces ??= new Pieces(this.envelope.accept, this.envelope.receiveLimit);
    if (!this.pieces.due(this.events.length)) {
      return null;
    }
    return this.pieces.message(bytes, this.head(''), this.events.view());
  }

  /** Ends the scope of a stream; what is returned goes into the trailer, null: nothing does. */
  finishStream(status: Whole, name = ''): Buffer | null {
    if (!this.close(status)) {
      return null;
    }
    name = cut(name === '' ? this.called : name, MAX_NAME_BYTES);
    const pieces = this.pieces ?? new Pieces(0, 0);
    const last = this.returnsHistory ? pieces.last(MAX_TRAILER_BYTES, this.head(name), this.events.view()) : null;
    this.release(name);
    return last;
  }

  /**
   * Ends the scope and returns the history that the reply is to carry; null if it is to carry none, or was over already.
   * `name`: the call as this service knows it (an HTTP route template), or empty: the same as the caller's.
   */
  finish(status: Whole, name = ''): Buffer | null {
    if (!this.close(status)) {
      return null;
    }
    name = cut(name === '' ? this.called : name, MAX_NAME_BYTES);
    const history = this.returnsHistory ? this.write(name) : null;
    this.release(name);
    return history;
  }

  /** Ends the scope without an answer: nothing is returned and nothing exported. */
  abandon(): void {
    if (!this.over) {
      this.over = true;
      recycle(this.events);
    }
  }

  private close(status: Whole): boolean {
    if (this.over) {
      return false;
    }
    for (const call of this.sent) {
      if (call.ended) {
        continue;
      }
      if (call.joiner !== null) {
        const history = call.joined();
        this.end(CALL_FAILED, call, CANCELLED, history, history === null);
      } else if (call.begun >= 0) {
        this.end(RECV_RESPONSE, call, call.begun, null, true);
      }
    }
    this.time(SEND_RESPONSE);
    this.events.varint(status);
    this.over = true;
    return true;
  }

  private release(name: string): void {
    const exporter = this.process.exporter;
    if (this.origin !== 'caller' && this.envelope.history && exporter !== null) {
      exporter.add({ trace: this.envelope.trace, hasParent: this.hasParent, history: this.write(name) });
    }
    this.sent = NO_CALLS; // what still refers to the scope need not keep their bytes
    recycle(this.events);
  }

  private head(name: string): Buffer {
    const service = this.process.service;
    const out = new Writer(headRoom(service, name));
    writeHead(out, this.envelope.call, this.flags, service, name, this.startUs);
    return out.view();
  }

  private write(name: string): Buffer {
    const service = this.process.service;
    const out = new Writer(headRoom(service, name) + this.events.length);
    writeHead(out, this.envelope.call, this.flags, service, name, this.startUs);
    out.put(this.events.bytes, 0, this.events.length);
    return out.view();
  }

  /** Starts an event, unless the history would become unreadable: then it is left out and the segment says so. */
  private event(tag: number, room: number): boolean {
    if (this.events.length + room > MAX_HISTORY_BYTES - ROOM || this.eventCount >= MAX_HISTORY_EVENTS - 1) {
      this.flags |= TRUNCATED;
      return false;
    }
    this.eventCount++;
    this.time(tag);
    return true;
  }

  private time(tag: number): void {
    const at = this.now();
    const step = at > this.lastUs ? at - this.lastUs : 0;
    this.lastUs += step;
    this.events.u8(tag);
    this.events.varint(step);
  }

  private reference(text: string): void {
    const strings = this.strings;
    const known = this.indexes === null ? strings.indexOf(text) : (this.indexes.get(text) ?? -1);
    if (known >= 0) {
      this.events.varint(known + 1);
      return;
    }
    strings.push(text);
    if (this.indexes !== null) {
      this.indexes.set(text, strings.length - 1);
    } else if (strings.length > 16) {
      this.indexes = new Map(strings.map((one, i) => [one, i]));
    }
    this.events.u8(0);
    this.events.str(text);
  }
}

function recordable(text: string): string {
  return text === '' ? 'unknown' : cut(text, MAX_NAME_BYTES);
}

const NO_CALLS: Call[] = [];

/** What scopes recorded into, to be used again. */
const recordings: Writer[] = [];
const RECORDING_BYTES = 512;

function recycle(events: Writer): void {
  if (recordings.length < 64 && events.bytes.length <= 64 << 10) {
    events.length = 0;
    recordings.push(events);
  }
}

let epochMs = performance.timeOrigin;

/** µs since the epoch at a moment of performance.now(), which is finer than Date's but knows nothing of clocks being set. */
function wallUs(nowMs: number): number {
  const drift = Date.now() - (epochMs + nowMs);
  if (drift > 2 || drift < -2) {
    epochMs += drift;
  }
  return Math.floor((epochMs + nowMs) * 1000);
}
