/**
 * A reply of an HTTP server. It is held back until it is complete, larger than 32 kB, or flushed, so that most
 * histories are known before the headers are sent.
 *
 *   holding ──writeHead: status and headers are kept──▶ holding
 *   holding ──end──▶ header | tail | truncated header, then the body ──▶ finished
 *   holding ──overflow, flushHeaders, a stream of events──▶ committed: tail announced, or gap
 *   committed ──end──▶ tail, or nothing ──▶ finished
 *
 * While the reply is held, `_header` is set as if the headers had been sent, because Node and its frameworks check it.
 */

import type { IncomingMessage, ServerResponse } from 'node:http';
import type { Scope } from '../../scope/scope';
import { allowsTail, encodeTail, ENDING_BYTES, isStreamed, MAX_HEADER_BYTES } from '../../wire/carrier';
import { encodeHeader, HISTORY_HEADER, HTTP_HEADER, REPLY_HEADER } from '../../wire/envelope';
import { MAX_HISTORY_BYTES } from '../../wire/history';
import { truncateHistory } from '../../wire/truncate';
import type { Fn, Loose } from '../patch';
import { routeName } from './routes';

const MAX_HELD_BYTES = 32 << 10;
const HELD = 'held by faultloom';

type Methods = 'writeHead' | 'write' | 'end' | 'flushHeaders';

export class ServerReply {
  private readonly original: Record<Methods, Fn>;
  private readonly held: Buffer[] = [];
  private heldBytes = 0;
  private state: 'holding' | 'committed' | 'finished' = 'holding';
  private sendsTail = false;
  /** The application's Content-Length if it was removed because of a tail; else -1. */
  private declaredBytes = -1;
  private writtenBytes = 0;

  constructor(
    readonly scope: Scope,
    private readonly request: IncomingMessage,
    private readonly response: ServerResponse,
  ) {
    const loose = response as unknown as Loose;
    this.original = {
      writeHead: loose['writeHead'],
      write: loose['write'],
      end: loose['end'],
      flushHeaders: loose['flushHeaders'],
    };
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

  /** Fixes status and headers as the first byte of a body would. */
  private fixHead(): void {
    if (!this.loose['_header']) {
      this.loose['_implicitHeader']();
    }
  }

  private write(args: unknown[]): unknown {
    const chunk = bytesOf(args[0], args[1]);
    if (this.state !== 'holding' || chunk === null || this.response.writableEnded || this.response.destroyed) {
      if (this.state === 'committed' && chunk !== null) {
        this.writtenBytes += chunk.length;
      }
      return this.call('write', args);
    }
    this.fixHead();
    if (
      this.heldBytes + chunk.length > MAX_HELD_BYTES ||
      (chunk.length > 0 && isStreamed((name) => this.response.getHeader(name)))
    ) {
      this.commit();
      this.writtenBytes += chunk.length;
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
    // the application may reuse its buffer
    this.held.push(Buffer.from(chunk));
    this.heldBytes += chunk.length;
  }

  private flushHeaders(): void {
    if (this.state === 'holding' && !this.response.writableEnded) {
      this.fixHead();
      this.commit();
    }
    this.call('flushHeaders', []);
  }

  /** Sends the headers before the history is known. */
  private commit(): void {
    const response = this.response;
    this.state = 'committed';
    this.sendsTail = !isStreamed((name) => response.getHeader(name)) && this.mayUseTail();
    this.loose['_header'] = null;
    if (this.sendsTail) {
      const length = Number(response.getHeader('content-length') ?? -1);
      this.declaredBytes = Number.isSafeInteger(length) ? length : -1;
      response.removeHeader('content-length');
    }
    response.setHeader(REPLY_HEADER, this.sendsTail ? 'tail' : 'gap');
    this.setCacheHeaders();
    this.call('writeHead', [response.statusCode]);
    for (const chunk of this.held.splice(0)) {
      this.writtenBytes += chunk.length;
      this.call('write', [chunk]);
    }
  }

  private mayUseTail(): boolean {
    const request = this.request;
    return allowsTail(
      this.scope.envelope.accept,
      request.method ?? '',
      (name) => request.headers[name],
      this.response.statusCode,
      (name) => this.response.getHeader(name),
    );
  }

  /** Forbids caches to store a history and proxies to transform the body. */
  private setCacheHeaders(): void {
    const response = this.response;
    const vary = response.getHeader('vary');
    response.setHeader('cache-control', 'no-store, no-transform');
    response.setHeader('vary', vary === undefined ? HTTP_HEADER : `${String(vary)}, ${HTTP_HEADER}`);
  }

  private end(args: unknown[]): unknown {
    const response = this.response;
    if (this.state === 'finished' || response.writableEnded || response.destroyed) {
      return this.call('end', args);
    }
    const chunk =
      typeof args[0] === 'function' || args[0] === undefined || args[0] === null ? null : bytesOf(args[0], args[1]);
    const done = args.find((arg) => typeof arg === 'function');
    try {
      return this.state === 'holding' ? this.endHeld(chunk, done) : this.endCommitted(args, chunk, done);
    } finally {
      this.scope.abandon();
    }
  }

  private endHeld(chunk: Buffer | null, done: unknown): unknown {
    const response = this.response;
    this.fixHead();
    this.state = 'finished';
    if (chunk !== null) {
      this.hold(chunk);
    }
    let end: Buffer[] = [];
    const history = this.scope.finish(response.statusCode, routeName(this.request));
    this.loose['_header'] = null;
    try {
      end = this.attachHistory(history);
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

  /** Puts the history into the headers, or returns the tail to send after the body. */
  private attachHistory(history: Buffer | null): Buffer[] {
    const response = this.response;
    if (history === null) {
      return [];
    }
    this.setCacheHeaders();
    const length = response.getHeader('content-length');
    const isComplete = length === undefined || Number(length) === this.heldBytes;
    if (history.length > MAX_HEADER_BYTES && isComplete && !this.loose['_trailer'] && this.mayUseTail()) {
      const fits = truncateHistory(history, MAX_HISTORY_BYTES);
      if (fits !== null) {
        response.setHeader(REPLY_HEADER, 'tail');
        if (length !== undefined) {
          // the length covers the tail too
          response.setHeader('content-length', this.heldBytes + fits.length + ENDING_BYTES);
        }
        return [encodeTail(fits)];
      }
    }
    const fits = truncateHistory(history, MAX_HEADER_BYTES);
    if (fits === null) {
      response.setHeader(REPLY_HEADER, 'gap');
    } else {
      response.setHeader(HISTORY_HEADER, encodeHeader(fits));
    }
    return [];
  }

  private endCommitted(args: unknown[], chunk: Buffer | null, done: unknown): unknown {
    this.state = 'finished';
    const response = this.response;
    this.writtenBytes += chunk?.length ?? 0;
    const history = this.scope.finish(response.statusCode, routeName(this.request));
    if (!this.sendsTail || history === null) {
      return this.call('end', args);
    }
    if (this.declaredBytes >= 0 && this.declaredBytes !== this.writtenBytes) {
      // without the SDK the client would get an error for a body of the wrong length, so it must get one here
      return response.destroy();
    }
    const fits = truncateHistory(history, MAX_HISTORY_BYTES);
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

/** Sets headers as writeHead does: from an object, a flat list, or a list of pairs. */
function setHeaders(response: ServerResponse, headers: unknown): void {
  if (!Array.isArray(headers)) {
    for (const [name, value] of Object.entries((headers ?? {}) as Record<string, string>)) {
      if (name !== '') {
        response.setHeader(name, value);
      }
    }
    return;
  }
  const pairs = Array.isArray(headers[0]) ? (headers as [string, string][]) : [];
  for (let i = 0; pairs.length === 0 && i + 1 < headers.length; i += 2) {
    pairs.push([headers[i] as string, headers[i + 1] as string]);
  }
  for (const [name] of pairs) {
    response.removeHeader(name);
  }
  for (const [name, value] of pairs) {
    response.appendHeader(name, value);
  }
}
