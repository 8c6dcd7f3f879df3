/** This process, as the FAULTLOOM_… variables describe it. */

import { basename } from 'node:path';
import { Process } from '../scope/process';
import { Receiver } from '../trust/receiver';
import { TrustSource } from '../trust/trust-source';
import { Exporter } from './exporter';
import { Sampler } from './sampler';

export function processFromEnvironment(environment: NodeJS.ProcessEnv): Process {
  const exporter = Exporter.fromEnvironment(environment);
  return new Process(environment['FAULTLOOM_SERVICE'] || programName(), {
    peers: parsePeers(environment['FAULTLOOM_PEERS'] ?? ''),
    receiver: new Receiver(TrustSource.fromEnvironment(environment)),
    exporter,
    sampler: Sampler.fromEnvironment(environment, exporter !== null),
    bridge: environment['FAULTLOOM_BRIDGE'] === 'on',
  });
}

function programName(): string {
  const script = process.argv[1];
  return script === undefined ? 'node' : basename(script).replace(/\.[cm]?[jt]s$/, '');
}

/** Parses "host:port=service,…". Entries without both parts are ignored. */
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

let current: Process | undefined;

/** This process. It is created at the first use, so that importing the package reads nothing. */
export function thisProcess(): Process {
  return (current ??= processFromEnvironment(process.env));
}
