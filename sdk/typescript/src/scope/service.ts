/** What a scope needs of the process it belongs to. Process implements it; tests may substitute it. */

import type { Receiver } from '../trust/receiver';

/** A finished history, and what its spans need besides. */
export interface FinishedHistory {
  /** 16 bytes. */
  trace: Buffer;
  /** The request had a `traceparent`. */
  hasParent: boolean;
  history: Buffer;
}

/** Receives the histories that no caller takes. Must not block and must not throw. */
export interface HistorySink {
  add(finished: FinishedHistory): void;
}

export interface Service {
  /** The service's name, 1 to 64 bytes. */
  readonly name: string;
  readonly receiver: Receiver;
  /** Null: histories that no caller takes are dropped. */
  readonly exporter: HistorySink | null;
  /** The name of the peer at an authority "host:port". */
  peerName(authority: string): string;
}
