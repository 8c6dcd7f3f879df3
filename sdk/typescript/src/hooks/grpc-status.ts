/** gRPC codes, the words of @grpc/grpc-js for what can go wrong, and its metadata. */

import { GRPC_KEY } from '../wire/envelope';
import type { Fault } from '../wire/plan';
import type { Loose } from './patch';

export const OK = 0;
export const CANCELLED = 1;
export const UNKNOWN = 2;
export const DEADLINE_EXCEEDED = 4;
export const UNAVAILABLE = 14;
const UNAUTHENTICATED = 16;

/** What the library keeps metadata in; keys are in lower case, values under a `-bin` key are buffers. */
export interface Metadata {
  get(key: string): (string | Buffer)[];
  set(key: string, value: string | Buffer): void;
  remove(key: string): void;
  clone(): Metadata;
}

/** How a call ended, as the library's parts tell each other. */
export interface Status {
  code: number;
  details: string;
  metadata: Metadata;
}

/** What a caller is told by a fault that ends its call, in the words for the real thing. */
export function outcome(fault: Fault, authority: string): { code: number; details: string } {
  switch (fault.kind) {
    case 'unavailable':
      return {
        code: UNAVAILABLE,
        details: `No connection established. Last error: Error: connect ECONNREFUSED ${authority}. Resolution note: `,
      };
    case 'reset':
      return { code: UNAVAILABLE, details: 'read ECONNRESET' };
    case 'lost-reply':
      return { code: UNAVAILABLE, details: 'Connection dropped' };
    case 'status': {
      const code = Number(fault.arg);
      return { code: code > OK && code <= UNAUTHENTICATED ? code : UNKNOWN, details: `status ${fault.arg} injected by Faultloom` };
    }
    default:
      return { code: DEADLINE_EXCEEDED, details: 'Deadline exceeded' };
  }
}

/**
 * Did a status whose trailers brought no history come from the callee, or is it what this side found out? The library does not
 * tell, and the three codes that this side makes count as no reply.
 */
export function isReply(code: number): boolean {
  return code !== CANCELLED && code !== DEADLINE_EXCEEDED && code !== UNAVAILABLE;
}

/** Takes our values out of metadata, so that nobody passes them on as his own. */
export function take(metadata: Metadata): readonly Buffer[] {
  const values = metadata.get(GRPC_KEY);
  if (values.length === 0) {
    return NONE;
  }
  metadata.remove(GRPC_KEY);
  return values.filter((value): value is Buffer => Buffer.isBuffer(value));
}

const NONE: readonly Buffer[] = [];

/** The authority of a channel's target: scheme and the resolver's own authority are dropped. */
export function authorityOf(target: string): string {
  const parts = /^(?:dns|ipv4|ipv6|xds):(?:\/\/[^/]*\/)?(.*)$/.exec(target);
  return (parts?.[1] ?? target).split(',', 1)[0]!;
}

const DEFAULT_RECEIVE_LIMIT = 4 << 20;
const UNLIMITED = 2 ** 31 - 1;

/** Bytes of the largest message that options let through; -1 in them means any. */
export function limitOf(options: Loose | undefined, name: string, standard = DEFAULT_RECEIVE_LIMIT): number {
  const value: unknown = options?.[name];
  if (typeof value !== 'number') {
    return standard;
  }
  return value < 0 ? UNLIMITED : Math.min(value, UNLIMITED);
}
