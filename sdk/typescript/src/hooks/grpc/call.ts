/** A gRPC call of a scope, between the library's channel and its client. */

import { withScope } from '../../scope/context';
import { waitForFault } from '../../scope/fault-wait';
import type { OutgoingCall, Scope } from '../../scope/scope';
import { EMPTY } from '../../wire/bytes';
import { appendField, corruptBody, cutField, fieldLength } from '../../wire/carrier';
import { ACCEPT_FIELD } from '../../wire/envelope';
import { CANCELLED, OK } from '../../wire/grpc-codes';
import { belongsToCall } from '../../wire/history';
import { isPiece } from '../../wire/piece';
import { CallEffect, FaultEffect, faultEffect, NO_EFFECT, replyEffect, unsentEffect } from '../faults';
import type { Loose } from '../patch';
import { recordEffect } from '../record';
import { LibraryCall, Listener, originalMethods, reportMessage, reportMetadata, reportStatus } from './intercept';
import { clearedMetadata, isEmpty, withEnvelope } from './metadata';
import { MAX_MESSAGE_BYTES, MethodCarriers } from './method-carriers';
import { faultStatus, isReply, Metadata, Status, takeOwnValues } from './status';

/** The peer of a channel. */
export interface ChannelTarget {
  readonly authority: string;
  /** The peer's name. */
  readonly peer: string;
  /** The largest message that can be received, in bytes; 0: unknown. */
  readonly receiveLimit: number;
  /** The largest message that can be sent, in bytes; Infinity: no limit. */
  readonly sendLimit: number;
  readonly carriers: MethodCarriers;
}

/**
 * A call of a scope.
 *
 *   start ──fault without a wait, not sent──▶ finished
 *     │ └──fault with a wait──▶ waiting ──wait ended──▶ finished, or sent
 *     │                            └──deadline, canceled──▶ finished
 *     └──▶ sent ──status──▶ finished
 *
 * If the envelope may go into a field of the message, the call is held until its message arrives.
 */
export class GrpcCall implements LibraryCall, Listener {
  private call: OutgoingCall | null = null;
  private effect: FaultEffect = NO_EFFECT;
  private listener: Listener | null = null;
  /** The outgoing metadata; without the envelope while the call is held. */
  private metadata: Metadata | null = null;
  /** Whether operations pass to the library. Before that they are postponed, or dropped if the call is not made. */
  private isSent = false;
  /** Whether the call waits for its message, whose size decides the carrier of the envelope. */
  private isHeld = false;
  /** Whether `metadata` is the application's own object. It was empty when the call started and must be sent empty. */
  private sharesMetadata = false;
  /** Whether the client requested a read while the call was held. */
  private readRequested = false;
  /** Whether the envelope was sent in a field. */
  private envelopeInField = false;
  private history: Buffer | null = null;
  /** Operations postponed by a delay, in order. */
  private postponed: (() => void)[] | null = null;
  private cancelWait: (() => void) | null = null;
  /** The contexts of postponed messages. */
  private postponedContexts: unknown[] | null = null;
  /** The only reply message of a call with a fault, kept until the status arrives. */
  private heldReply: Buffer | null = null;
  private isAltered = false;
  private hasSentMessage = false;
  private isFinished = false;
  private readonly library: LibraryCall;

  constructor(
    private readonly scope: Scope,
    private readonly libraryCall: LibraryCall,
    private readonly method: string,
    private readonly target: ChannelTarget,
    private readonly grpc: Loose,
    private readonly hasOneReply: boolean,
  ) {
    this.library = originalMethods(libraryCall);
  }

  sendMessageWithContext(context: unknown, message: Buffer): void {
    this.detectStream(false, context);
    if (this.isSent) {
      this.passMessage(context, message);
    } else if (this.postponed !== null) {
      this.postponed.push(() => this.passMessage(context, message));
      (this.postponedContexts ??= []).push(context);
    } else {
      dropMessage(context);
    }
  }

  private passMessage(context: unknown, message: Buffer): void {
    if (this.isHeld) {
      message = this.appendEnvelope(message);
      this.startHeld();
    }
    this.library.sendMessageWithContext.call(this.libraryCall, context, message);
  }

  /** The message with the envelope appended, if it may carry it. */
  private appendEnvelope(message: Buffer): Buffer {
    const { envelope, joiner } = this.call!;
    const bytes = message.length;
    if (joiner !== null || bytes > MAX_MESSAGE_BYTES || bytes + fieldLength(envelope!.length) > this.target.sendLimit) {
      return message;
    }
    this.envelopeInField = true;
    return appendField(message, envelope!);
  }

  halfClose(): void {
    this.detectStream(true, undefined);
    if (this.isSent) {
      this.passHalfClose();
    } else {
      this.postponed?.push(() => this.passHalfClose());
    }
  }

  private passHalfClose(): void {
    if (this.isHeld) {
      this.startHeld();
    }
    this.library.halfClose.call(this.libraryCall);
  }

  startRead(): void {
    if (this.isSent) {
      this.passRead();
    } else {
      this.postponed?.push(() => this.passRead());
    }
  }

  private passRead(): void {
    if (this.isHeld) {
      this.readRequested = true;
    } else {
      this.library.startRead.call(this.libraryCall);
    }
  }

  /** A request stream is recognized by its messages, which have a write callback, or by having no message at all. */
  private detectStream(isEnd: boolean, context: unknown): void {
    const isStream = isEnd ? !this.hasSentMessage : typeof (context as Loose | undefined)?.['callback'] === 'function';
    if (isStream && this.call !== null) {
      this.scope.openStream(this.call);
    }
    this.hasSentMessage = true;
  }

  start(metadata: Metadata, listener: Listener): void {
    this.listener = listener;
    this.metadata = metadata;
    try {
      this.call = this.beginCall();
      if (this.call !== null) {
        this.effect = faultEffect('grpc', this.call.fault, null);
        this.isHeld = this.mayUseField(this.call);
        // the application may change its own metadata before the message arrives
        this.sharesMetadata = this.isHeld && isEmpty(metadata);
        if (!this.sharesMetadata) {
          this.metadata = this.isHeld ? metadata.clone() : withEnvelope(metadata, this.call, this.scope);
        }
      }
    } catch {
      this.call = null;
      this.effect = NO_EFFECT;
      this.isHeld = false;
    }
    const { waitMs, sends } = this.effect;
    if (waitMs > 0) {
      this.postponed = [() => this.send()];
      this.cancelWait = waitForFault(this.scope.service.receiver, waitMs, () => this.waitEnded());
    } else if (sends) {
      this.send();
    } else {
      this.simulate();
    }
  }

  private beginCall(): OutgoingCall | null {
    const scope = this.scope;
    const limit = this.target.receiveLimit;
    const accept = scope.envelope.history && limit > 0 ? ACCEPT_FIELD : 0;
    const call = scope.beginCall(false, this.target.peer, this.method, accept, accept === 0 ? 0 : limit);
    if (call !== null && !this.hasOneReply) {
      scope.openStream(call);
    }
    return call;
  }

  /** Whether the envelope may go into a field of the message. */
  private mayUseField(call: OutgoingCall): boolean {
    const { carriers, receiveLimit } = this.target;
    const { history, bridge } = this.scope.envelope;
    return (
      carriers.usesField(this.method) &&
      this.hasOneReply &&
      call.envelope !== null &&
      history &&
      !bridge &&
      receiveLimit > 0
    );
  }

  private send(): void {
    this.isSent = true;
    if (!this.isHeld) {
      this.library.start.call(this.libraryCall, this.metadata!, this);
    }
  }

  /** Starts a held call. */
  private startHeld(): void {
    this.isHeld = false;
    const original = this.sharesMetadata ? clearedMetadata(this.metadata!) : this.metadata!;
    const metadata = this.envelopeInField ? original : withEnvelope(original, this.call!, this.scope);
    this.metadata = null; // the library has its own copy
    this.library.start.call(this.libraryCall, metadata, this);
    if (this.readRequested) {
      this.library.startRead.call(this.libraryCall);
    }
  }

  private waitEnded(): void {
    const operations = this.postponed;
    if (operations === null) {
      return;
    }
    if (!this.effect.sends) {
      this.simulate();
      return;
    }
    this.postponed = null;
    withScope(this.scope, () => operations.forEach((operation) => operation()));
  }

  /** Ends a call that is not sent, with the outcome of its fault. */
  private simulate(): void {
    recordEffect(this.scope, this.call!, unsentEffect(this.effect), null);
    const { code, details } = faultStatus(this.effect, this.target.authority);
    this.finishUnsent(code, details);
  }

  /** Ends a call that has not been sent. */
  private finishUnsent(code: number, details: string): void {
    this.isFinished = true;
    this.isHeld = false;
    this.isSent = false;
    this.postponed = null;
    this.cancelWait?.();
    this.postponedContexts?.forEach(dropMessage);
    // the library's own call was never started; this stops its deadline timer and reports nothing
    this.cancelLibraryCall(code, details);
    process.nextTick(() => this.report({ code, details, metadata: new this.grpc['Metadata']() as Metadata }));
  }

  private report(status: Status): void {
    if (this.listener !== null) {
      reportStatus(this.scope, this.listener, status);
    }
  }

  private cancelLibraryCall(code: number, details: string): void {
    this.library.cancelWithStatus.call(this.libraryCall, code, details);
  }

  cancelWithStatus(code: number, details: string): void {
    if (this.postponed === null && !this.isHeld) {
      this.cancelLibraryCall(code, details);
      return;
    }
    this.scope.recordFailure(this.call!, code, null, false);
    this.finishUnsent(code, details);
  }

  onReceiveMetadata(metadata: Metadata): void {
    reportMetadata(this.scope, this.listener!, metadata);
  }

  onReceiveMessage(bytes: Buffer): void {
    if (this.isFinished) {
      return;
    }
    const { message, history } = cutField(bytes);
    if (history !== null) {
      this.takeHistory(history);
    }
    if (this.hasOneReply && this.call !== null && this.call.fault !== null) {
      this.heldReply = message;
    } else if (this.effect.outcome === 'lost') {
      this.loseStream();
    } else {
      this.deliver(message, this.effect.outcome);
    }
  }

  private takeHistory(history: Buffer): void {
    if (!isPiece(history)) {
      this.history = history;
    } else if (this.call !== null) {
      this.scope.addPiece(this.call, history);
    }
  }

  private deliver(message: Buffer, outcome: FaultEffect['outcome'] | CallEffect['outcome']): void {
    if (outcome === 'empty' || outcome === 'corrupt') {
      this.isAltered = true;
      message = outcome === 'empty' ? EMPTY : corruptBody(message);
    }
    reportMessage(this.scope, this.listener!, message);
  }

  /**
   * Loses the reply of a stream at its first message: the client gets a broken connection, the callee a cancellation.
   */
  private loseStream(): void {
    this.isFinished = true;
    this.cancelLibraryCall(CANCELLED, 'Connection dropped');
    const history = this.receivedHistory();
    recordEffect(
      this.scope,
      this.call!,
      replyEffect('grpc', this.call!.fault, { status: OK, history: history !== null }),
      history,
    );
    process.nextTick(() => this.reportLost());
  }

  private reportLost(): void {
    this.report({
      ...faultStatus(this.effect, this.target.authority),
      metadata: new this.grpc['Metadata']() as Metadata,
    });
  }

  private receivedHistory(): Buffer | null {
    return this.history ?? this.call?.joinedHistory() ?? null;
  }

  onReceiveStatus(status: Status): void {
    if (this.isFinished) {
      return;
    }
    this.isFinished = true;
    const trailers = takeOwnValues(status.metadata);
    if (trailers.length > 0 && this.history === null) {
      this.takeHistory(trailers[trailers.length - 1]!); // the last value counts, as for requests
    }
    if (this.call === null) {
      this.report(status);
      return;
    }
    const history = this.receivedHistory();
    // a history in a message does not prove a reply, because the client may have canceled afterwards; a trailer does
    const isAnswered = trailers.length > 0 || isReply(status.code);
    if (this.hasOneReply) {
      const own = history !== null && belongsToCall(history, this.call.id) ? history : null;
      this.target.carriers.callEnded(this.method, this.envelopeInField, isAnswered, own);
    }
    const hasHistory = history !== null;
    // the status of a call whose message was altered comes from the library, not from the callee
    const result = isAnswered
      ? { status: this.isAltered ? OK : status.code, history: hasHistory }
      : { failed: status.code, history: hasHistory };
    const effect = replyEffect('grpc', this.call.fault, result);
    recordEffect(this.scope, this.call, effect, history);
    if (effect.outcome === 'reset') {
      this.reportLost();
      return;
    }
    if (this.heldReply !== null && status.code === OK) {
      this.deliver(this.heldReply, effect.outcome);
    }
    this.report(status);
  }
}

/** Drops a message of a call that is not made; its writer may continue. */
function dropMessage(context: unknown): void {
  const callback: unknown = (context as Loose | undefined)?.['callback'];
  if (typeof callback === 'function') {
    process.nextTick(callback as () => void);
  }
}
