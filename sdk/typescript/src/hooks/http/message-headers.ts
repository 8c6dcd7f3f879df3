/** The headers of a message that Node received, which keeps them raw and parsed. */

import type { IncomingMessage } from 'node:http';

export class MessageHeaders {
  constructor(private readonly message: IncomingMessage) {}

  get(name: string): string | undefined {
    const value = this.message.headers[name];
    return value === undefined ? undefined : String(value);
  }

  remove(name: string): void {
    const raw = this.message.rawHeaders;
    for (let i = raw.length - 2; i >= 0; i -= 2) {
      if (raw[i]!.toLowerCase() === name) {
        raw.splice(i, 2);
      }
    }
    delete this.message.headers[name];
  }

  set(name: string, value: string): void {
    this.remove(name);
    this.message.rawHeaders.push(name, value);
    this.message.headers[name] = value;
  }
}
