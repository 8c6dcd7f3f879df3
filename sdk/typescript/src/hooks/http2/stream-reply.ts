/**
 * A reply of an HTTP/2 server. Its headers are held back until the running code has returned, so that a reply which is
 * complete by then carries its history in the headers. Nothing waits: a client may need the headers to continue.
 *
 *   open ──respond──▶ holding
 *   holding ──end──▶ header | tail | truncated header, then the body ──▶ finished
 *   holding ──the code has returned, 32 kB──▶ committed: tail or trailer announced, or gap
 *   committed ──end──▶ tail, trailer, or nothing ──▶ finished
 *
 * While the reply is held, `headersSent` and `sentHeaders` are as if the headers had been sent.
 */

import type { IncomingMessage } from 'node:http';
import { validateHeaderName, validateHeaderValue } from 'node:http';
import { constants, ServerHttp2Stream } from 'node:http2';
import type { Scope } from '../../scope/scope';
import {
  allowsTail,
  encodeTail,
  ENDING_BYTES,
  isFramed,
  isStreamed,
  MAX_HEADER_BYTES,
  MAX_TRAILER_BYTES,
} from '../../wire/carrier';
import { encodeHeader, HISTORY_HEADER, HTTP_HEADER, REPLY_HEADER } from '../../wire/envelope';
import { MAX_HISTORY_BYTES } from '../../wire/history';
import { normalizeHttpName, rawHttpName } from '../../wire/names';
import { truncateHistory } from '../../wire/truncate';
import { routeName } from '../http/routes';
import type { Fn, Loose } from '../patch';
import type { LooseHeaders } from './headers';

const MAX_HELD_BYTES = 32 << 10;

/** Connection-specific headers, which http2 rejects. */
const REFUSED = /^(connection|upgrade|http2-settings|keep-alive|proxy-connection|transfer-encoding|te)$/;

type Methods =
  | 'respond'
  | 'respondWithFile'
  | 'respondWithFD'
  | 'sendTrailers'
  | 'close'
  | 'destroy'
  | '_write'
  | '_writev'
  | '_final';

type Done = (error?: Error | null) => void;

export class StreamReply {
  private readonly original = {} as Record<Methods, Fn>;
  private state: 'open' | 'holding' | 'committed' | 'finished' = 'open';
  private head: LooseHeaders = {};
  private options: Loose = {};
  private held: Buffer[] = [];
  private heldBytes = 0;
  private carrier: 'none' | 'tail' | 'trailer' = 'none';
  /** The program's Content-Length if it was removed because of a tail; else -1. */
  private declaredBytes = -1;
  private writtenBytes = 0;
  private trailerHistory: Buffer | null = null;
  private request: IncomingMessage | null = null;

  constructor(
    readonly scope: Scope,
    private readonly stream: ServerHttp2Stream,
    private readonly requestHeaders: LooseHeaders,
  ) {
    const replace = (name: Methods, replacement: Fn): void => {
      this.original[name] = this.loose[name];
      this.loose[name] = replacement;
    };
    replace('respond', (headers: unknown, options: unknown) => this.respond(headers, options));
    for (const name of ['respondWithFile', 'respondWithFD'] as const) {
      replace(name, (file: unknown, headers: unknown, options: unknown) =>
        this.respondWithFile(name, file, headers, options),
      );
    }
    replace('sendTrailers', (trailers: unknown) => this.sendTrailers(trailers));
    replace('close', (...args: unknown[]) => this.leave('close', args));
    replace('destroy', (...args: unknown[]) => this.leave('destroy', args));
    replace('_write', (chunk: unknown, encoding: unknown, done: Done) =>
      this.write([{ chunk, encoding }], done, () => this.call('_write', [chunk, encoding, done])),
    );
    replace('_writev', (chunks: WrittenChunk[], done: Done) =>
      this.write(chunks, done, () => this.call('_writev', [chunks, done])),
    );
    replace('_final', (done: Done) => this.final(done));
    stream.once('close', () => scope.abandon());
  }

  /** The request of the compatibility API. */
  setRequest(request: IncomingMessage): void {
    this.request = request;
  }

  private get loose(): Loose {
    return this.stream as unknown as Loose;
  }

  private call(name: Methods, args: readonly unknown[]): unknown {
    return this.original[name].apply(this.stream, args as unknown[]);
  }

  private name(): string {
    if (this.request !== null) {
      return routeName(this.request);
    }
    const { ':method': method, ':path': path } = this.requestHeaders;
    return normalizeHttpName(rawHttpName(String(method ?? 'GET'), String(path ?? '/')));
  }

  private get status(): number {
    return Number(this.head[':status'] ?? 200);
  }

  private finish(): Buffer | null {
    return this.scope.finish(this.status, this.name());
  }

  private respond(headers: unknown, options: unknown): unknown {
    const head = this.state === 'open' && !this.stream.destroyed && !this.stream.closed ? validHeaders(headers) : null;
    if (head === null) {
      return this.call('respond', [headers, options]); // throws, or has headers in another form
    }
    this.head = head;
    this.options = { ...(options as Loose | undefined) };
    const isEmpty =
      Boolean(this.options['endStream']) || this.loose['headRequest'] === true || [204, 205, 304].includes(this.status);
    if (!this.scope.returnsHistory) {
      this.state = 'committed';
      if (isEmpty) {
        this.state = 'finished';
        this.finish();
      }
      return this.call('respond', [headers, options]);
    }
    if (isEmpty) {
      this.state = 'finished';
      this.attachHeader(this.finish());
      return this.call('respond', [this.head, this.options]);
    }
    this.state = 'holding';
    for (const [name, value] of [
      ['headersSent', true],
      ['sentHeaders', head],
    ] as const) {
      Object.defineProperty(this.stream, name, { value, configurable: true });
    }
    setImmediate(() => this.commit());
    return undefined;
  }

  /** Node itself sends a file, so the program's work is done. */
  private respondWithFile(
    name: 'respondWithFile' | 'respondWithFD',
    file: unknown,
    headers: unknown,
    options: unknown,
  ): unknown {
    const head = this.state === 'open' ? validHeaders(headers) : null;
    if (head === null) {
      return this.call(name, [file, headers, options]);
    }
    this.head = head;
    this.state = 'finished';
    this.attachHeader(this.finish());
    return this.call(name, [file, this.head, options]);
  }

  /** Sends the headers as they are, with what the fields say. Returns what `respond` has thrown. */
  private sendHead(): unknown {
    delete this.loose['headersSent'];
    delete this.loose['sentHeaders'];
    try {
      this.call('respond', [this.head, this.options]);
      return undefined;
    } catch (error) {
      return error;
    }
  }

  private write(chunks: readonly WrittenChunk[], done: Done, write: () => void): void {
    if (this.state === 'open') {
      this.respond({}, {}); // as Node does for a write without headers
    }
    const bytes = Buffer.concat(chunks.map(bytesOf));
    this.writtenBytes += bytes.length;
    if (this.state !== 'holding') {
      write();
      return;
    }
    this.held.push(bytes);
    this.heldBytes += bytes.length;
    if (this.heldBytes > MAX_HELD_BYTES) {
      this.commit(done);
    } else {
      done();
    }
  }

  /** Sends the headers before the history is known. */
  private commit(done: Done = () => undefined): void {
    if (this.state !== 'holding') {
      return;
    }
    if (this.stream.closed || this.stream.destroyed) {
      this.state = 'finished';
      done();
      return;
    }
    this.state = 'committed';
    this.announceCarrier();
    const error = this.sendHead();
    const body = Buffer.concat(this.held.splice(0));
    if (error !== undefined) {
      done(error as Error);
      this.stream.destroy(error as Error);
    } else if (body.length > 0) {
      this.call('_write', [body, 'buffer', done]);
    } else {
      done();
    }
  }

  private announceCarrier(): void {
    const header = (name: string): string | undefined => lookUp(this.head, name);
    if (!isStreamed(header) && this.mayUseTail()) {
      this.carrier = 'tail';
      const length = Number(this.head['content-length'] ?? -1);
      this.declaredBytes = Number.isSafeInteger(length) ? length : -1;
      delete this.head['content-length'];
    } else if (isFramed(header) && /(^|,)\s*trailers\s*(;|,|$)/i.test(lookUp(this.requestHeaders, 'te') ?? '')) {
      this.carrier = 'trailer';
    }
    this.head[REPLY_HEADER] = this.carrier === 'none' ? 'gap' : this.carrier;
    this.setCacheHeaders();
    if (this.carrier !== 'none') {
      // Node must not end the body with the program's last bytes
      this.options['waitForTrailers'] = true;
    }
  }

  private mayUseTail(): boolean {
    return allowsTail(
      this.scope.envelope.accept,
      String(this.requestHeaders[':method'] ?? ''),
      (name) => lookUp(this.requestHeaders, name),
      this.status,
      (name) => lookUp(this.head, name),
    );
  }

  /** Forbids caches from storing a history and proxies from transforming the body. */
  private setCacheHeaders(): void {
    const vary = lookUp(this.head, 'vary');
    this.head['cache-control'] = 'no-store, no-transform';
    this.head['vary'] = vary === undefined ? HTTP_HEADER : `${vary}, ${HTTP_HEADER}`;
  }

  private attachHeader(history: Buffer | null): void {
    if (history === null) {
      return;
    }
    this.setCacheHeaders();
    const fits = truncateHistory(history, MAX_HEADER_BYTES);
    if (fits === null) {
      this.head[REPLY_HEADER] = 'gap';
    } else {
      this.head[HISTORY_HEADER] = encodeHeader(fits);
    }
  }

  private final(done: Done): void {
    const before = this.state;
    if (before === 'open') {
      this.call('_final', [done]); // a reply to HEAD, or none
      return;
    }
    this.state = 'finished';
    if (this.stream.aborted || this.stream.destroyed) {
      this.call('_final', [done]); // the peer has ended the stream
    } else if (before === 'holding') {
      this.endHeld(done);
    } else if (before === 'committed') {
      this.endCommitted(done);
    } else {
      this.call('_final', [done]);
    }
  }

  private endHeld(done: Done): void {
    const history = this.finish();
    const length = lookUp(this.head, 'content-length');
    const isComplete = length === undefined || Number(length) === this.heldBytes;
    const fits =
      history !== null && history.length > MAX_HEADER_BYTES && isComplete && this.mayUseTail()
        ? truncateHistory(history, MAX_HISTORY_BYTES)
        : null;
    if (fits === null) {
      this.attachHeader(history);
    } else {
      this.held.push(encodeTail(fits));
      this.head[REPLY_HEADER] = 'tail';
      this.setCacheHeaders();
      if (length !== undefined) {
        this.head['content-length'] = this.heldBytes + fits.length + ENDING_BYTES; // the length covers the tail too
      }
    }
    const error = this.sendHead();
    if (error !== undefined) {
      done(error as Error);
      return;
    }
    this.endWith(Buffer.concat(this.held.splice(0)), done);
  }

  private endCommitted(done: Done): void {
    const history = this.finish();
    if (this.carrier === 'trailer' && history !== null) {
      this.trailerHistory = truncateHistory(history, MAX_TRAILER_BYTES);
    }
    if (this.carrier !== 'tail' || history === null) {
      this.call('_final', [done]);
    } else if (this.declaredBytes >= 0 && this.declaredBytes !== this.writtenBytes) {
      // without the SDK the client would get an error for a body of the wrong length, so it must get one here
      this.stream.close(constants.NGHTTP2_PROTOCOL_ERROR);
      done();
    } else {
      const fits = truncateHistory(history, MAX_HISTORY_BYTES);
      this.endWith(fits === null ? Buffer.alloc(0) : encodeTail(fits), done);
    }
  }

  private endWith(rest: Buffer, done: Done): void {
    if (rest.length === 0) {
      this.call('_final', [done]);
      return;
    }
    this.call('_write', [
      rest,
      'buffer',
      (error?: Error) => (error ? done(error) : void this.call('_final', [done])),
    ]);
  }

  private sendTrailers(trailers: unknown): unknown {
    const history = this.trailerHistory;
    return this.call('sendTrailers', [
      history === null ? trailers : { ...(trailers as Loose), [HISTORY_HEADER]: encodeHeader(history) },
    ]);
  }

  /** The program, or the end of the connection, ends the stream before the reply is complete. */
  private leave(name: 'close' | 'destroy', args: unknown[]): unknown {
    if (!this.stream.destroyed && !this.stream.closed) {
      this.commit();
      if (!this.stream.writableEnded) {
        this.state = 'finished';
      }
    }
    return this.call(name, args);
  }
}

interface WrittenChunk {
  chunk: unknown;
  encoding: unknown;
}

function bytesOf({ chunk, encoding }: WrittenChunk): Buffer {
  return typeof chunk === 'string' ? Buffer.from(chunk, encoding as BufferEncoding) : Buffer.from(chunk as Uint8Array);
}

function lookUp(headers: LooseHeaders, name: string): string | undefined {
  const value = headers[name];
  return value === undefined ? undefined : String(value);
}

/** A copy of headers with names in lower case; null if http2 refuses them or they have another form. */
function validHeaders(headers: unknown): LooseHeaders | null {
  if (Array.isArray(headers) || (headers !== undefined && (typeof headers !== 'object' || headers === null))) {
    return null;
  }
  const out = { ...(headers as LooseHeaders | undefined) }; // with symbols, which mark sensitive headers
  try {
    for (const [key, value] of Object.entries(out)) {
      const name = key.toLowerCase();
      if (name.startsWith(':') ? name !== ':status' : REFUSED.test(name)) {
        return null;
      }
      if (!name.startsWith(':') && value !== undefined) {
        validateHeaderName(name);
        validateHeaderValue(name, String(value));
      }
      if (name !== key) {
        delete out[key];
        out[name] = value;
      }
    }
  } catch {
    return null;
  }
  const status = Number(out[':status'] ?? 200);
  return Number.isInteger(status) && status >= 200 && status <= 599 ? out : null;
}
