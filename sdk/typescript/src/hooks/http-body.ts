/**
 * A reply's body on its way to the application: an encoding that a proxy put around it is undone, the tail is cut off, and a
 * fault may change what is left. Shared by http and undici.
 */

import type { Transform } from 'node:stream';
import { createBrotliDecompress, createGunzip, createInflate } from 'node:zlib';
import { EMPTY } from '../wire/bytes';
import type { CallId } from '../wire/callid';
import { corrupt } from '../wire/carrier';
import type { Kind } from '../wire/plan';
import { TailCutter } from './tail';

/** A reply of known length that announces a tail is read first and handed out then, up to this many bytes. */
export const MAX_EAGER_BYTES = 256 << 10;

/** How much of a body a fault holds in memory. */
export const MAX_ALTERED_BYTES = 32 << 20;

const DECODERS: Record<string, () => Transform> = {
  gzip: createGunzip,
  'x-gzip': createGunzip,
  deflate: createInflate,
  br: createBrotliDecompress,
};

/** Can a body in this encoding be looked at? */
export function canUndo(coding: string): boolean {
  return coding === '' || coding === 'identity' || Object.hasOwn(DECODERS, coding);
}

/**
 * An Accept-Encoding that asks only for what can be undone, so that a tail reaches us whatever a proxy does. Codings that are
 * refused (q=0) stay refused.
 */
export function undoable(accept: string): string {
  const kept = accept
    .split(',')
    .map((one) => one.trim())
    .filter((one) => one !== '' && (canUndo(one.split(';', 1)[0]!.trim().toLowerCase()) || /;\s*q=0(\.0*)?\s*$/.test(one)));
  return kept.length === 0 ? 'identity' : kept.join(', ');
}

/** Who gets the body. */
export interface Sink {
  /** Returns whether more may come at once. */
  data(chunk: Buffer): boolean;
  /** The body is complete, or (an encoding that is none) cannot be read. */
  end(error?: Error): void;
  /** The history has come, or (null) will not; before `end`. */
  history(history: Buffer | null): void;
}

/** One body. `tail`: one was announced, behind a body of that `coding`. */
export class Body {
  private readonly cutter: TailCutter | null;
  private readonly decoder: Transform | null;
  private altered: Buffer[] | null;
  private alteredBytes = 0;

  constructor(
    call: CallId,
    tail: boolean,
    coding: string,
    private readonly kind: Kind | '',
    private readonly sink: Sink,
  ) {
    this.cutter = tail ? new TailCutter(call, (history) => sink.history(history)) : null;
    this.altered = kind === 'corrupt-reply' ? [] : null;
    this.decoder = tail && Object.hasOwn(DECODERS, coding) ? DECODERS[coding]!() : null;
    this.decoder?.on('data', (chunk: Buffer) => this.decoded(chunk));
    this.decoder?.on('end', () => this.finish());
    this.decoder?.on('error', (error) => {
      this.abandon();
      sink.end(error);
    });
  }

  feed(chunk: Buffer): boolean {
    return this.decoder === null ? this.decoded(chunk) : this.decoder.write(chunk);
  }

  private decoded(chunk: Buffer): boolean {
    const bytes = this.cutter === null ? chunk : this.cutter.feed(chunk);
    return bytes.length === 0 || this.deliver(bytes);
  }

  private deliver(bytes: Buffer): boolean {
    if (this.kind === 'empty-reply' || this.kind === 'lost-reply') {
      return true;
    }
    if (this.altered === null) {
      return this.sink.data(bytes);
    }
    this.altered.push(Buffer.from(bytes));
    this.alteredBytes += bytes.length;
    if (this.alteredBytes > MAX_ALTERED_BYTES) {
      this.change();
    }
    return true;
  }

  private change(): void {
    const body = this.altered === null ? EMPTY : corrupt(Buffer.concat(this.altered));
    this.altered = null;
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
    const rest = this.cutter === null ? EMPTY : this.cutter.end();
    if (rest.length > 0) {
      this.deliver(rest);
    }
    this.change();
    this.sink.end();
  }

  /** The body broke off, or nobody reads it: what was held back is body after all. */
  abandon(): void {
    const rest = this.cutter === null ? EMPTY : this.cutter.abandon();
    if (rest.length > 0) {
      this.deliver(rest);
    }
    this.change();
  }
}
