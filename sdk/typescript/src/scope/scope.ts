/**
 * A scope: the work of a service to serve one call. It numbers its outgoing calls, decides which planned fault fires at
 * each, and records one segment of the history (3MileBeach §4.2, §4.3).
 *
 * Events are encoded once, when they happen. Histories of callees are appended unchanged and decoded only if the plan
 * has conditions to count. After a scope has finished, it decides, sends and records nothing, so work that outlives its
 * request runs without a scope.
 */

import { performance } from 'node:perf_hooks';
import { increment, truncateUtf8, Uint64, Writer } from '../wire/bytes';
import type { CallId } from '../wire/callid';
import { MAX_TRAILER_BYTES } from '../wire/carrier';
import { assembleEnvelope, Envelope } from '../wire/envelope';
import { CANCELLED } from '../wire/grpc-codes';
import {
  belongsToCall,
  CALL_FAILED,
  FAULTS_OFF,
  HEAD_BYTES,
  MAX_HISTORY_BYTES,
  MAX_HISTORY_EVENTS,
  maxHeadBytes,
  readCounted,
  RECV_RESPONSE,
  SEND_REQUEST,
  SEND_RESPONSE,
  TAG_CHILD,
  TAG_CONNECTED,
  TAG_FAULT,
  TAG_GAP,
  TAG_HTTP,
  TAG_INHERITED,
  TAKES_FIELD,
  TRUNCATED,
  UNSCOPED_CALLS,
  VERSION_1,
  VERSION_2,
  writeHead,
} from '../wire/history';
import { MAX_NAME_BYTES, normalizeHttpName } from '../wire/names';
import { PieceJoiner, PieceWriter } from '../wire/piece';
import { Fault, NO_COUNTERS } from '../wire/plan';
import { Evidence } from './evidence';
import type { Service } from './service';
import { scopeClosed, scopeOpened, UnscopedCall, unscopedSince } from './unscoped';

/** Bytes reserved for the end of a history that approaches the size limit. */
const RESERVED_BYTES = 1024;
/** Different calls without a scope that a segment lists. Further ones are counted together. */
const MAX_UNSCOPED = 16;
/** Stands for the calls without a scope that are not listed. */
const OTHER_CALLS: UnscopedCall = { http: false, peer: 'other', name: 'other', site: '' };

/** The source of a request's envelope: a caller that receives the history, a bridge, or the sampler of this process. */
export type Origin = 'caller' | 'bridge' | 'entry';

/** An outgoing call of a scope. */
export class OutgoingCall {
  /** Whether its end has been recorded. */
  ended = false;
  /** The status of a reply that has started but whose end has not been recorded, else -1. */
  startedStatus = -1;
  /** See `Scope.setConnectTime`. */
  connectUs: Uint64 = 0;
  /** The received pieces, if the call is a stream. */
  joiner: PieceJoiner | null = null;

  constructor(
    /** From 1. */
    readonly number: number,
    readonly id: CallId,
    /** Peer and name, as selectors match them. */
    readonly peer: string,
    readonly name: string,
    /** Index in the plan of the fault that fires, or -1. */
    readonly faultIndex: number,
    /** The fault that fires, or null. */
    readonly fault: Fault | null,
    /** The envelope that the request must carry; null if it would be too large, so that none is sent. */
    readonly envelope: Buffer | null,
    /** Whether its SEND_REQUEST event is in the history. */
    readonly recorded: boolean,
  ) {}

  /** The history that the received pieces of a stream form, or null. */
  joinedHistory(): Buffer | null {
    return this.joiner === null ? null : this.joiner.history(this.id);
  }
}

export class Scope {
  /** Whether the request has been answered. */
  finished = false;
  /** The name of the served call, for a history that is exported. */
  callName = '';
  readonly startUs: Uint64;
  private readonly startMs: number;
  private readonly evidence: Evidence | null;
  private calls: OutgoingCall[] = [];
  private readonly strings: string[] = [];
  private indexes: Map<string, number> | null = null;
  private events: Writer;
  private eventCount = 0;
  private flags = 0;
  private version = VERSION_1;
  private lastUs = 0;
  private pieces: PieceWriter | null = null;
  private readonly unscopedBefore: number;

  /**
   * `hasParent`: the request had a `traceparent`; used for the export only. `startUs`: µs since the epoch; only tests
   * pass it, and they override `now` too.
   */
  constructor(
    readonly service: Service,
    readonly envelope: Envelope,
    readonly origin: Origin = 'caller',
    private readonly hasParent = false,
    startUs?: Uint64,
  ) {
    this.startMs = performance.now();
    this.startUs = startUs ?? wallUs(this.startMs);
    this.unscopedBefore = scopeOpened();
    this.events = spareWriters.pop() ?? new Writer(INITIAL_BYTES);
    this.evidence = envelope.plan === null ? null : new Evidence(envelope.plan, envelope.evidence);
    if (this.evidence !== null) {
      this.checkFaultsEnabled();
    }
  }

  /** Monotonic time since the start, in µs. */
  now(): number {
    return Math.floor((performance.now() - this.startMs) * 1000);
  }

  /** Whether the reply carries the history. */
  get returnsHistory(): boolean {
    return this.origin === 'caller' && this.envelope.history;
  }

  /** Records that further requests of this method may carry their envelopes in a field. */
  announceField(): void {
    this.flags |= TAKES_FIELD;
  }

  /** Whether faults are enabled now. If they are not, the segment records it. */
  private checkFaultsEnabled(): boolean {
    const enabled = this.service.receiver.faultsEnabled();
    if (!enabled) {
      this.flags |= FAULTS_OFF;
    }
    return enabled;
  }

  /**
   * Begins an outgoing call: numbers it, decides which fault fires, and records SEND_REQUEST. `name`: the gRPC method,
   * or the raw "METHOD /path" without query; `peer`: see Service.peerName; `accept`: bits ACCEPT_FIELD and ACCEPT_TAIL;
   * `receiveLimit`: bytes, 0 if unknown. Returns null if the scope has finished; the request then goes out unchanged.
   */
  beginCall(http: boolean, peer: string, name: string, accept: number, receiveLimit: Uint64): OutgoingCall | null {
    return this.begin(SEND_REQUEST, http, peer, name, accept, receiveLimit);
  }

  /** `beginCall` for a call whose context had no scope, and which therefore got that of its task. */
  beginInheritedCall(http: boolean, peer: string, name: string, accept: number, limit: Uint64): OutgoingCall | null {
    return this.begin(SEND_REQUEST | TAG_INHERITED, http, peer, name, accept, limit);
  }

  private begin(
    kind: number,
    http: boolean,
    peer: string,
    name: string,
    accept: number,
    receiveLimit: Uint64,
  ): OutgoingCall | null {
    if (this.finished) {
      return null;
    }
    const number = this.calls.length + 1;
    const id = this.envelope.call.derive(number);
    const evidence = this.evidence;
    let index = -1;
    if (evidence !== null) {
      index = evidence.decideFault(this.service.name, peer, name, this.checkFaultsEnabled());
    }
    const recorded = this.recordRequest(kind, http, peer, name, index);
    let counters = NO_COUNTERS;
    if (evidence !== null) {
      evidence.countPrerequisites(true, this.service.name, peer, name);
      counters = evidence.values();
    }
    const envelope = assembleEnvelope(this.envelope.signedPrefix, id, accept, receiveLimit, counters) ?? null;
    const call = new OutgoingCall(
      number,
      id,
      peer,
      name,
      index,
      index < 0 ? null : evidence!.plan[index]!,
      envelope,
      recorded,
    );
    this.calls.push(call);
    return call;
  }

  private recordRequest(kind: number, http: boolean, peer: string, name: string, index: number): boolean {
    const recordedName = recordable(http ? normalizeHttpName(name) : name);
    const recordedPeer = recordable(peer);
    const previousRecorded = this.calls.length === 0 ? true : this.calls[this.calls.length - 1]!.recorded;
    const tag = kind | (http ? TAG_HTTP : 0) | (index < 0 ? 0 : TAG_FAULT);
    // calls are numbered by position, so no event may follow one that was left out
    if (!previousRecorded || !this.startEvent(tag, 3 * (recordedName.length + recordedPeer.length) + 32)) {
      return false;
    }
    if ((tag & TAG_INHERITED) !== 0) {
      this.version = VERSION_2;
    }
    this.writeReference(recordedName);
    this.writeReference(recordedPeer);
    if (index >= 0) {
      this.events.varint(index);
    }
    return true;
  }

  /**
   * Records that the reply of a call arrived, whatever its status. Only the first end of a call is recorded. A history
   * of another call (which a caching proxy may return) is recorded as a gap. `gap`: without a history, the callee may
   * have run.
   */
  recordReply(call: OutgoingCall, status: Uint64, history: Buffer | null, gap: boolean): void {
    this.recordEnd(RECV_RESPONSE, call, status, history, gap);
  }

  /** Records that a call ended without a reply. `code` is a gRPC code, also for HTTP. */
  recordFailure(call: OutgoingCall, code: Uint64, history: Buffer | null, gap: boolean): void {
    this.recordEnd(CALL_FAILED, call, code, history, gap);
  }

  /** How long a call spent on a connection of its own, in µs. The end of the call records that. */
  setConnectTime(call: OutgoingCall, us: Uint64): void {
    call.connectUs = us;
  }

  /** A reply has begun and its history is still to come. If it never arrives, the end of the scope records a gap. */
  replyStarted(call: OutgoingCall, status: number): void {
    call.startedStatus = status;
  }

  /** The call is a stream, whose history arrives in pieces. */
  openStream(call: OutgoingCall): void {
    call.joiner ??= new PieceJoiner();
  }

  /** A piece of a stream's history arrived. */
  addPiece(call: OutgoingCall, piece: Buffer): void {
    (call.joiner ??= new PieceJoiner()).add(piece);
  }

  private recordEnd(kind: number, call: OutgoingCall, status: Uint64, history: Buffer | null, gap: boolean): void {
    if (this.finished || call.ended) {
      return;
    }
    call.ended = true;
    let child = history !== null && belongsToCall(history, call.id) ? history : null;
    if (history !== null) {
      gap = child === null;
    }
    if (this.evidence !== null && this.evidence.isConditional) {
      if (kind === RECV_RESPONSE) {
        this.evidence.countPrerequisites(false, this.service.name, call.peer, call.name);
      }
      // A history that cannot be read is embedded all the same: the tool reports what is wrong with it. One with too
      // many events is not, since the plan's conditions do not cover it.
      const segment = child === null ? undefined : readCounted(child[0]!, child, HEAD_BYTES);
      if (segment === 'too large') {
        child = null;
        gap = true;
      } else if (segment !== undefined) {
        this.evidence.addHistory(segment);
      }
    }
    if (!call.recorded) {
      this.flags |= TRUNCATED;
      return;
    }
    if (child !== null && this.events.length + child.length > MAX_HISTORY_BYTES - RESERVED_BYTES) {
      child = null;
      gap = true;
      this.flags |= TRUNCATED;
    }
    const hasConnected = call.connectUs !== 0;
    const flags = (child === null ? 0 : TAG_CHILD) | (gap ? TAG_GAP : 0) | (hasConnected ? TAG_CONNECTED : 0);
    if (!this.startEvent(kind | flags, 42)) {
      return;
    }
    this.events.varint(call.number);
    this.events.varint(status);
    if (hasConnected) {
      this.version = VERSION_2;
      this.events.varint(call.connectUs);
    }
    if (child !== null) {
      this.events.varint(child.length - HEAD_BYTES);
      this.events.put(child, HEAD_BYTES);
      this.version = Math.max(this.version, child[0]!);
    }
  }

  /**
   * Records UNSCOPED_CALLS: equal calls together, in the order of the first of each. `more`: number of further calls,
   * of which nothing else is known.
   */
  recordUnscoped(calls: readonly UnscopedCall[], more: Uint64): void {
    if (this.finished) {
      return;
    }
    const counted = new Map<string, { call: UnscopedCall; count: number }>();
    let others = more;
    for (const call of calls) {
      const key = JSON.stringify([call.http, recordable(call.peer), recordable(call.name), recordedSite(call)]);
      const known = counted.get(key);
      if (known !== undefined) {
        known.count++;
      } else if (counted.size < MAX_UNSCOPED) {
        counted.set(key, { call, count: 1 });
      } else {
        others = increment(others);
      }
    }
    for (const { call, count } of counted.values()) {
      this.writeUnscoped(call, count);
    }
    if (others !== 0) {
      this.writeUnscoped(OTHER_CALLS, others);
    }
  }

  private writeUnscoped(call: UnscopedCall, count: Uint64): void {
    const name = recordable(call.name);
    const peer = recordable(call.peer);
    const site = recordedSite(call);
    const tag = UNSCOPED_CALLS | (call.http ? TAG_HTTP : 0);
    if (this.startEvent(tag, 3 * (name.length + peer.length + site.length) + 32)) {
      this.version = VERSION_2;
      this.writeReference(name);
      this.writeReference(peer);
      this.events.varint(count);
      this.events.str(site);
    }
  }

  /**
   * The next piece of the history, to be appended to a reply message of `messageBytes` bytes; null if there is none. A
   * stream ends with `lastPiece`.
   */
  nextPiece(messageBytes: number): Buffer | null {
    if (this.finished || !this.returnsHistory) {
      return null;
    }
    this.pieces ??= new PieceWriter(this.envelope.accept, this.envelope.receiveLimit);
    if (!this.pieces.isDue(this.events.length)) {
      return null;
    }
    return this.pieces.nextPiece(messageBytes, this.head(''), this.events.view());
  }

  /** Ends the scope of a stream and returns the last piece, for the trailer; null if there is none. */
  lastPiece(status: Uint64, name = ''): Buffer | null {
    if (!this.close(status)) {
      return null;
    }
    name = truncateUtf8(name === '' ? this.callName : name, MAX_NAME_BYTES);
    const pieces = this.pieces ?? new PieceWriter(0, 0);
    const last = this.returnsHistory ? pieces.lastPiece(MAX_TRAILER_BYTES, this.head(name), this.events.view()) : null;
    this.release(name);
    return last;
  }

  /**
   * Ends the scope: records SEND_RESPONSE and returns the history for the reply, or null if the reply carries none or
   * the scope has finished before. `name`: this service's name for the call (an HTTP route template); empty if it is
   * the caller's.
   */
  finish(status: Uint64, name = ''): Buffer | null {
    if (!this.close(status)) {
      return null;
    }
    name = truncateUtf8(name === '' ? this.callName : name, MAX_NAME_BYTES);
    const history = this.returnsHistory ? this.write(name) : null;
    this.release(name);
    return history;
  }

  /** Ends the scope without a reply. Nothing is returned or exported. */
  abandon(): void {
    if (!this.finished) {
      this.finished = true;
      scopeClosed();
      recycle(this.events);
    }
  }

  private close(status: Uint64): boolean {
    if (this.finished) {
      return false;
    }
    for (const call of this.calls) {
      if (call.ended) {
        continue;
      }
      if (call.joiner !== null) {
        const history = call.joinedHistory();
        this.recordEnd(CALL_FAILED, call, CANCELLED, history, history === null);
      } else if (call.startedStatus >= 0) {
        this.recordEnd(RECV_RESPONSE, call, call.startedStatus, null, true);
      }
    }
    const { calls, more } = unscopedSince(this.unscopedBefore, (authority) => this.service.peerName(authority));
    this.recordUnscoped(calls, more);
    this.writeTag(SEND_RESPONSE);
    this.events.varint(status);
    this.finished = true;
    scopeClosed();
    return true;
  }

  private release(name: string): void {
    const exporter = this.service.exporter;
    if (this.origin !== 'caller' && this.envelope.history && exporter !== null) {
      exporter.add({ trace: this.envelope.trace, hasParent: this.hasParent, history: this.write(name) });
    }
    this.calls = NO_CALLS; // code that still refers to the scope must not keep their bytes alive
    recycle(this.events);
  }

  private head(name: string): Buffer {
    const service = this.service.name;
    const out = new Writer(maxHeadBytes(service, name));
    writeHead(out, this.version, this.envelope.call, this.flags, service, name, this.startUs);
    return out.view();
  }

  private write(name: string): Buffer {
    const service = this.service.name;
    const out = new Writer(maxHeadBytes(service, name) + this.events.length);
    writeHead(out, this.version, this.envelope.call, this.flags, service, name, this.startUs);
    out.put(this.events.bytes, 0, this.events.length);
    return out.view();
  }

  /**
   * Starts an event of at most `maxBytes` bytes. Beyond the limits of a history it is left out and the segment is
   * marked.
   */
  private startEvent(tag: number, maxBytes: number): boolean {
    if (
      this.events.length + maxBytes > MAX_HISTORY_BYTES - RESERVED_BYTES ||
      this.eventCount >= MAX_HISTORY_EVENTS - 1
    ) {
      this.flags |= TRUNCATED;
      return false;
    }
    this.eventCount++;
    this.writeTag(tag);
    return true;
  }

  private writeTag(tag: number): void {
    const at = this.now();
    const step = at > this.lastUs ? at - this.lastUs : 0;
    this.lastUs += step;
    this.events.u8(tag);
    this.events.varint(step);
  }

  private writeReference(text: string): void {
    const strings = this.strings;
    const index = this.indexes === null ? strings.indexOf(text) : (this.indexes.get(text) ?? -1);
    if (index >= 0) {
      this.events.varint(index + 1);
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
  return text === '' ? 'unknown' : truncateUtf8(text, MAX_NAME_BYTES);
}

function recordedSite(call: UnscopedCall): string {
  return truncateUtf8(call.site, MAX_NAME_BYTES);
}

const NO_CALLS: OutgoingCall[] = [];

/** Writers of finished scopes, for reuse. */
const spareWriters: Writer[] = [];
const INITIAL_BYTES = 512;

function recycle(events: Writer): void {
  if (spareWriters.length < 64 && events.bytes.length <= 64 << 10) {
    events.length = 0;
    spareWriters.push(events);
  }
}

let epochMs = performance.timeOrigin;

/**
 * Converts performance.now() to µs since the epoch. It is finer than Date.now() but must follow changes of the system
 * clock.
 */
function wallUs(nowMs: number): number {
  const drift = Date.now() - (epochMs + nowMs);
  if (drift > 2 || drift < -2) {
    epochMs += drift;
  }
  return Math.floor((epochMs + nowMs) * 1000);
}
