/** The errors of Node when a connection fails, and the codes recorded for them. */

import { getSystemErrorMap } from 'node:util';
import { CANCELLED, DEADLINE_EXCEEDED, UNAVAILABLE, UNKNOWN } from '../../wire/grpc-codes';

/** The destination of a call. */
export interface Address {
  readonly host: string;
  readonly port: number;
}

type SystemCode = 'ECONNREFUSED' | 'ECONNRESET' | 'ETIMEDOUT';

/** A system error as libuv reports it; with an address for `connect`. */
export function systemError(syscall: string, code: SystemCode, address?: Address): Error {
  if (address?.host === 'localhost') {
    // Node reports the resolved address, which is known here for localhost only
    address = { ...address, host: '127.0.0.1' };
  }
  const errno = [...getSystemErrorMap()].find(([, [name]]) => name === code)?.[0];
  const where = address === undefined ? '' : ` ${address.host}:${address.port}`;
  const error = new Error(`${syscall} ${code}${where}`);
  return Object.assign(
    error,
    { errno, code, syscall },
    address === undefined ? {} : { address: address.host, port: address.port },
  );
}

/** The error of Node's HTTP client if a connection ends before the reply. */
export function hangUp(): Error {
  return Object.assign(new Error('socket hang up'), { code: 'ECONNRESET' });
}

/** The gRPC code of a failure without a reply: refused and reset 14, timeout 4, canceled 1, else 2. */
export function failureCode(error: unknown): number {
  for (let one = error, depth = 0; one instanceof Error && depth < 8; one = one.cause, depth++) {
    const code = String((one as NodeJS.ErrnoException).code);
    if (one.name === 'TimeoutError' || /TIMEDOUT|_TIMEOUT$/.test(code)) {
      return DEADLINE_EXCEEDED;
    }
    if (/^(ECONNREFUSED|ECONNRESET|EPIPE|UND_ERR_SOCKET|ERR_HTTP2_(STREAM_|SESSION_|GOAWAY_).*)$/.test(code)) {
      return UNAVAILABLE;
    }
    if (one.name === 'AbortError' && !(one.cause instanceof Error)) {
      return CANCELLED;
    }
  }
  return UNKNOWN;
}
