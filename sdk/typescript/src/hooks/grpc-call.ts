/** One gRPC call of a scope, between the library's channel and its client. */

import type { Call, Scope } from '../scope/scope';
import { within } from '../scope/context';
import { wait } from '../scope/wait';
import { EMPTY } from '../wire/bytes';
import { appendField, corrupt, cutField, fieldLength } from '../wire/carrier';
import { ACCEPT_FIELD } from '../wire/envelope';
import { answers } from '../wire/history';
import { isPiece } from '../wire/piece';
import type { Kind } from '../wire/plan';
import { emptied, isEmpty, withEnvelope } from './grpc-metadata';
import { MAX_MESSAGE_BYTES, Methods } from './grpc-methods';
import { CANCELLED, DEADLINE_EXCEEDED, isReply, Metadata, OK, outcome, Status, take, UNAVAILABLE } from './grpc-status';
import { library, Listener, reportMessage, reportMetadata, reportStatus, Wire } from './grpc-wire';
import type { Loose } from './patch';

/** What a channel leads to. */
export interface Target {
  readonly authority: string;
  /** Its name. */
  readonly peer: string;
  /** Bytes of the largest message it lets through; 0: unknown. */
  readonly receiveLimit: number;
  /** The same for what is sent; Infinity: any. */
  readonly sendLimit: number;
  readonly methods: Methods;
}

/**
 * One call of a scope.
 *
 *   start ──refused (unavailable, status, deadline, reset)──▶ over
 *     │ └──hang, delay──▶ waiting ──time is over──▶ (hang) over, (delay) sent
 *     │                      └──deadline, cancelled──▶ over
 *     └──▶ sent ──status──▶ over
 *
 * If its envelope may go into a field of its message, sending it begins with that message.
 */
export class GrpcCall implements Wire, Listener {
  private call: Call | null = null;
  private listener: Listener | null = null;
  /** The request's metadata as they leave; of a call that is held back, without the envelope. */
  private metadata: Metadata | null = null;
  private sent = false;
  /** Is it held back until its message, whose size decides where the envelope goes? */
  private held = false;
  /** Are the metadata of a call that is held back still the application's? They were empty, and shall leave so. */
  private shared = false;
  /** Was the library to read before it began? */
  private reading = false;
  /** Has the envelope left in a field? */
  private sentField = false;
  private history: Buffer | null = null;
  /** What to do once a delay is over, in order. */
  private waiting: (() => void)[] | null = null;
  private stopWaiting: (() => void) | null = null;
  /** The contexts of messages that wait. */
  private unsent: unknown[] | null = null;
  /** The only reply message of a call with a fault, until it is known how the call ended. */
  private message: Buffer | null = null;
  private altered = false;
  /** Has it sent a message? */
  private begun = false;
  private over = false;
  private readonly library: Wire;

  constructor(
    private readonly scope: Scope,
    private readonly wire: Wire,
    private readonly method: string,
    private readonly target: Target,
    private readonly grpc: Loose,
    private readonly oneReply: boolean,
  ) {
    this.library = library(wire);
  }

  sendMessageWithContext(context: unknown, message: Buffer): void {
    this.sends(false, context);
    if (this.goes(context)) {
      this.pass(context, message);
    } else {
      this.waiting?.push(() => this.pass(context, message));
    }
  }

  private pass(context: unknown, message: Buffer): void {
    if (this.held) {
      message = this.filled(message);
      this.begin();
    }
    this.library.sendMessageWithContext.call(this.wire, context, message);
  }

  /** The message with the envelope behind it, if it may take it along. */
  private filled(message: Buffer): Buffer {
    const { envelope, joiner } = this.call!;
    const bytes = message.length;
    if (joiner !== null || bytes > MAX_MESSAGE_BYTES || bytes + fieldLength(envelope!.length) > this.target.sendLimit) {
      return message;
    }
    this.sentField = true;
    return appendField(message, envelope!);
  }

  halfClose(): void {
    this.sends(true, undefined);
    if (this.goes(undefined)) {
      this.close();
    } else {
      this.waiting?.push(() => this.close());
    }
  }

  private close(): void {
    if (this.held) {
      this.begin();
    }
    this.library.halfClose.call(this.wire);
  }

  startRead(): void {
    if (this.goes(undefined)) {
      this.read();
    } else {
      this.waiting?.push(() => this.read());
    }
  }

  private read(): void {
    if (this.held) {
      this.reading = true;
    } else {
      this.library.startRead.call(this.wire);
    }
  }

  /** Does it go out now? Else it waits, or is dropped. */
  private goes(context: unknown): boolean {
    if (this.waiting !== null) {
      (this.unsent ??= []).push(context);
      return false;
    }
    if (!this.sent) {
      drop(context);
    }
    return this.sent;
  }

  /** A call that is not unary is a stream: its messages tell their writer when they have left, or there are none. */
  private sends(end: boolean, context: unknown): void {
    if (end ? !this.begun : typeof (context as Loose | undefined)?.['callback'] === 'function') {
      this.call?.stream();
    }
    this.begun = true;
  }

  private get kind(): Kind | '' {
    return this.call?.fault?.kind ?? '';
  }

  start(metadata: Metadata, listener: Listener): void {
    this.listener = listener;
    this.metadata = metadata;
    try {
      this.call = this.decide();
      if (this.call !== null) {
        this.held = this.mayFill(this.call);
        // the application may go on with its own before the message comes
        this.shared = this.held && isEmpty(metadata);
        if (!this.shared) {
          this.metadata = this.held ? metadata.clone() : withEnvelope(metadata, this.call, this.scope);
        }
      }
    } catch {
      this.call = null;
      this.held = false;
    }
    switch (this.kind) {
      case 'unavailable':
      case 'status':
      case 'deadline':
      case 'reset':
        this.refuse();
        break;
      case 'hang':
      case 'delay':
        this.waiting = [() => this.send()];
        this.stopWaiting = wait(this.scope.process.receiver, this.call!.fault!, () => this.waited());
        break;
      default:
        this.send();
    }
  }

  private decide(): Call | null {
    const scope = this.scope;
    const limit = this.target.receiveLimit;
    const accept = scope.envelope.history && limit > 0 ? ACCEPT_FIELD : 0;
    const call = scope.send(false, this.target.peer, this.method, accept, accept === 0 ? 0 : limit);
    if (!this.oneReply) {
      call?.stream();
    }
    return call;
  }

  /** May its envelope go into a field of its message? */
  private mayFill(call: Call): boolean {
    const { methods, receiveLimit } = this.target;
    const { history, bridge } = this.scope.envelope;
    return methods.inField(this.method) && this.oneReply && call.envelope !== null && history && !bridge && receiveLimit > 0;
  }

  private send(): void {
    this.sent = true;
    if (!this.held) {
      this.library.start.call(this.wire, this.metadata!, this);
    }
  }

  /** Starts a call that was held back. */
  private begin(): void {
    this.held = false;
    const given = this.shared ? emptied(this.metadata!) : this.metadata!;
    const metadata = this.sentField ? given : withEnvelope(given, this.call!, this.scope);
    this.metadata = null; // the library has its copy
    this.library.start.call(this.wire, metadata, this);
    if (this.reading) {
      this.library.startRead.call(this.wire);
    }
  }

  private waited(): void {
    const steps = this.waiting;
    if (steps === null) {
      return;
    }
    if (this.kind === 'hang') {
      this.cancelWithStatus(DEADLINE_EXCEEDED, 'Deadline exceeded');
      return;
    }
    this.waiting = null;
    within(this.scope, () => steps.forEach((step) => step()));
  }

  private refuse(): void {
    const fault = this.call!.fault!;
    const { code, details } = outcome(fault, this.target.authority);
    if (fault.kind === 'status') {
      this.scope.replied(this.call!, fault.arg, null, false);
    } else {
      this.scope.failed(this.call!, code, null, false);
    }
    this.finish(code, details);
  }

  /** Ends a call that was not sent. */
  private finish(code: number, details: string): void {
    this.over = true;
    this.held = false;
    this.sent = false;
    this.waiting = null;
    this.stopWaiting?.();
    this.unsent?.forEach(drop);
    // the library's own half was never started; this ends its timer and tells nobody
    this.cancel(code, details);
    process.nextTick(() => this.tell({ code, details, metadata: new this.grpc['Metadata']() as Metadata }));
  }

  private tell(status: Status): void {
    if (this.listener !== null) {
      reportStatus(this.scope, this.listener, status);
    }
  }

  private cancel(code: number, details: string): void {
    this.library.cancelWithStatus.call(this.wire, code, details);
  }

  cancelWithStatus(code: number, details: string): void {
    if (this.waiting === null && !this.held) {
      this.cancel(code, details);
      return;
    }
    this.scope.failed(this.call!, code, null, false);
    this.finish(code, details);
  }

  onReceiveMetadata(metadata: Metadata): void {
    reportMetadata(this.scope, this.listener!, metadata);
  }

  onReceiveMessage(bytes: Buffer): void {
    if (this.over) {
      return;
    }
    const { message, history } = cutField(bytes);
    if (history !== null) {
      this.take(history);
    }
    if (this.oneReply && this.call !== null && this.call.fault !== null) {
      this.message = message;
      return;
    }
    if (this.kind === 'lost-reply') {
      this.lose();
      return;
    }
    this.deliver(message);
  }

  private take(history: Buffer): void {
    if (!isPiece(history)) {
      this.history = history;
    } else if (this.call !== null) {
      this.call.stream().add(history);
    }
  }

  private deliver(message: Buffer): void {
    const kind = this.kind;
    if (kind === 'empty-reply' || kind === 'corrupt-reply') {
      this.altered = true;
      message = kind === 'empty-reply' ? EMPTY : corrupt(message);
    }
    reportMessage(this.scope, this.listener!, message);
  }

  /** A stream's reply is lost: the caller sees the connection go, the callee that it was cancelled. */
  private lose(): void {
    this.over = true;
    this.cancel(CANCELLED, 'Connection dropped');
    const history = this.joined();
    this.scope.failed(this.call!, UNAVAILABLE, history, history === null);
    process.nextTick(() => this.tellLost());
  }

  private tellLost(): void {
    this.tell({ ...outcome(this.call!.fault!, this.target.authority), metadata: new this.grpc['Metadata']() as Metadata });
  }

  private joined(): Buffer | null {
    return this.history ?? this.call?.joined() ?? null;
  }

  onReceiveStatus(status: Status): void {
    if (this.over) {
      return;
    }
    this.over = true;
    const trailers = take(status.metadata);
    if (trailers.length > 0) {
      this.take(trailers[trailers.length - 1]!);
    }
    if (this.call === null) {
      this.tell(status);
      return;
    }
    const history = this.joined();
    // a message may have come, even with its history, before this side gave up; a trailer means that the callee has answered
    const answered = trailers.length > 0 || isReply(status.code);
    if (this.oneReply) {
      const own = history !== null && answers(history, this.call.id) ? history : null;
      this.target.methods.ended(this.method, this.sentField, answered, own);
    }
    // of a message that was altered the library complains, not the callee
    const code = this.altered && answered ? OK : status.code;
    if (this.kind === 'lost-reply' && answered) {
      this.scope.failed(this.call, UNAVAILABLE, history, history === null);
      this.tellLost();
      return;
    }
    if (answered) {
      this.scope.replied(this.call, code, history, history === null);
    } else {
      this.scope.failed(this.call, code, history, history === null);
    }
    if (this.message !== null && status.code === OK) {
      this.deliver(this.message);
    }
    this.tell(status);
  }
}

/** A message of a call that is not made: nobody takes it, but its writer may go on. */
function drop(context: unknown): void {
  const written: unknown = (context as Loose | undefined)?.['callback'];
  if (typeof written === 'function') {
    process.nextTick(written as () => void);
  }
}
