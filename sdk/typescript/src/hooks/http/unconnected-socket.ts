/** A socket without a connection, for calls that are not made: writes are discarded, and a reply can be pushed. */

import { Socket } from 'node:net';

export class UnconnectedSocket extends Socket {
  // properties of a TLS socket that callers check
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
