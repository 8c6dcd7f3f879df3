/** The error messages of @grpc/grpc-js, and its metadata. */

import { GRPC_KEY } from '../../wire/envelope';
import { CANCELLED, DEADLINE_EXCEEDED, UNAVAILABLE } from '../../wire/grpc-codes';
import type { FaultEffect } from '../faults';
import type { Loose } from '../patch';

/** The library's metadata. Keys are in lower case; the values of `-bin` keys are buffers. */
export interface Metadata {
  get(key: string): (string | Buffer)[];
  set(key: string, value: string | Buffer): void;
  remove(key: string): void;
  clone(): Metadata;
}

/** The final status of a call. */
export interface Status {
  code: number;
  details: string;
  metadata: Metadata;
}

/** The status that a fault causes, with the library's message for the real failure. */
export function faultStatus(effect: FaultEffect, authority: string): { code: number; details: string } {
  return { code: effect.status, details: faultDetails(effect, authority) };
}

function faultDetails({ outcome, recordedStatus }: FaultEffect, authority: string): string {
  switch (outcome) {
    case 'refused':
      return `No connection established. Last error: Error: connect ECONNREFUSED ${authority}. Resolution note: `;
    case 'reset':
      return 'read ECONNRESET';
    case 'lost':
      return 'Connection dropped';
    case 'status':
      return `status ${recordedStatus} injected by Faultloom`;
    default:
      return 'Deadline exceeded';
  }
}

/**
 * Whether a status without a history comes from the callee. The library does not expose this; the three codes that it
 * creates itself count as no reply.
 */
export function isReply(code: number): boolean {
  return code !== CANCELLED && code !== DEADLINE_EXCEEDED && code !== UNAVAILABLE;
}

/** Removes our values from metadata, so that the application does not forward them, and returns them. */
export function takeOwnValues(metadata: Metadata): readonly Buffer[] {
  const values = metadata.get(GRPC_KEY);
  if (values.length === 0) {
    return NO_VALUES;
  }
  metadata.remove(GRPC_KEY);
  return values.filter((value): value is Buffer => Buffer.isBuffer(value));
}

const NO_VALUES: readonly Buffer[] = [];

/** The authority of a channel's target, without the scheme and the resolver's own authority. */
export function authorityOf(target: string): string {
  const parts = /^(?:dns|ipv4|ipv6|xds):(?:\/\/[^/]*\/)?(.*)$/.exec(target);
  return (parts?.[1] ?? target).split(',', 1)[0]!;
}

const DEFAULT_RECEIVE_LIMIT = 4 << 20;
const UNLIMITED = 2 ** 31 - 1;

/** A limit for messages, in bytes, from a channel's or server's options, where -1 means no limit. */
export function messageLimit(options: Loose | undefined, name: string, defaultLimit = DEFAULT_RECEIVE_LIMIT): number {
  const value: unknown = options?.[name];
  if (typeof value !== 'number') {
    return defaultLimit;
  }
  return value < 0 ? UNLIMITED : Math.min(value, UNLIMITED);
}
