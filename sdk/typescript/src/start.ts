/** Starting a request: signing its envelope, and being its first caller, as tests and load generators do. */

import { randomFillSync } from 'node:crypto';
import { within } from './scope/context';
import { Process, thisProcess } from './scope/process';
import { Scope } from './scope/scope';
import { Receiver } from './trust/receiver';
import { Settings } from './trust/settings';
import { sign } from './trust/signer';
import { CallId } from './wire/callid';
import { MAX_EXPIRY_S, TRACE_BYTES } from './wire/envelope';
import { decodeHistory, History } from './wire/history';
import { Fault } from './wire/plan';

/** The defaults trace without faults, with the keys of this process's trust settings. */
export interface Options {
  /** Who starts; default: this process's service name. */
  service?: string;
  /** Faults; they need a fault key. */
  plan?: readonly Fault[];
  /** 16 bytes: the run this belongs to. */
  run?: Buffer;
  /** 16 bytes; default: random. */
  trace?: Buffer;
  /** The call id from which all others are derived, so that the same gives the same; default: random. */
  root?: CallId;
  /** How long the envelope is good for, at most 600; default: 60. */
  seconds?: number;
  /** The envelope crosses hops that know OpenTelemetry only. */
  bridge?: boolean;
  settings?: Settings;
}

/** A request that was started here. */
export class Started {
  constructor(readonly scope: Scope) {}

  /** Runs what makes the request's calls, where the hooks are installed; they and all that follows them are traced and faulted. */
  run<T>(work: () => T): T {
    return within(this.scope, work);
  }

  /** Ends the request; its outermost segment is the starter's. Throws `malformed` if a callee sent what is no history. */
  finish(): History {
    const bytes = this.scope.finish(0);
    if (bytes === null) {
      throw new Error('faultloom: the request was finished before');
    }
    return decodeHistory(bytes);
  }
}

/** Starts a request. Throws Error without a key for it, and FaultloomError if the plan does not fit the format. */
export function start(options: Options = {}): Started {
  const here = thisProcess();
  const settings = options.settings ?? here.receiver.source.settings();
  const plan = options.plan !== undefined && options.plan.length > 0 ? options.plan : null;
  // a fault key also permits history
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
    environment: settings.environment,
    plan,
  };
  const receiver = options.settings === undefined ? here.receiver : Receiver.fixed(options.settings);
  const starter = new Process(options.service ?? here.service, { peers: here.peers, receiver });
  const call = options.root ?? CallId.random();
  const envelope = { ...signed, key: key.id, call, accept: 0, receiveLimit: 0, evidence: [], passedOn: sign(key, signed) };
  return new Started(new Scope(starter, envelope));
}
