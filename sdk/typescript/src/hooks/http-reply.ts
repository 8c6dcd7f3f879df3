/**
 * One reply of an HTTP server, held back until it is complete, or larger than 32 kB, or flushed, so that most histories are
 * known before the headers leave.
 *
 *   holding ──writeHead: status and headers are noted──▶ holding
 *   holding ──end──▶ header | tail | truncated header, then the body ──▶ over
 *   holding ──overflow, flushHeaders, a stream of events──▶ committed: tail announced, or gap ──end──▶ tail, or nothing ──▶ over
 *
 * While the reply is held, `_header` is set as it would be if the headers had left: that is what Node itself and the
 * libraries around it look at.
 */

import type { IncomingMessage, ServerResponse } from 'node:http';
import type { Scope } from '../scope/scope';
import { encodeTail, ENDING_BYTES, MAX_HEADER_BYTES, mayTail, streamed } from '../wire/carrier';
import { HISTORY_HEADER, HTTP_HEADER, REPLY_HEADER, toHeader } from '../wire/envelope';
import { MAX_HISTORY_BYTES } from '../wire/history';
import { truncate } from '../wire/truncate';
import type { Fn, Loose } from './patch';
import { routeName } from './routes';

const MAX_HELD_BYTES = 32 << 10;
const HELD = 'held by faultloom';

type Methods = 'writeHead' | 'write' | 'end' | 'flushHeaders';

export class HttpReply {
  private readonly original: Record<Methods, Fn>;
  private readonly held: Buffer[] = [];
  private heldBytes = 0;
  private state: 'holding' | 'committed' | 'over' = 'holding';
  private tail = false;
  /** The application's Content-Length, when a tail took it off the wire; else -1. */
  private declared = -1;
  private written = 0;

  constructor(
    readonly scope: Scope,
    private readonly request: IncomingMessage,
    private readonly response: ServerResponse,
  ) {
    const loose = response as unknown as Loose;
    this.original = { writeHead: loose['writeHead'], write: loose['write'], end: loose['end'], flushHeaders: loose['flushHeaders'] };
    if (scope.returnsHistory) {
      loose['writeHead'] = (...args: unknown[]) => this.writeHead(args);
      loose['write'] = (...args: unknown[]) => this.write(args);
      loose['flushHeaders'] = () => this.flushHeaders();
    } else {
      this.state = 'committed';
    }
    loose['end'] = (...args: unknown[]) => this.end(args);
    response.once('close', () => scope.abandon());
  }

  private get loose(): Loose {
    return this.response as unknown as Loose;
  }

  private call(name: Methods, args: readonly unknown[]): unknown {
    return this.original[name].apply(this.response, args as unknown[]);
  }

  private writeHead(args: unknown[]): unknown {
    const response = this.response;
    const status = Number(args[0]) | 0;
    if (this.state !== 'holding' || this.loose['_header'] || status < 100 || status > 999) {
      return this.call('writeHead', args);
    }
    const hasReason = typeof args[1] === 'string';
    if (hasReason) {
      response.statusMessage = args[1] as string;
    }
    setHeaders(response, hasReason ? args[2] : (args[2] ?? args[1]));
    response.statusCode = status;
    this.loose['_header'] = HELD;
    return response;
  }

  /** Settles status and headers as the first byte of a body would. */
  private settle(): void {
    if (!this.loose['_header']) {
      this.loose['_implicitHeader']();
    }
  }

  private write(args: unknown[]): unknown {
    const chunk = bytesOf(args[0], args[1]);
    if (this.state !== 'holding' || chunk === null || this.response.writableEnded || this.response.destroyed) {
      if (this.state === 'committed' && chunk !== null) {
        this.written += chunk.length;
      }
      return this.call('write', args);
    }
    this.settle();
    if (this.heldBytes + chunk.length > MAX_HELD_BYTES || (chunk.length > 0 && streamed((name) => this.response.getHeader(name)))) {
      this.commit();
      this.written += chunk.length;
      return this.call('write', args);
    }
    this.hold(chunk);
    const done = args.find((arg) => typeof arg === 'function');
    if (done !== undefined) {
      process.nextTick(done as () => void);
    }
    return true;
  }

  private hold(chunk: Buffer): void {
    // the application may use its buffer again
    this.held.push(Buffer.from(chunk));
    this.heldBytes += chunk.length;
  }

  private flushHeaders(): void {
    if (this.state === 'holding' && !this.response.writableEnded) {
      this.settle();
      this.commit();
    }
    this.call('flushHeaders', []);
  }

  /** Lets the headers go before the history is known. */
  private commit(): void {
    const response = this.response;
    this.state = 'committed';
    this.tail = !streamed((name) => response.getHeader(name)) && this.mayTail();
    this.loose['_header'] = null;
    if (this.tail) {
      const length = Number(response.getHeader('content-length') ?? -1);
      this.declared = Number.isSafeInteger(length) ? length : -1;
      response.removeHeader('content-length');
    }
    response.setHeader(REPLY_HEADER, this.tail ? 'tail' : 'gap');
    this.mark();
    this.call('writeHead', [response.statusCode]);
    for (const chunk of this.held.splice(0)) {
      this.written += chunk.length;
      this.call('write', [chunk]);
    }
  }

  private mayTail(): boolean {
    const request = this.request;
    return mayTail(
      this.scope.envelope.accept,
      request.method ?? '',
      (name) => request.headers[name],
      this.response.statusCode,
      (name) => this.response.getHeader(name),
    );
  }

  /** No cache may keep one caller's history, no proxy may touch the bytes. */
  private mark(): void {
    const response = this.response;
    const vary = response.getHeader('vary');
    response.setHeader('cache-control', 'no-store, no-transform');
    response.setHeader('vary', vary === undefined ? HTTP_HEADER : `${String(vary)}, ${HTTP_HEADER}`);
  }

  private end(args: unknown[]): unknown {
    const response = this.response;
    if (this.state === 'over' || response.writableEnded || response.destroyed) {
      return this.call('end', args);
    }
    const chunk = typeof args[0] === 'function' || args[0] === undefined || args[0] === null ? null : bytesOf(args[0], args[1]);
    const done = args.find((arg) => typeof arg === 'function');
    try {
      return this.state === 'holding' ? this.endHeld(chunk, done) : this.endCommitted(args, chunk, done);
    } finally {
      this.scope.abandon();
    }
  }

  private endHeld(chunk: Buffer | null, done: unknown): unknown {
    const response = this.response;
    this.settle();
    this.state = 'over';
    if (chunk !== null) {
      this.hold(chunk);
    }
    let end: Buffer[] = [];
    const history = this.scope.finish(response.statusCode, routeName(this.request));
    this.loose['_header'] = null;
    try {
      end = this.carry(history);
    } catch {
      response.removeHeader(HISTORY_HEADER);
    }
    const body = Buffer.concat([...this.held.splice(0), ...end]);
    if (!this.loose['_trailer']) {
      this.loose['_contentLength'] = body.length;
    }
    this.call('writeHead', [response.statusCode]);
    return this.call('end', body.length > 0 ? [body, done] : [done]);
  }

  /** Puts the history into the headers, or returns what goes behind the body. */
  private carry(history: Buffer | null): Buffer[] {
    const response = this.response;
    if (history === null) {
      return [];
    }
    this.mark();
    const length = response.getHeader('content-length');
    const whole = length === undefined || Number(length) === this.heldBytes;
    if (history.length > MAX_HEADER_BYTES && whole && !this.loose['_trailer'] && this.mayTail()) {
      const fits = truncate(history, MAX_HISTORY_BYTES);
      if (fits !== null) {
        response.setHeader(REPLY_HEADER, 'tail');
        if (length !== undefined) {
          // the reader learns by the length that everything is on its way
          response.setHeader('content-length', this.heldBytes + fits.length + ENDING_BYTES);
        }
        return [encodeTail(fits)];
      }
    }
    const fits = truncate(history, MAX_HEADER_BYTES);
    if (fits === null) {
      response.setHeader(REPLY_HEADER, 'gap');
    } else {
      response.setHeader(HISTORY_HEADER, toHeader(fits));
    }
    return [];
  }

  private endCommitted(args: unknown[], chunk: Buffer | null, done: unknown): unknown {
    this.state = 'over';
    const response = this.response;
    this.written += chunk?.length ?? 0;
    const history = this.scope.finish(response.statusCode, routeName(this.request));
    if (!this.tail || history === null) {
      return this.call('end', args);
    }
    if (this.declared >= 0 && this.declared !== this.written) {
      // the reader would have noticed that the body is not what was promised, and so it shall
      return response.destroy();
    }
    const fits = truncate(history, MAX_HISTORY_BYTES);
    const rest = [...(chunk === null ? [] : [chunk]), ...(fits === null ? [] : [encodeTail(fits)])];
    return this.call('end', [Buffer.concat(rest), done]);
  }
}

function bytesOf(chunk: unknown, encoding: unknown): Buffer | null {
  if (typeof chunk === 'string') {
    return Buffer.from(chunk, typeof encoding === 'string' ? (encoding as BufferEncoding) : 'utf8');
  }
  return chunk instanceof Uint8Array ? Buffer.from(chunk.buffer, chunk.byteOffset, chunk.byteLength) : null;
}

/** As writeHead would: an object, or names and values in turn, or pairs of them. */
function setHeaders(response: ServerResponse, given: unknown): void {
  if (!Array.isArray(given)) {
    for (const [name, value] of Object.entries((given ?? {}) as Record<string, string>)) {
      if (name !== '') {
        response.setHeader(name, value);
      }
    }
    return;
  }
  const pairs = Array.isArray(given[0]) ? (given as [string, string][]) : [];
  for (let i = 0; pairs.length === 0 && i + 1 < given.length; i += 2) {
    pairs.push([given[i] as string, given[i + 1] as string]);
  }
  for (const [name] of pairs) {
    response.removeHeader(name);
  }
  for (const [name, value] of pairs) {
    response.appendHeader(name, value);
  }
}
