/** Selectors: which calls a fault or a prerequisite applies to. */

import { isIP } from 'node:net';

/** An empty field matches anything. */
export interface Selector {
  /** Service name of the sender. */
  readonly caller: string;
  /** The peer's name, its host, or the first label of its host. */
  readonly callee: string;
  /** The full name, the part after its last '/', or a template with '*' or '{…}' parts. */
  readonly call: string;
}

/** Whether a call from caller to peer matches. `name`: the gRPC method, or the raw "METHOD /path" without the query. */
export function matches(s: Selector, caller: string, peer: string, name: string): boolean {
  return (
    (s.caller === '' || s.caller === caller) &&
    (s.callee === '' || calleeMatches(s.callee, peer)) &&
    (s.call === '' || callMatches(s.call, name))
  );
}

function hostOf(peer: string): string {
  if (peer.startsWith('[')) {
    const end = peer.indexOf(']');
    return end < 0 ? peer.slice(1) : peer.slice(1, end);
  }
  const colon = peer.indexOf(':');
  return colon >= 0 && colon === peer.lastIndexOf(':') ? peer.slice(0, colon) : peer;
}

export function calleeMatches(callee: string, peer: string): boolean {
  if (callee === peer) {
    return true;
  }
  const host = hostOf(peer);
  if (callee === host) {
    return true;
  }
  const dot = host.indexOf('.');
  return dot === callee.length && host.startsWith(callee) && isIP(host) === 0;
}

export function callMatches(call: string, name: string): boolean {
  if (call === name) {
    return true;
  }
  if (!call.includes('/') && !call.includes(' ')) {
    const slash = name.lastIndexOf('/');
    return slash >= 0 && name.length - slash - 1 === call.length && name.endsWith(call);
  }
  const pattern = call.split('/');
  const actual = name.split('/');
  if (pattern.length !== actual.length) {
    return false;
  }
  for (let i = 0; i < pattern.length; i++) {
    const part = pattern[i]!;
    if (part !== actual[i] && part !== '*' && !(part.length >= 2 && part.startsWith('{') && part.endsWith('}'))) {
      return false;
    }
  }
  return true;
}
