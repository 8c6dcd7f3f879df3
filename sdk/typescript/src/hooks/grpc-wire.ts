/**
 * The library's calls, seen from below its clients: functions that know whether something stands between.
 *
 * They are put into the class once. A call that somebody stands in front of gets one property; closures of its own would cost
 * each call more than everything else that is done for it.
 */

import { isIn, within } from '../scope/context';
import type { Scope } from '../scope/scope';
import type { Metadata, Status } from './grpc-status';
import { Unsupported } from './patch';

/** What hears of a call's progress. */
export interface Listener {
  onReceiveMetadata(metadata: Metadata): void;
  onReceiveMessage(message: Buffer): void;
  onReceiveStatus(status: Status): void;
}

/** A call as the library's channel makes it. */
export interface Wire {
  start(metadata: Metadata, listener: Listener): void;
  sendMessageWithContext(context: unknown, message: Buffer): void;
  startRead(): void;
  halfClose(): void;
  cancelWithStatus(code: number, details: string): void;
}

/** The functions that were there. */
const LIBRARY = Symbol('faultloom.library');
/** What stands between this call and its client. */
const BETWEEN = Symbol('faultloom.between');

interface Known extends Wire {
  [LIBRARY]: Wire;
  [BETWEEN]?: Wire;
}

const NAMES = ['start', 'sendMessageWithContext', 'startRead', 'halfClose', 'cancelWithStatus'] as const;

/** Makes a call's class known. Throws Unsupported for a call of an unknown make. */
export function know(wire: Wire): void {
  if ((wire as Known)[LIBRARY] !== undefined) {
    return;
  }
  const prototype = Object.getPrototypeOf(wire) as Known;
  if (!NAMES.every((name) => Object.hasOwn(prototype, name) && typeof prototype[name] === 'function')) {
    throw new Unsupported('makes calls of an unknown kind');
  }
  const { start, sendMessageWithContext, startRead, halfClose, cancelWithStatus } = prototype;
  prototype[LIBRARY] = { start, sendMessageWithContext, startRead, halfClose, cancelWithStatus };
  prototype.start = function (this: Known, metadata, listener) {
    const between = this[BETWEEN];
    if (between === undefined) {
      start.call(this, metadata, new Outside(listener));
    } else {
      between.start(metadata, listener);
    }
  };
  prototype.sendMessageWithContext = function (this: Known, context, message) {
    const between = this[BETWEEN];
    if (between === undefined) {
      sendMessageWithContext.call(this, context, message);
    } else {
      between.sendMessageWithContext(context, message);
    }
  };
  prototype.startRead = function (this: Known) {
    const between = this[BETWEEN];
    if (between === undefined) {
      startRead.call(this);
    } else {
      between.startRead();
    }
  };
  prototype.halfClose = function (this: Known) {
    const between = this[BETWEEN];
    if (between === undefined) {
      halfClose.call(this);
    } else {
      between.halfClose();
    }
  };
  // the library's deadline timer ends a call by this, too
  prototype.cancelWithStatus = function (this: Known, code, details) {
    const between = this[BETWEEN];
    if (between === undefined) {
      cancelWithStatus.call(this, code, details);
    } else {
      between.cancelWithStatus(code, details);
    }
  };
}

/** Puts something between a known call and its client. */
export function putBetween(wire: Wire, between: Wire): void {
  (wire as Known)[BETWEEN] = between;
}

/** The library's functions of a known call, to be called on it. */
export function library(wire: Wire): Wire {
  return (wire as Known)[LIBRARY];
}

/** Connections outlive the request that opened them; what they report to others must not run in its scope. */
class Outside implements Listener {
  constructor(private readonly listener: Listener) {}

  onReceiveMetadata(metadata: Metadata): void {
    reportMetadata(undefined, this.listener, metadata);
  }

  onReceiveMessage(message: Buffer): void {
    reportMessage(undefined, this.listener, message);
  }

  onReceiveStatus(status: Status): void {
    reportStatus(undefined, this.listener, status);
  }
}

// These tell a listener something within a scope (undefined: outside any), and change over only if they need to. None makes a
// closure: a function that may make one makes what it needs each time it is called.

export function reportMetadata(scope: Scope | undefined, listener: Listener, metadata: Metadata): void {
  if (isIn(scope)) {
    listener.onReceiveMetadata(metadata);
  } else {
    within(scope, tellMetadata, listener, metadata);
  }
}

export function reportMessage(scope: Scope | undefined, listener: Listener, message: Buffer): void {
  if (isIn(scope)) {
    listener.onReceiveMessage(message);
  } else {
    within(scope, tellMessage, listener, message);
  }
}

export function reportStatus(scope: Scope | undefined, listener: Listener, status: Status): void {
  if (isIn(scope)) {
    listener.onReceiveStatus(status);
  } else {
    within(scope, tellStatus, listener, status);
  }
}

const tellMetadata = (listener: Listener, metadata: Metadata): void => listener.onReceiveMetadata(metadata);
const tellMessage = (listener: Listener, message: Buffer): void => listener.onReceiveMessage(message);
const tellStatus = (listener: Listener, status: Status): void => listener.onReceiveStatus(status);
