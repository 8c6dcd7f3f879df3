/** The interfaces of a scope to its process and to the export of histories. Process and the exporter implement them. */

import type { Receiver } from '../trust/receiver';

/** A finished history and the data for its spans. */
export interface FinishedHistory {
  /** 16 bytes. */
  trace: Buffer;
  /** The request had a `traceparent`. */
  hasParent: boolean;
  history: Buffer;
}

/** Receives the histories of requests whose callers do not receive them. Must not block and must not throw. */
export interface HistorySink {
  add(finished: FinishedHistory): void;
}

/** The process of a scope. */
export interface Service {
  /** The service's name, 1 to 64 bytes. */
  readonly name: string;
  readonly receiver: Receiver;
  /** Null: histories that do not return to a caller are dropped. */
  readonly exporter: HistorySink | null;
  /** The name of the peer at an authority "host:port". */
  peerName(authority: string): string;
}
