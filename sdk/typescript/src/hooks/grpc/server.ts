/**
 * The server side of @grpc/grpc-js: unary calls and all streams.
 *
 * A request with an accepted envelope runs its handler in a scope. Two functions of the library's call object are
 * replaced: one serializes a reply message and appends the history, one adds a trailer. Other requests run the handler
 * unchanged; most are such, so the check for an envelope allocates almost nothing. The application's server
 * interceptors run before the scope.
 *
 * The envelope of a unary call may be in a field of its message. The function that parses a message has access to the
 * handler entry of the method, but not to the call. Each unary call therefore gets its own entry, which inherits from
 * the method's entry and keeps the envelope for the handler.
 */

import { UntracedRequest, withScope } from '../../scope/context';
import type { Process } from '../../scope/process';
import type { Scope } from '../../scope/scope';
import { anyOpenScope } from '../../scope/unscoped';
import { BAGGAGE, TRACEPARENT } from '../../wire/bridge';
import { appendField, cutField, fieldLength, MAX_TRAILER_BYTES, mightHaveField } from '../../wire/carrier';
import { ACCEPT_FIELD, GRPC_KEY } from '../../wire/envelope';
import { OK } from '../../wire/grpc-codes';
import { MAX_HISTORY_BYTES } from '../../wire/history';
import { truncateHistory } from '../../wire/truncate';
import type { Fn, Loose, Patch } from '../patch';
import { hasKey } from './metadata';
import { messageLimit, Metadata, Status, takeOwnValues } from './status';

/** The envelope from a call's message; null: none so far; undefined: messages are not checked. */
const ENVELOPE = Symbol('faultloom.envelope');

/** A server with a smaller limit does not announce the field. */
const MIN_RECEIVE_LIMIT = 1 << 20;

/** An entry of the library's handler table; one with ENVELOPE belongs to a single call. */
interface HandlerEntry {
  type: string;
  serialize(message: unknown): Uint8Array;
  [ENVELOPE]?: Buffer | null | undefined;
}

/** The library's call object below all interceptors. */
interface LibraryServerCall {
  handler?: HandlerEntry;
  sendStatus(status: Omit<Status, 'metadata'> & { metadata?: Metadata | null }): void;
  maxSendMessageSize?: number;
  nextCall?: LibraryServerCall;
}

export function hookServer(patch: Patch, grpc: Loose, process: Process): void {
  const prototype = grpc['Server'].prototype as Loose;
  patch.wrap(
    prototype,
    'register',
    (register) =>
      function (this: unknown, name: string, handler: Fn, serialize: Fn, deserialize: Fn, type: string) {
        const unary = type === 'unary';
        const parse = unary ? splitEnvelopes(deserialize) : deserialize;
        return register.call(this, name, traced(grpc, process, name, handler, unary), serialize, parse, type);
      },
  );
  if (typeof prototype['_retrieveHandler'] !== 'function') {
    return; // envelopes arrive in metadata only
  }
  patch.wrap(
    prototype,
    '_retrieveHandler',
    (retrieve) =>
      function (this: unknown, from: unknown) {
        const handler = retrieve.call(this, from) as HandlerEntry | null;
        return handler?.type === 'unary' ? entryOfCall(handler) : handler;
      },
  );
}

/** The entry of a single call. It inherits its properties, so creating it is cheap. */
function entryOfCall(handler: HandlerEntry): HandlerEntry {
  const own = Object.create(handler) as HandlerEntry;
  own[ENVELOPE] = null;
  return own;
}

/** Parses a message without the field, and keeps the envelope in the call's entry. */
function splitEnvelopes(deserialize: Fn): Fn {
  return function (this: unknown, bytes: Buffer) {
    if (!mightHaveField(bytes)) {
      return deserialize.call(this, bytes) as unknown;
    }
    const { message, history: envelope } = cutField(bytes);
    // interceptors may call this function with another receiver
    if (typeof this === 'object' && this !== null && ENVELOPE in this) {
      this[ENVELOPE] = envelope;
    }
    return deserialize.call(this, message) as unknown;
  };
}

function traced(grpc: Loose, process: Process, name: string, handler: Fn, unary: boolean): Fn {
  return function (this: unknown, call: Loose, reply: unknown) {
    const scope = beginScope(grpc, process, name, call, unary);
    const context = scope ?? untraced(call);
    return context === null
      ? handler.call(this, call, reply)
      : withScope(context, runHandler, handler, this, call, reply);
  };
}

/**
 * The context of a call that is not traced, until its status is sent; null if no scope is open, which might count its
 * calls.
 */
function untraced(call: Loose): UntracedRequest | null {
  if (!anyOpenScope()) {
    return null;
  }
  try {
    const context: UntracedRequest = { isUntraced: true, finished: false };
    const libraryCall = lowestCall(call);
    const { sendStatus } = libraryCall;
    libraryCall.sendStatus = (status) => {
      context.finished = true;
      sendStatus.call(libraryCall, status);
    };
    emitIn(context, call);
    return context;
  } catch {
    return null;
  }
}

/** Emits the events of a call in its context; the connection emits them in no scope. */
function emitIn(context: Scope | UntracedRequest, call: Loose): void {
  const emit = call['emit'] as Fn;
  call['emit'] = (...args: unknown[]) => withScope(context, () => emit.apply(call, args));
}

function runHandler(handler: Fn, self: unknown, call: Loose, reply: unknown): unknown {
  return handler.call(self, call, reply) as unknown;
}

/** Begins the scope of a call and prepares the call for it; null if the call is not traced. */
function beginScope(grpc: Loose, process: Process, name: string, call: Loose, unary: boolean): Scope | null {
  let scope: Scope | null = null;
  try {
    const libraryCall = lowestCall(call);
    scope = openScope(process, call['metadata'] as Metadata, libraryCall.handler?.[ENVELOPE] ?? null);
    if (scope !== null) {
      scope.callName = scope.returnsHistory ? '' : name;
      attach(grpc, scope, call, libraryCall, unary);
    }
    return scope;
  } catch {
    scope?.abandon();
    return null;
  }
}

function lowestCall(call: Loose): LibraryServerCall {
  let lowest = call['call'] as LibraryServerCall;
  while (lowest.nextCall !== undefined) {
    lowest = lowest.nextCall;
  }
  return lowest;
}

function openScope(process: Process, metadata: Metadata, field: Buffer | null): Scope | null {
  if (field === null && process.sampler === null && !hasKey(metadata, GRPC_KEY) && !hasKey(metadata, BAGGAGE)) {
    return null;
  }
  const values = takeOwnValues(metadata);
  // The last value counts: a client hook appends its own after one that was forwarded. A field is copied, because a
  // scope keeps parts of its envelope and must not keep the whole message alive.
  const envelope = field === null ? values[values.length - 1] : Buffer.from(field);
  const attempts = Number(metadata.get('grpc-previous-rpc-attempts')[0] ?? 0);
  return process.openScope({
    envelope,
    attempt: Number.isSafeInteger(attempts) ? attempts : 0,
    traceparent: text(metadata, TRACEPARENT),
    baggage: text(metadata, BAGGAGE),
  });
}

function text(metadata: Metadata, key: string): string | undefined {
  const value = metadata.get(key)[0];
  return value === undefined ? undefined : String(value);
}

function attach(grpc: Loose, scope: Scope, call: Loose, libraryCall: LibraryServerCall, unary: boolean): void {
  const tracer = new ReplyTracer(scope, libraryCall, unary);
  const { handler, sendStatus } = libraryCall;
  if (handler !== undefined) {
    const splitsEnvelopes = ENVELOPE in handler;
    if (
      splitsEnvelopes &&
      scope.returnsHistory &&
      messageLimit(libraryCall as unknown as Loose, 'maxReceiveMessageSize') >= MIN_RECEIVE_LIMIT
    ) {
      scope.announceField();
    }
    const serialize = handler.serialize;
    const own = splitsEnvelopes ? handler : (libraryCall.handler = { ...handler });
    own.serialize = (message) => tracer.traceMessage(serialize.call(handler, message));
  }
  libraryCall.sendStatus = (status) => {
    const trailer = tracer.trailer(status.code);
    if (trailer !== null) {
      const metadata = status.metadata?.clone() ?? (new grpc['Metadata']() as Metadata);
      metadata.set(GRPC_KEY, trailer);
      status = { ...status, metadata };
    }
    sendStatus.call(libraryCall, status);
  };
  emitIn(scope, call);
}

/** Adds the history of one call to its reply messages and trailers. */
class ReplyTracer {
  /** A history that did not fit into the message. */
  private unsentHistory: Buffer | null = null;

  constructor(
    private readonly scope: Scope,
    private readonly libraryCall: LibraryServerCall,
    private readonly unary: boolean,
  ) {}

  /** A serialized reply message with the history, or a piece of a stream's history, appended. */
  traceMessage(bytes: Uint8Array): Uint8Array {
    try {
      return this.unary ? this.appendHistory(bytes) : this.appendPiece(bytes);
    } catch {
      return bytes;
    }
  }

  private appendHistory(bytes: Uint8Array): Uint8Array {
    const history = this.scope.finish(OK);
    if (history === null) {
      return bytes;
    }
    const { accept, receiveLimit } = this.scope.envelope;
    const fits = (accept & ACCEPT_FIELD) === 0 ? null : truncateHistory(history, MAX_HISTORY_BYTES);
    if (fits !== null && bytes.length + fieldLength(fits.length) <= Math.min(Number(receiveLimit), this.sendLimit)) {
      return appendField(bytes, fits);
    }
    this.unsentHistory = history;
    return bytes;
  }

  private appendPiece(bytes: Uint8Array): Uint8Array {
    const piece = this.scope.nextPiece(bytes.length);
    return piece === null ? bytes : appendField(bytes, piece);
  }

  private get sendLimit(): number {
    return messageLimit(this.libraryCall as unknown as Loose, 'maxSendMessageSize', Infinity);
  }

  /** Ends the scope unless a message has done so; returns the value for the trailers, or null. */
  trailer(code: number): Buffer | null {
    try {
      if (!this.unary) {
        return this.scope.lastPiece(code);
      }
      const history = this.unsentHistory ?? this.scope.finish(code);
      this.unsentHistory = null;
      return history === null ? null : truncateHistory(history, MAX_TRAILER_BYTES);
    } catch {
      return null;
    }
  }
}
