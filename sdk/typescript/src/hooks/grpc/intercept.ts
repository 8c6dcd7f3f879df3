/**
 * The methods of the library's calls below its clients, replaced by ones that pass to an interceptor if the call has
 * one.
 *
 * They are replaced once, in the class. An intercepted call gets a single property; closures for each call would cost
 * more than everything else that is done for it.
 */

import { isCurrentScope, UntracedRequest, untracedRequest, withScope } from '../../scope/context';
import type { Scope } from '../../scope/scope';
import { Unsupported } from '../patch';
import type { Metadata, Status } from './status';

/** Receives the events of a call. */
export interface Listener {
  onReceiveMetadata(metadata: Metadata): void;
  onReceiveMessage(message: Buffer): void;
  onReceiveStatus(status: Status): void;
}

/** A call as the library's channel creates it. */
export interface LibraryCall {
  start(metadata: Metadata, listener: Listener): void;
  sendMessageWithContext(context: unknown, message: Buffer): void;
  startRead(): void;
  halfClose(): void;
  cancelWithStatus(code: number, details: string): void;
}

/** The library's own methods. */
const ORIGINAL = Symbol('faultloom.original');
/** The interceptor of a call. */
const INTERCEPTOR = Symbol('faultloom.interceptor');

interface Instrumented extends LibraryCall {
  [ORIGINAL]: LibraryCall;
  [INTERCEPTOR]?: LibraryCall;
}

const METHODS = ['start', 'sendMessageWithContext', 'startRead', 'halfClose', 'cancelWithStatus'] as const;

/** Instruments the class of a call, once. Throws Unsupported if the class is unknown. */
export function instrument(call: LibraryCall): void {
  if ((call as Instrumented)[ORIGINAL] !== undefined) {
    return;
  }
  const prototype = Object.getPrototypeOf(call) as Instrumented;
  if (!METHODS.every((name) => Object.hasOwn(prototype, name) && typeof prototype[name] === 'function')) {
    throw new Unsupported('has an unknown class of calls');
  }
  const { start, sendMessageWithContext, startRead, halfClose, cancelWithStatus } = prototype;
  prototype[ORIGINAL] = { start, sendMessageWithContext, startRead, halfClose, cancelWithStatus };
  prototype.start = function (this: Instrumented, metadata, listener) {
    const interceptor = this[INTERCEPTOR];
    if (interceptor === undefined) {
      start.call(this, metadata, new DetachedListener(listener));
    } else {
      interceptor.start(metadata, listener);
    }
  };
  prototype.sendMessageWithContext = function (this: Instrumented, context, message) {
    const interceptor = this[INTERCEPTOR];
    if (interceptor === undefined) {
      sendMessageWithContext.call(this, context, message);
    } else {
      interceptor.sendMessageWithContext(context, message);
    }
  };
  prototype.startRead = function (this: Instrumented) {
    const interceptor = this[INTERCEPTOR];
    if (interceptor === undefined) {
      startRead.call(this);
    } else {
      interceptor.startRead();
    }
  };
  prototype.halfClose = function (this: Instrumented) {
    const interceptor = this[INTERCEPTOR];
    if (interceptor === undefined) {
      halfClose.call(this);
    } else {
      interceptor.halfClose();
    }
  };
  // the library's deadline timer calls this too
  prototype.cancelWithStatus = function (this: Instrumented, code, details) {
    const interceptor = this[INTERCEPTOR];
    if (interceptor === undefined) {
      cancelWithStatus.call(this, code, details);
    } else {
      interceptor.cancelWithStatus(code, details);
    }
  };
}

/** Passes the operations of an instrumented call to an interceptor. */
export function intercept(call: LibraryCall, interceptor: LibraryCall): void {
  (call as Instrumented)[INTERCEPTOR] = interceptor;
}

/** The library's own methods of an instrumented call; use them with `call`. */
export function originalMethods(call: LibraryCall): LibraryCall {
  return (call as Instrumented)[ORIGINAL];
}

/** Reports events in no scope: a connection may have been opened in the scope of another request. */
class DetachedListener implements Listener {
  private readonly request = untracedRequest();

  constructor(private readonly listener: Listener) {}

  onReceiveMetadata(metadata: Metadata): void {
    reportMetadata(this.request, this.listener, metadata);
  }

  onReceiveMessage(message: Buffer): void {
    reportMessage(this.request, this.listener, message);
  }

  onReceiveStatus(status: Status): void {
    reportStatus(this.request, this.listener, status);
  }
}

type Context = Scope | UntracedRequest | undefined;

// These report an event in a scope (undefined: in none) or for an untraced request, and switch only if necessary. They
// contain no closure: a function that may create one allocates its context at every call.

export function reportMetadata(scope: Context, listener: Listener, metadata: Metadata): void {
  if (isCurrentScope(scope)) {
    listener.onReceiveMetadata(metadata);
  } else {
    withScope(scope, callOnMetadata, listener, metadata);
  }
}

export function reportMessage(scope: Context, listener: Listener, message: Buffer): void {
  if (isCurrentScope(scope)) {
    listener.onReceiveMessage(message);
  } else {
    withScope(scope, callOnMessage, listener, message);
  }
}

export function reportStatus(scope: Context, listener: Listener, status: Status): void {
  if (isCurrentScope(scope)) {
    listener.onReceiveStatus(status);
  } else {
    withScope(scope, callOnStatus, listener, status);
  }
}

const callOnMetadata = (listener: Listener, metadata: Metadata): void => listener.onReceiveMetadata(metadata);
const callOnMessage = (listener: Listener, message: Buffer): void => listener.onReceiveMessage(message);
const callOnStatus = (listener: Listener, status: Status): void => listener.onReceiveStatus(status);
