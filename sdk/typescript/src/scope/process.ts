/** What a service knows about itself and its surroundings, and how the scopes of its requests begin. */

import { randomFillSync } from 'node:crypto';
import { basename } from 'node:path';
import { complain } from '../complain';
import { Exporter } from '../entry/exporter';
import { Sampler } from '../entry/sampler';
import { Status } from '../entry/status';
import { Acceptance, Receiver } from '../trust/receiver';
import { sign } from '../trust/signer';
import { Source } from '../trust/source';
import { bridgeIn, parseTraceparent } from '../wire/bridge';
import { cut } from '../wire/bytes';
import { CallId } from '../wire/callid';
import { Envelope, TRACE_BYTES } from '../wire/envelope';
import { MAX_SERVICE_BYTES } from '../wire/names';
import { NO_COUNTERS } from '../wire/plan';
import { Origin, Scope } from './scope';

/** How long the envelope of a request drawn at the entry is good for. */
const ENTRY_S = 60;

/** What a process is made of, apart from its name. */
export interface Parts {
  /** Address "host:port" to service name. */
  peers?: ReadonlyMap<string, string>;
  receiver: Receiver;
  sampler?: Sampler | null;
  exporter?: Exporter | null;
  /** Requests drawn at the entry may cross hops that know OpenTelemetry only. */
  bridge?: boolean;
  status?: Status | null;
}

export class Process {
  /** 1 to 64 bytes. */
  readonly service: string;
  readonly peers: ReadonlyMap<string, string>;
  readonly receiver: Receiver;
  readonly sampler: Sampler | null;
  readonly exporter: Exporter | null;
  readonly bridge: boolean;
  readonly status: Status | null;
  private readonly told = new Set<string>();

  constructor(service: string, parts: Parts) {
    this.service = cut(service, MAX_SERVICE_BYTES) || 'node';
    this.peers = parts.peers ?? new Map();
    this.receiver = parts.receiver;
    this.sampler = parts.sampler ?? null;
    this.exporter = parts.exporter ?? null;
    this.bridge = parts.bridge ?? false;
    this.status = parts.status ?? null;
  }

  /** As the FAULTLOOM_… variables describe it. */
  static fromEnvironment(environment: NodeJS.ProcessEnv): Process {
    const service = cut(environment['FAULTLOOM_SERVICE'] || programName(), MAX_SERVICE_BYTES);
    const source = Source.fromEnvironment(environment);
    const exporter = Exporter.fromEnvironment(environment);
    return new Process(service, {
      peers: parsePeers(environment['FAULTLOOM_PEERS'] ?? ''),
      receiver: new Receiver(source),
      exporter,
      sampler: Sampler.fromEnvironment(environment, exporter !== null),
      bridge: environment['FAULTLOOM_BRIDGE'] === 'on',
      status: Status.fromEnvironment(environment, service, () => source.state()),
    });
  }

  /** Names an authority "host:port": as FAULTLOOM_PEERS does, else as it is. */
  peer(authority: string): string {
    return this.peers.get(authority) ?? authority;
  }

  /**
   * The scope of a gRPC request, or null: then it is served as if there were no SDK. `own`: the value of `x-faultloom-bin`,
   * `attempt`: that of `grpc-previous-rpc-attempts` or 0; the others are metadata of the same names.
   */
  openGrpc(own: Buffer | undefined, attempt: number, traceparent: string | undefined, baggage: string | undefined): Scope | null {
    if (own === undefined) {
      return this.openOther(attempt, traceparent, baggage);
    }
    return this.begin(this.receiver.accept(own, unixSeconds(), attempt), 'caller') ?? this.openEntry(traceparent);
  }

  /** The scope of an HTTP request, or null. `own`: the value of `x-faultloom`; the others are headers of the same names. */
  openHttp(own: string | undefined, traceparent: string | undefined, baggage: string | undefined): Scope | null {
    if (own === undefined) {
      return this.openOther(0, traceparent, baggage);
    }
    return this.begin(this.receiver.acceptHeader(own, unixSeconds(), 0), 'caller') ?? this.openEntry(traceparent);
  }

  private openOther(attempt: number, traceparent: string | undefined, baggage: string | undefined): Scope | null {
    const bridged = bridgeIn(traceparent, baggage);
    if (bridged !== null) {
      const accepted = this.receiver.acceptHeader(bridged.envelope, unixSeconds(), attempt, bridged.traceparent.parent);
      const scope = this.begin(accepted, 'bridge');
      if (scope !== null) {
        return scope;
      }
    }
    return this.openEntry(traceparent);
  }

  private begin(accepted: Acceptance, origin: Origin): Scope | null {
    if (accepted === null) {
      return null;
    }
    if (typeof accepted !== 'string') {
      return new Scope(this, accepted, origin, origin === 'bridge');
    }
    // once per code: strangers may send anything, and a log that they can fill is a fault of its own
    if (!this.told.has(accepted)) {
      this.told.add(accepted);
      complain(`${this.service}: an envelope was refused: ${accepted} (further ones are not reported)`);
    }
    return null;
  }

  /** Begins a request here, if it is drawn. */
  private openEntry(traceparent: string | undefined): Scope | null {
    if (this.sampler === null || !this.sampler.draw()) {
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
      expires: unixSeconds() + ENTRY_S,
      environment: settings.environment,
      plan: null,
    };
    const envelope: Envelope = {
      ...signed,
      key: key.id,
      call: parent?.parent ?? CallId.random(),
      accept: 0,
      receiveLimit: 0,
      evidence: NO_COUNTERS,
      passedOn: sign(key, signed),
    };
    return new Scope(this, envelope, 'entry', parent !== null);
  }
}

function unixSeconds(): number {
  return Math.floor(Date.now() / 1000);
}

function programName(): string {
  const script = process.argv[1];
  return script === undefined ? 'node' : basename(script).replace(/\.[cm]?[jt]s$/, '');
}

/** Reads "host:port=service,…". Entries without both parts are ignored. */
export function parsePeers(text: string): Map<string, string> {
  const peers = new Map<string, string>();
  for (const entry of text.split(',')) {
    const equals = entry.indexOf('=');
    const address = entry.slice(0, Math.max(equals, 0)).trim();
    const name = entry.slice(equals + 1).trim();
    if (address !== '' && name !== '') {
      peers.set(address, name);
    }
  }
  return peers;
}

let ours: Process | undefined;

/** This process; made at the first use, so that importing the package reads nothing. */
export function thisProcess(): Process {
  return (ours ??= Process.fromEnvironment(process.env));
}
