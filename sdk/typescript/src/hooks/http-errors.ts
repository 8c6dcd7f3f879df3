/** What Node's own parts say when a connection fails, and what is recorded of it. */

import { getSystemErrorMap } from 'node:util';
import { CANCELLED, DEADLINE_EXCEEDED, UNAVAILABLE, UNKNOWN } from './grpc-status';

/** Where a call goes to. */
export interface Address {
  readonly host: string;
  readonly port: number;
}

type SystemCode = 'ECONNREFUSED' | 'ECONNRESET' | 'ETIMEDOUT';

/** As libuv reports it; with an address for `connect`. */
export function systemError(syscall: string, code: SystemCode, address?: Address): Error {
  if (address?.host === 'localhost') {
    address = { ...address, host: '127.0.0.1' }; // Node tells what a name was resolved to; of others that is not known here
  }
  const errno = [...getSystemErrorMap()].find(([, [name]]) => name === code)?.[0];
  const where = address === undefined ? '' : ` ${address.host}:${address.port}`;
  const error = new Error(`${syscall} ${code}${where}`);
  return Object.assign(error, { errno, code, syscall }, address === undefined ? {} : { address: address.host, port: address.port });
}

/** As Node's HTTP client says that a connection ended before its reply. */
export function hangUp(): Error {
  return Object.assign(new Error('socket hang up'), { code: 'ECONNRESET' });
}

/** The gRPC code for a failure without reply: refused, reset 14, timeout 4, cancelled 1, else 2. */
export function failureCode(error: unknown): number {
  for (let one = error, depth = 0; one instanceof Error && depth < 8; one = one.cause, depth++) {
    const code = String((one as NodeJS.ErrnoException).code);
    if (one.name === 'TimeoutError' || /TIMEDOUT|_TIMEOUT$/.test(code)) {
      return DEADLINE_EXCEEDED;
    }
    if (/^(ECONNREFUSED|ECONNRESET|EPIPE|UND_ERR_SOCKET)$/.test(code)) {
      return UNAVAILABLE;
    }
    if (one.name === 'AbortError' && !(one.cause instanceof Error)) {
      return CANCELLED;
    }
  }
  return UNKNOWN;
}
