/** Opens the scopes of incoming requests. */

import { randomFillSync } from 'node:crypto';
import { AcceptResult, Receiver } from '../trust/receiver';
import { Signer } from '../trust/signer';
import { warn } from '../warn';
import { extractBridge, parseTraceparent } from '../wire/bridge';
import { truncateUtf8 } from '../wire/bytes';
import { CallId } from '../wire/callid';
import { TRACE_BYTES } from '../wire/envelope';
import { MAX_SERVICE_BYTES } from '../wire/names';
import { Origin, Scope } from './scope';
import type { HistorySink, Service } from './service';

/** Lifetime of the envelope of a sampled request. */
const SAMPLED_REQUEST_S = 60;

const CONTROL = /[\x00-\x1f\x7f]/g;

/** Selects requests without an envelope that are traced from here on. */
export interface EntrySampler {
  sample(): boolean;
}

export interface ProcessOptions {
  /** Service names by authority "host:port". */
  peers?: ReadonlyMap<string, string>;
  receiver: Receiver;
  sampler?: EntrySampler | null;
  exporter?: HistorySink | null;
  /** Envelopes of sampled requests may cross hops that run only OpenTelemetry. */
  bridge?: boolean;
}

/** The parts of an incoming request that decide whether it is traced. */
export interface IncomingRequest {
  /** The value of `x-faultloom-bin` (gRPC: bytes) or `x-faultloom` (HTTP: text). */
  readonly envelope: Buffer | string | undefined;
  /** The value of `grpc-previous-rpc-attempts`; 0 for HTTP. */
  readonly attempt: number;
  readonly traceparent: string | undefined;
  readonly baggage: string | undefined;
}

/** This process as a service: its name, its peers, and how it traces requests. */
export class Process implements Service {
  readonly name: string;
  readonly peers: ReadonlyMap<string, string>;
  readonly receiver: Receiver;
  readonly sampler: EntrySampler | null;
  readonly exporter: HistorySink | null;
  readonly bridge: boolean;
  private readonly reportedCodes = new Set<string>();

  constructor(name: string, options: ProcessOptions) {
    // readers do not take a history with a control character in the name for a tail
    this.name = truncateUtf8(name.replace(CONTROL, '?'), MAX_SERVICE_BYTES) || 'node';
    this.peers = options.peers ?? new Map();
    this.receiver = options.receiver;
    this.sampler = options.sampler ?? null;
    this.exporter = options.exporter ?? null;
    this.bridge = options.bridge ?? false;
  }

  /** The service name of an authority "host:port", or the authority itself. */
  peerName(authority: string): string {
    return this.peers.get(authority) ?? authority;
  }

  /**
   * Verifies the envelope of an incoming request, or samples the request, and begins its scope. Returns null if the
   * request is not traced; it must then be served unchanged.
   */
  openScope(request: IncomingRequest): Scope | null {
    const { envelope, attempt, traceparent, baggage } = request;
    if (envelope === undefined) {
      return this.openBridged(attempt, traceparent, baggage) ?? this.sample(traceparent);
    }
    const accepted =
      typeof envelope === 'string'
        ? this.receiver.acceptHeader(envelope, unixSeconds(), attempt)
        : this.receiver.accept(envelope, unixSeconds(), attempt);
    return this.begin(accepted, 'caller') ?? this.sample(traceparent);
  }

  private openBridged(attempt: number, traceparent: string | undefined, baggage: string | undefined): Scope | null {
    const bridged = extractBridge(traceparent, baggage);
    if (bridged === null) {
      return null;
    }
    const accepted = this.receiver.acceptBridged(bridged.envelope, bridged.call, unixSeconds(), attempt);
    return this.begin(accepted, 'bridge');
  }

  private begin(accepted: AcceptResult, origin: Origin): Scope | null {
    if (accepted === null) {
      return null;
    }
    if (typeof accepted !== 'string') {
      return new Scope(this, accepted, origin, origin === 'bridge');
    }
    // one warning per code, so that invalid envelopes cannot fill the log
    if (!this.reportedCodes.has(accepted)) {
      this.reportedCodes.add(accepted);
      warn(`${this.name}: an envelope was refused: ${accepted} (further ones are not reported)`);
    }
    return null;
  }

  /** Begins a trace here if the sampler selects the request. */
  private sample(traceparent: string | undefined): Scope | null {
    if (this.sampler === null || !this.sampler.sample()) {
      return null;
    }
    const settings = this.receiver.source.settings();
    const key = settings?.signingKey(false);
    if (settings === null || key === undefined) {
      return null;
    }
    const parent = traceparent === undefined ? null : parseTraceparent(traceparent);
    const signed = {
      history: true,
      bridge: this.bridge,
      trace: parent?.trace ?? randomFillSync(Buffer.alloc(TRACE_BYTES)),
      run: null,
      expires: unixSeconds() + SAMPLED_REQUEST_S,
      plan: null,
    };
    const envelope = new Signer(key, settings.environment).startEnvelope(signed, parent?.parent ?? CallId.random());
    return new Scope(this, envelope, 'entry', parent !== null);
  }
}

function unixSeconds(): number {
  return Math.floor(Date.now() / 1000);
}
