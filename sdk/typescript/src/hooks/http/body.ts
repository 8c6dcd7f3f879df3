/**
 * The body of a reply on its way to the application: a content encoding added by a proxy is decoded, the tail is split
 * off, and the rest may be altered by a fault. Shared by http and undici.
 */

import type { Transform } from 'node:stream';
import { createBrotliDecompress, createGunzip, createInflate } from 'node:zlib';
import { EMPTY } from '../../wire/bytes';
import type { CallId } from '../../wire/callid';
import { corruptBody } from '../../wire/carrier';
import type { CallEffect } from '../faults';
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
  /** The body is complete, or could not be decoded. */
  end(error?: Error): void;
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
    this.decoder?.on('data', (chunk: Buffer) => this.split(chunk));
    this.decoder?.on('end', () => this.finish());
    this.decoder?.on('error', (error) => {
      this.abandon();
      sink.end(error);
    });
  }

  feed(chunk: Buffer): boolean {
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

  private deliverCorrupted(): void {
    const body = this.collected === null ? EMPTY : corruptBody(Buffer.concat(this.collected));
    this.collected = null;
    if (body.length > 0) {
      this.sink.data(body);
    }
  }

  end(): void {
    if (this.decoder === null) {
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
    this.deliverCorrupted();
    this.sink.end();
  }

  /** The body is incomplete, or the application does not read it. Bytes that were held back are delivered as body. */
  abandon(): void {
    const rest = this.splitter === null ? EMPTY : this.splitter.abandon();
    if (rest.length > 0) {
      this.deliver(rest);
    }
    this.deliverCorrupted();
  }
}
