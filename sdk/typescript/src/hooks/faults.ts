/**
 * The effect of each kind of fault on a call. Pure functions; no other module distinguishes kinds of faults. Hooks map
 * an outcome to the errors and objects of their library.
 */

import type { Uint64 } from '../wire/bytes';
import { DEADLINE_EXCEEDED, INTERNAL, MAX_CODE, OK, UNAVAILABLE, UNKNOWN } from '../wire/grpc-codes';
import type { Fault } from '../wire/plan';

export type Protocol = 'grpc' | 'http';

/** The longest wait. A hang without a duration lasts as long. */
export const MAX_WAIT_MS = 30_000;

/** What a fault does to a call before the request is sent, and instead of it. */
export interface FaultEffect {
  /** How long the call waits first, in milliseconds; 0 to 30,000. */
  readonly waitMs: number;
  /** Whether the request is sent afterwards. */
  readonly sends: boolean;
  readonly outcome: 'refused' | 'reset' | 'deadline' | 'status' | 'reply' | 'lost' | 'empty' | 'corrupt';
  /**
   * For `status`: the code that the caller gets, of the protocol. For `refused`, `reset`, `deadline`, `lost`: the gRPC
   * code. Else 0.
   */
  readonly status: number;
  /** The status to record: for `status` the argument of the fault, unchanged; else equal to `status`. */
  readonly recordedStatus: Uint64;
}

/** How a call ended at the transport: with a reply, or without one. `history`: whether a history arrived. */
export type CallResult =
  { readonly status: number; readonly history: boolean } | { readonly failed: number; readonly history: boolean };

/** What the caller gets and what is recorded at the end of a call. */
export interface CallEffect {
  readonly outcome: 'refused' | 'reset' | 'deadline' | 'status' | 'reply' | 'empty' | 'corrupt' | 'failed';
  /** The status or gRPC code that the caller gets. */
  readonly status: number;
  readonly event: 'reply' | 'call-failed';
  readonly eventStatus: Uint64;
  /** Whether the callee may have run without returning a history. */
  readonly gap: boolean;
}

function effect(outcome: FaultEffect['outcome'], sends: boolean, status: number, waitMs = 0): FaultEffect {
  return { waitMs, sends, outcome, status, recordedStatus: status };
}

/** The effect of no fault. */
export const NO_EFFECT = effect('reply', true, 0);
const REFUSED = effect('refused', false, UNAVAILABLE);
const RESET = effect('reset', false, UNAVAILABLE);
const DEADLINE = effect('deadline', false, DEADLINE_EXCEEDED);
const LOST = effect('lost', true, UNAVAILABLE);
const EMPTY = effect('empty', true, 0);
const CORRUPT = effect('corrupt', true, 0);

/** `timeoutMs`: the caller's own limit if it is known, else null; the library may enforce a limit by itself. */
export function faultEffect(protocol: Protocol, fault: Fault | null, timeoutMs: number | null): FaultEffect {
  switch (fault?.kind) {
    case undefined:
      return NO_EFFECT;
    case 'unavailable':
      return REFUSED;
    case 'reset':
      return RESET;
    case 'deadline':
      return DEADLINE;
    case 'status':
      return {
        waitMs: 0,
        sends: false,
        outcome: 'status',
        status: visibleStatus(protocol, fault.arg),
        recordedStatus: fault.arg,
      };
    case 'delay':
    case 'hang': {
      const waitMs =
        fault.kind === 'hang' && fault.arg === 0
          ? MAX_WAIT_MS
          : Number(fault.arg < MAX_WAIT_MS ? fault.arg : MAX_WAIT_MS);
      if (timeoutMs !== null && timeoutMs <= waitMs) {
        return effect('deadline', false, DEADLINE_EXCEEDED, timeoutMs);
      }
      return fault.kind === 'hang'
        ? effect('deadline', false, DEADLINE_EXCEEDED, waitMs)
        : effect('reply', true, 0, waitMs);
    }
    case 'lost-reply':
      return LOST;
    case 'empty-reply':
      return EMPTY;
    case 'corrupt-reply':
      return CORRUPT;
  }
}

/**
 * Whether the request is sent after the wait of its fault. `elapsed` is false if the wait ended early because faults
 * were disabled: a delayed call is then sent, even if the delay would have exceeded the caller's timeout.
 */
export function sendsAfterWait(fault: Fault | null, effect: FaultEffect, elapsed: boolean): boolean {
  return effect.sends || (!elapsed && fault?.kind === 'delay');
}

/** The status that a caller gets: one that exists in the protocol and is not a success in gRPC. */
function visibleStatus(protocol: Protocol, arg: Uint64): number {
  if (protocol === 'grpc') {
    return arg >= 1 && arg <= MAX_CODE ? Number(arg) : UNKNOWN;
  }
  return arg >= 200 && arg <= 999 ? Number(arg) : 500;
}

/** The end of a call that is not sent. */
export function unsentEffect({ outcome, status, recordedStatus }: FaultEffect): CallEffect {
  const event = outcome === 'status' ? 'reply' : 'call-failed';
  return { outcome: outcome as CallEffect['outcome'], status, event, eventStatus: recordedStatus, gap: false };
}

/** The end of a call that was sent. A call that failed at the transport is not changed by a fault. */
export function replyEffect(protocol: Protocol, fault: Fault | null, result: CallResult): CallEffect {
  const gap = !result.history;
  if ('failed' in result) {
    return { outcome: 'failed', status: result.failed, event: 'call-failed', eventStatus: result.failed, gap };
  }
  if (fault?.kind === 'lost-reply') {
    return { outcome: 'reset', status: UNAVAILABLE, event: 'call-failed', eventStatus: UNAVAILABLE, gap };
  }
  const reply = { status: result.status, event: 'reply', eventStatus: result.status, gap } as const;
  // an error status of gRPC has no message to alter
  const hasBody = protocol === 'http' || result.status === OK;
  if (hasBody && fault?.kind === 'empty-reply') {
    return { ...reply, outcome: 'empty' };
  }
  if (hasBody && fault?.kind === 'corrupt-reply') {
    return { ...reply, outcome: 'corrupt', status: protocol === 'grpc' ? INTERNAL : result.status };
  }
  return { ...reply, outcome: 'reply' };
}
