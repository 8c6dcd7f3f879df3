/** Which sends are meant. */

import { isIP } from 'node:net';

/** An empty part matches anything. */
export interface Selector {
  /** Service name of the sender. */
  readonly caller: string;
  /** Name of the peer, its host, or the first label of its host. */
  readonly callee: string;
  /** Full name, what follows the name's last '/', or a template with '*' or '{…}' parts. */
  readonly call: string;
}

/** Decides about a send of caller to peer; name is the gRPC method or the raw "METHOD /path" without the query. */
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
  const wanted = call.split('/');
  const given = name.split('/');
  if (wanted.length !== given.length) {
    return false;
  }
  for (let i = 0; i < wanted.length; i++) {
    const w = wanted[i]!;
    if (w !== given[i] && w !== '*' && !(w.length >= 2 && w.startsWith('{') && w.endsWith('}'))) {
      return false;
    }
  }
  return true;
}
