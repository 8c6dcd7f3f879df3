/** A request of Node's HTTP client in a scope, from its sending to its reply or failure. */

import type { ClientRequest, IncomingMessage } from 'node:http';
import type { Socket } from 'node:net';
import { withScope } from '../../scope/context';
import type { OutgoingCall, Scope } from '../../scope/scope';
import { CANCELLED, DEADLINE_EXCEEDED } from '../../wire/grpc-codes';
import { FaultEffect, replyEffect, unsentEffect } from '../faults';
import type { Fn, Loose } from '../patch';
import { recordEffect } from '../record';
import { ArrivedReply } from './arrived-reply';
import { MAX_EAGER_BYTES } from './body';
import { measureConnection } from './connect-timer';
import { failureCode, hangUp } from './errors';
import { MessageHeaders } from './message-headers';
import { Reply } from './reply';

export class HttpCall {
  private readonly emit: Fn;
  private readonly destroy: Fn;
  private timedOut = false;
  /** Ends the time for the connection, if there is none yet. */
  private connectionFailed: () => void = () => undefined;
  /** Whether the application ended the request. */
  private endedByApplication = false;
  /** Whether a reply has begun. It is recorded when its history has arrived. */
  private hasReply = false;
  /** A reply that passes through a Body. */
  private reply: Reply | null = null;
  /** Events that follow an error that is withheld. */
  private withheld: unknown[][] | null = null;

  constructor(
    readonly scope: Scope,
    readonly call: OutgoingCall,
    private readonly effect: FaultEffect,
    private readonly request: ClientRequest,
  ) {
    const loose = request as unknown as Loose;
    this.emit = loose['emit'];
    this.destroy = loose['destroy'];
    loose['emit'] = (...args: unknown[]) => withScope(scope, () => this.onEvent(args));
    loose['destroy'] = (error?: unknown) => {
      if (!request.destroyed && this.reply?.cancel()) {
        loose['res'] = null; // the application gets the error of a request without a reply
      }
      this.endedByApplication = true;
      return this.destroy.call(request, error);
    };
  }

  private onEvent(args: unknown[]): unknown {
    if (this.withheld !== null) {
      this.withheld.push(args);
      return true;
    }
    try {
      if (args[0] === 'error' || args[0] === 'close') {
        if (this.reply?.afterReading(() => this.emitWithheld())) {
          this.withheld = [args];
          return true;
        }
      }
      switch (args[0]) {
        case 'socket':
          this.connectionFailed = measureConnection(this.scope, this.call, args[1] as Socket);
          break;
        case 'response':
          return this.onResponse(args[1] as IncomingMessage);
        case 'upgrade':
        case 'connect':
          this.scope.recordReply(this.call, (args[1] as IncomingMessage).statusCode ?? 0, null, true);
          break;
        case 'timeout':
          this.timedOut = true;
          break;
        case 'error':
          this.onFailure(args[1]);
          break;
        case 'close':
          this.onFailure(undefined);
      }
    } catch {
      // the application gets the event in any case
    }
    return this.emit.apply(this.request, args);
  }

  private emitWithheld(): void {
    const all = this.withheld ?? [];
    this.withheld = null;
    withScope(this.scope, () => all.forEach((args) => void this.emit.apply(this.request, args)));
  }

  private onFailure(error: unknown): void {
    if (this.hasReply) {
      return;
    }
    const { scope, call, effect } = this;
    this.connectionFailed();
    if (this.endedByApplication || (error === undefined && effect.sends)) {
      // the application gave up, after a timeout or for reasons of its own
      const code = this.timedOut || failureCode(error) === DEADLINE_EXCEEDED ? DEADLINE_EXCEEDED : CANCELLED;
      scope.recordFailure(call, code, null, effect.sends && this.request.socket != null);
    } else if (!effect.sends) {
      recordEffect(scope, call, unsentEffect(effect), null);
    } else {
      recordEffect(scope, call, replyEffect('http', call.fault, { failed: failureCode(error), history: false }), null);
    }
  }

  private onResponse(response: IncomingMessage): unknown {
    const { scope, call } = this;
    const status = response.statusCode ?? 0;
    this.hasReply = true;
    if (!this.effect.sends) {
      recordEffect(scope, call, unsentEffect(this.effect), null);
      return this.emit.call(this.request, 'response', response);
    }
    const headers = new MessageHeaders(response);
    const arrived = new ArrivedReply(scope, call, status, headers);
    if (arrived.isUnchanged) {
      arrived.record(null);
      return this.emit.call(this.request, 'response', response);
    }
    const length = Number(response.headers['content-length'] ?? Infinity);
    const isConnected = (): boolean => response.socket?.destroyed === false;
    const reply = new Reply(response, headers, isConnected, arrived.isAltered || length <= MAX_EAGER_BYTES, () => {
      if (arrived.isLost) {
        this.destroy.call(this.request, hangUp());
        return true;
      }
      return this.emit.call(this.request, 'response', response) as boolean;
    });
    this.reply = reply;
    reply.body = arrived.openBody(reply);
    return reply.begin(arrived.removesEncoding, arrived.isAltered);
  }
}
