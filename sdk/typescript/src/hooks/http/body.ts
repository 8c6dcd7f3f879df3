/**
 * The body of a reply on its way to the application: a content encoding added by a proxy is decoded, the tail is split
 * off, and the rest is encoded again or altered by a fault. Shared by http and undici.
 *
 * The application gets a body that cannot be decoded as it arrived, if that is found before it has got any of it.
 */

import type { Transform } from 'node:stream';
import { createBrotliDecompress, createGunzip, createInflate } from 'node:zlib';
import { EMPTY } from '../../wire/bytes';
import type { CallId } from '../../wire/callid';
import { corruptBody } from '../../wire/carrier';
import type { CallEffect } from '../faults';
import { BodyEncoder, encoderFor, INVALID } from './body-encoder';
import { TailSplitter } from './tail-splitter';

/**
 * A reply with an announced tail and a known length up to this many bytes is read completely before it is delivered.
 */
export const MAX_EAGER_BYTES = 256 << 10;

/**
 * Maximum wait for the body, in milliseconds. The callee had completed it when it sent the headers, so that usually all
 * of it arrives at once. If it does not, the application must not wait longer for the headers than without tracing.
 */
const MAX_EAGER_MS = 100;

/**
 * Calls `late` if the body of a reply that is read eagerly has not arrived in time. Returns a function that stops this.
 */
export function waitForEagerBody(late: () => void): () => void {
  let immediate: NodeJS.Immediate | undefined;
  // after a timer, so that bytes count that arrived while the process was busy
  const timer = setTimeout(() => (immediate = setImmediate(late)), MAX_EAGER_MS);
  return () => {
    clearTimeout(timer);
    clearImmediate(immediate);
  };
}

/**
 * How long an error is withheld after bytes that had been withheld since `sinceMs`, in milliseconds. An error discards
 * what the application has not read yet; it gets as much time for that as without tracing.
 */
export function timeToRead(sinceMs: number): number {
  return Math.min(performance.now() - sinceMs, MAX_EAGER_MS);
}

/** The largest part of a body that is kept in memory to be altered. */
export const MAX_ALTERED_BYTES = 32 << 20;

const DECODERS: Record<string, () => Transform> = {
  gzip: createGunzip,
  'x-gzip': createGunzip,
  deflate: createInflate,
  br: createBrotliDecompress,
};

/** Whether a body in this content coding can be decoded. */
export function canDecode(coding: string): boolean {
  return coding === '' || coding === 'identity' || Object.hasOwn(DECODERS, coding);
}

/**
 * Restricts an Accept-Encoding to codings that can be decoded, so that a tail is found even if a proxy compresses.
 * Codings that are excluded by q=0 stay excluded.
 */
export function decodableEncodings(accept: string): string {
  const kept = accept
    .split(',')
    .map((one) => one.trim())
    .filter(
      (one) => one !== '' && (canDecode(one.split(';', 1)[0]!.trim().toLowerCase()) || /;\s*q=0(\.0*)?\s*$/.test(one)),
    );
  return kept.length === 0 ? 'identity' : kept.join(', ');
}

/** What happens to the bytes of a body. */
export type Alteration = 'none' | 'discard' | 'corrupt';

/** The alteration of the body that a fault causes. */
export function alterationOf({ outcome }: CallEffect): Alteration {
  return outcome === 'reset' || outcome === 'empty' ? 'discard' : outcome === 'corrupt' ? 'corrupt' : 'none';
}

/** Receives a body. */
export interface BodyReader {
  /** Returns whether more data may follow at once. */
  data(chunk: Buffer): boolean;
  /** The body is complete, or, if it was to be altered, could not be decoded. */
  end(error?: Error): void;
  /** Whether the application has got nothing of the data. */
  readonly isHolding: boolean;
  /** Drops all data, which the application has not got. */
  drop(): void;
}

/** Receives a body and its history. */
export interface Sink extends BodyReader {
  /** The history arrived, or (null) there is none. Called before `end`. */
  history(history: Buffer | null): void;
}

/** One body. `hasTail`: a tail was announced, after a body in the content coding `coding`. */
export class Body {
  private readonly splitter: TailSplitter | null;
  private readonly decoder: Transform | null;
  /** The bytes to corrupt; null if there are none or too many. */
  private collected: Buffer[] | null;
  private collectedBytes = 0;
  private readonly encoder: BodyEncoder | null;
  /** What arrived, until the application has got some of it. */
  private received: Buffer[] | null = null;
  /** Whether the body passes as it arrives, since it cannot be decoded. */
  private passesOn = false;
  private hasEnded = false;
  private hasDelivered = false;

  constructor(
    call: CallId,
    hasTail: boolean,
    coding: string,
    private readonly alteration: Alteration,
    private readonly sink: Sink,
  ) {
    this.splitter = hasTail ? new TailSplitter(call, (history) => sink.history(history)) : null;
    this.collected = alteration === 'corrupt' ? [] : null;
    this.decoder = hasTail && Object.hasOwn(DECODERS, coding) ? DECODERS[coding]!() : null;
    this.decoder?.on('data', (chunk: Buffer) => this.passesOn || this.split(chunk));
    this.decoder?.on('end', () => this.passesOn || this.finish());
    this.decoder?.on('error', (error) => {
      if (this.encoder === null) {
        this.abandon();
        sink.end(error);
      } else if (!this.passesOn) {
        this.passOn();
      }
    });
    this.encoder = this.decoder !== null && alteration === 'none' ? encoderFor(coding) : null;
    this.received = this.encoder === null ? null : [];
  }

  feed(chunk: Buffer): boolean {
    if (this.passesOn) {
      return this.sink.data(chunk);
    }
    this.received?.push(Buffer.from(chunk));
    return this.decoder === null ? this.split(chunk) : this.decoder.write(chunk);
  }

  private split(chunk: Buffer): boolean {
    const bytes = this.splitter === null ? chunk : this.splitter.feed(chunk);
    return bytes.length === 0 || this.deliver(bytes);
  }

  private deliver(bytes: Buffer): boolean {
    if (this.alteration === 'discard') {
      return true;
    }
    if (this.encoder !== null) {
      return this.deliverEncoded(this.encoder.encode(bytes));
    }
    if (this.collected === null) {
      return this.sink.data(bytes);
    }
    this.collected.push(Buffer.from(bytes));
    this.collectedBytes += bytes.length;
    if (this.collectedBytes > MAX_ALTERED_BYTES) {
      this.deliverCorrupted();
    }
    return true;
  }

  private deliverEncoded(bytes: Buffer): boolean {
    this.hasDelivered = true;
    const accepts = this.sink.data(bytes);
    if (!this.sink.isHolding) {
      this.received = null;
    }
    return accepts;
  }

  /** Delivers what arrived instead of what was decoded. Returns whether that was possible. */
  private deliverReceived(): boolean {
    const received = this.received;
    this.received = null;
    if (received === null || (this.hasDelivered && !this.sink.isHolding)) {
      return false;
    }
    this.sink.drop();
    this.splitter?.abandon();
    for (const chunk of received) {
      this.sink.data(chunk);
    }
    return true;
  }

  /** The body cannot be decoded. */
  private passOn(): void {
    this.passesOn = true;
    if (!this.deliverReceived()) {
      this.deliverHeld();
      if (!this.hasEnded) {
        this.sink.data(INVALID);
      }
    }
    if (this.hasEnded) {
      this.sink.end();
    }
  }

  private deliverHeld(): void {
    const rest = this.splitter === null ? EMPTY : this.splitter.abandon();
    if (rest.length > 0) {
      this.deliver(rest);
    }
  }

  private deliverCorrupted(): void {
    const body = this.collected === null ? EMPTY : corruptBody(Buffer.concat(this.collected));
    this.collected = null;
    if (body.length > 0) {
      this.sink.data(body);
    }
  }

  end(): void {
    this.hasEnded = true;
    if (this.received?.length === 0 && !this.hasDelivered) {
      this.passOn(); // an empty body, which is not an encoded one
    } else if (this.passesOn) {
      this.sink.end();
    } else if (this.decoder === null) {
      this.finish();
    } else {
      this.decoder.end();
    }
  }

  private finish(): void {
    const rest = this.splitter === null ? EMPTY : this.splitter.end();
    if (rest.length > 0) {
      this.deliver(rest);
    }
    if (this.encoder !== null) {
      this.sink.data(this.encoder.end());
    }
    this.deliverCorrupted();
    this.sink.end();
  }

  /** The body is incomplete, or the application does not read it. Bytes that were held back are delivered as body. */
  abandon(): void {
    if (this.passesOn) {
      return;
    }
    if (this.encoder !== null) {
      // what the decoder still returns is not delivered
      this.passesOn = true;
      if (this.deliverReceived()) {
        return;
      }
    }
    this.deliverHeld();
    this.deliverCorrupted();
  }
}
