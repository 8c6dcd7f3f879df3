/**
 * @grpc/grpc-js as a callee: unary calls and all streams.
 *
 * A request with an accepted envelope gets a handler that runs in a scope, and the library's own call object gets two
 * functions of ours: one serializes a reply message and appends the history to it, one adds to the trailers. Other requests
 * run the application's handler as it is. Most requests are such, so looking for an envelope makes next to no objects. The
 * application's server interceptors run before, outside the scope.
 *
 * The envelope of a unary call may come in a field of its message. What parses messages knows nothing of their calls but the
 * method's entry in the library's table of handlers, so each unary call gets an entry of its own that inherits from that one,
 * and in which the envelope waits for the handler.
 */

import { within } from '../scope/context';
import type { Process } from '../scope/process';
import type { Scope } from '../scope/scope';
import { BAGGAGE, TRACEPARENT } from '../wire/bridge';
import { appendField, cutField, fieldLength, MAX_TRAILER_BYTES, mayHaveField } from '../wire/carrier';
import { ACCEPT_FIELD, GRPC_KEY } from '../wire/envelope';
import { MAX_HISTORY_BYTES } from '../wire/history';
import { truncate } from '../wire/truncate';
import { has } from './grpc-metadata';
import { OK, limitOf, Metadata, Status, take } from './grpc-status';
import type { Fn, Loose, Patch } from './patch';

/** The envelope in a call's message; null: none so far, undefined: no message is looked into. */
const FIELD = Symbol('faultloom.field');

/** A server that takes smaller messages only does not get envelopes in them. */
const MIN_RECEIVE_LIMIT = 1 << 20;

/** An entry in the library's table of handlers; one with FIELD is a single call's. */
interface Handler {
  type: string;
  serialize(message: unknown): Uint8Array;
  [FIELD]?: Buffer | null | undefined;
}

/** The library's half of one call, below all interceptors. */
interface Below {
  handler?: Handler;
  sendStatus(status: Omit<Status, 'metadata'> & { metadata?: Metadata | null }): void;
  maxSendMessageSize?: number;
  nextCall?: Below;
}

export function hookServer(patch: Patch, grpc: Loose, process: Process): void {
  const prototype = grpc['Server'].prototype as Loose;
  patch.wrap(prototype, 'register', (register) =>
    function (this: unknown, name: string, handler: Fn, serialize: Fn, deserialize: Fn, type: string) {
      const unary = type === 'unary';
      const parse = unary ? cutting(deserialize) : deserialize;
      return register.call(this, name, traced(grpc, process, name, handler, unary), serialize, parse, type);
    },
  );
  if (typeof prototype['_retrieveHandler'] !== 'function') {
    return; // envelopes then come in metadata
  }
  patch.wrap(prototype, '_retrieveHandler', (retrieve) =>
    function (this: unknown, from: unknown) {
      const handler = retrieve.call(this, from) as Handler | null;
      return handler?.type === 'unary' ? ofOneCall(handler) : handler;
    },
  );
}

/** Inherits what it is, so that it is small. */
function ofOneCall(handler: Handler): Handler {
  const own = Object.create(handler) as Handler;
  own[FIELD] = null;
  return own;
}

/** Reads a message without the field, which is left in the call's entry. */
function cutting(deserialize: Fn): Fn {
  return function (this: unknown, bytes: Buffer) {
    if (!mayHaveField(bytes)) {
      return deserialize.call(this, bytes) as unknown;
    }
    const { message, history: envelope } = cutField(bytes);
    // interceptors know this function too, and may call it for themselves
    if (typeof this === 'object' && this !== null && FIELD in this) {
      this[FIELD] = envelope;
    }
    return deserialize.call(this, message) as unknown;
  };
}

function traced(grpc: Loose, process: Process, name: string, handler: Fn, unary: boolean): Fn {
  return function (this: unknown, call: Loose, reply: unknown) {
    const scope = begin(grpc, process, name, call, unary);
    return scope === null ? handler.call(this, call, reply) : within(scope, serve, handler, this, call, reply);
  };
}

function serve(handler: Fn, self: unknown, call: Loose, reply: unknown): unknown {
  return handler.call(self, call, reply) as unknown;
}

/** The scope of a call, which is prepared for it, or null. */
function begin(grpc: Loose, process: Process, name: string, call: Loose, unary: boolean): Scope | null {
  let scope: Scope | null = null;
  try {
    const below = bottom(call);
    scope = openScope(process, call['metadata'] as Metadata, below.handler?.[FIELD] ?? null);
    if (scope !== null) {
      scope.called = scope.returnsHistory ? '' : name;
      attach(grpc, scope, call, below, unary);
    }
    return scope;
  } catch {
    scope?.abandon();
    return null;
  }
}

function bottom(call: Loose): Below {
  let below = call['call'] as Below;
  while (below.nextCall !== undefined) {
    below = below.nextCall;
  }
  return below;
}

function openScope(process: Process, metadata: Metadata, field: Buffer | null): Scope | null {
  if (field === null && process.sampler === null && !has(metadata, GRPC_KEY) && !has(metadata, BAGGAGE)) {
    return null;
  }
  const values = take(metadata);
  // who forwards metadata does not know that it does; what a client hook adds comes behind that. A scope keeps parts of its
  // envelope and may be kept long, which the request's message should not
  const own = field === null ? values[values.length - 1] : Buffer.from(field);
  const attempts = Number(metadata.get('grpc-previous-rpc-attempts')[0] ?? 0);
  return process.openGrpc(own, Number.isSafeInteger(attempts) ? attempts : 0, text(metadata, TRACEPARENT), text(metadata, BAGGAGE));
}

function text(metadata: Metadata, key: string): string | undefined {
  const value = metadata.get(key)[0];
  return value === undefined ? undefined : String(value);
}

function attach(grpc: Loose, scope: Scope, call: Loose, below: Below, unary: boolean): void {
  const answer = new Answer(scope, below, unary);
  const { handler, sendStatus } = below;
  if (handler !== undefined) {
    const looks = FIELD in handler;
    if (looks && scope.returnsHistory && limitOf(below as unknown as Loose, 'maxReceiveMessageSize') >= MIN_RECEIVE_LIMIT) {
      scope.takesField();
    }
    const serialize = handler.serialize;
    const own = looks ? handler : (below.handler = { ...handler });
    own.serialize = (message) => answer.message(serialize.call(handler, message));
  }
  below.sendStatus = (status) => {
    const trailer = answer.trailer(status.code);
    if (trailer !== null) {
      const metadata = status.metadata?.clone() ?? (new grpc['Metadata']() as Metadata);
      metadata.set(GRPC_KEY, trailer);
      status = { ...status, metadata };
    }
    sendStatus.call(below, status);
  };
  // what arrives on a connection is reported outside any scope
  const emit = call['emit'] as Fn;
  call['emit'] = (...args: unknown[]) => within(scope, () => emit.apply(call, args));
}

/** Turns the end of one call into a history and its carrier. */
class Answer {
  /** A history that no message took along. */
  private left: Buffer | null = null;

  constructor(
    private readonly scope: Scope,
    private readonly below: Below,
    private readonly unary: boolean,
  ) {}

  /** A serialized reply message, with the history (of a stream, a piece of it) behind it. */
  message(bytes: Uint8Array): Uint8Array {
    try {
      return this.unary ? this.whole(bytes) : this.piece(bytes);
    } catch {
      return bytes;
    }
  }

  private whole(bytes: Uint8Array): Uint8Array {
    const history = this.scope.finish(OK);
    if (history === null) {
      return bytes;
    }
    const { accept, receiveLimit } = this.scope.envelope;
    const fits = (accept & ACCEPT_FIELD) === 0 ? null : truncate(history, MAX_HISTORY_BYTES);
    if (fits !== null && bytes.length + fieldLength(fits.length) <= Math.min(Number(receiveLimit), this.sendLimit)) {
      return appendField(bytes, fits);
    }
    this.left = history;
    return bytes;
  }

  private piece(bytes: Uint8Array): Uint8Array {
    const piece = this.scope.message(bytes.length);
    return piece === null ? bytes : appendField(bytes, piece);
  }

  private get sendLimit(): number {
    return limitOf(this.below as unknown as Loose, 'maxSendMessageSize', Infinity);
  }

  /** Ends the scope if no message has; what goes into the trailers, or null. */
  trailer(code: number): Buffer | null {
    try {
      if (!this.unary) {
        return this.scope.finishStream(code);
      }
      const history = this.left ?? this.scope.finish(code);
      this.left = null;
      return history === null ? null : truncate(history, MAX_TRAILER_BYTES);
    } catch {
      return null;
    }
  }
}
