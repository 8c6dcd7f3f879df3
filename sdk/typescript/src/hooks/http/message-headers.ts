/** The headers of a message that Node received, which keeps them raw and parsed. */

/** Headers as `IncomingMessage` and the events of http2 have them. */
export interface ReceivedHeaders {
  readonly headers: Record<string, string | string[] | number | undefined>;
  readonly rawHeaders: string[];
}

export class MessageHeaders {
  constructor(private readonly message: ReceivedHeaders) {}

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
