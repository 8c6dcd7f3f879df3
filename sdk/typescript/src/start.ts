/** Starts traced requests: signs the envelope and acts as the first caller, as tests and load generators do. */

import { randomFillSync } from 'node:crypto';
import { thisProcess } from './entry/this-process';
import { withScope } from './scope/context';
import { Process } from './scope/process';
import { Scope } from './scope/scope';
import { Receiver } from './trust/receiver';
import { TrustSettings } from './trust/settings';
import { Signer } from './trust/signer';
import { CallId } from './wire/callid';
import { MAX_EXPIRY_S, TRACE_BYTES } from './wire/envelope';
import { decodeHistory, History } from './wire/history';
import { Fault } from './wire/plan';

/** By default a request is traced without faults, signed with a key of this process's trust settings. */
export interface Options {
  /** The service that starts the request; default: this process's service name. */
  service?: string;
  /** The faults to inject; they require a fault key. */
  plan?: readonly Fault[];
  /** The id of the run, 16 bytes. */
  run?: Buffer;
  /** The trace id, 16 bytes; default: random. */
  trace?: Buffer;
  /** The call id from which all others are derived; set it to repeat the ids of a request. Default: random. */
  root?: CallId;
  /** Lifetime of the envelope in seconds, at most 600; default: 60. */
  seconds?: number;
  /** The envelope may cross hops that run only OpenTelemetry. */
  bridge?: boolean;
  settings?: TrustSettings;
}

/** A request that this process started. */
export class Started {
  constructor(readonly scope: Scope) {}

  /**
   * Runs the function that makes the request's calls. The hooks must be installed; the calls and all calls below them
   * are traced.
   */
  run<T>(work: () => T): T {
    return withScope(this.scope, work);
  }

  /**
   * Ends the request and returns its history; the root segment is the starter's. Throws `malformed` if a callee
   * returned an invalid history.
   */
  finish(): History {
    const bytes = this.scope.finish(0);
    if (bytes === null) {
      throw new Error('faultloom: the request has already been finished');
    }
    return decodeHistory(bytes);
  }
}

/**
 * Starts a request. Throws Error if there is no key to sign with, and FaultloomError if the plan exceeds the limits of
 * the format.
 */
export function start(options: Options = {}): Started {
  const local = thisProcess();
  const settings = options.settings ?? local.receiver.source.settings();
  const plan = options.plan !== undefined && options.plan.length > 0 ? options.plan : null;
  // a fault key may sign a request without a plan too
  const key = settings?.signingKey(plan !== null) ?? settings?.signingKey(true);
  if (settings === null || key === undefined) {
    throw new Error('faultloom: no key to sign with');
  }
  const signed = {
    history: true,
    bridge: options.bridge ?? false,
    trace: options.trace ?? randomFillSync(Buffer.alloc(TRACE_BYTES)),
    run: options.run ?? null,
    expires: Math.floor(Date.now() / 1000) + Math.min(options.seconds ?? 60, MAX_EXPIRY_S),
    plan,
  };
  const receiver = options.settings === undefined ? local.receiver : Receiver.fixed(options.settings);
  const starter = new Process(options.service ?? local.name, { peers: local.peers, receiver });
  const signer = new Signer(key, settings.environment);
  return new Started(new Scope(starter, signer.startEnvelope(signed, options.root ?? CallId.random())));
}
