/** A socket that leads nowhere: what is written to it is gone, what it says is ours. For calls that are not made. */

import { Socket } from 'node:net';

export class StandIn extends Socket {
  // what callers ask of a TLS socket
  readonly encrypted = true;
  readonly authorized = true;

  override _read(): void {}

  override _write(_chunk: unknown, _encoding: string, done: (error?: Error) => void): void {
    done();
  }

  override _writev(_chunks: unknown, done: (error?: Error) => void): void {
    done();
  }

  override _final(done: (error?: Error) => void): void {
    done();
  }

  getPeerCertificate(): object {
    return {};
  }
}

/** A reply without a body. */
export function emptyReply(status: number, phrase: string): Buffer {
  return Buffer.from(`HTTP/1.1 ${status} ${phrase}\r\nContent-Length: 0\r\nConnection: close\r\n\r\n`);
}
