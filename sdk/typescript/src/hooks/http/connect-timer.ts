/**
 * Measures how long a request of Node's HTTP client waits for its own connection: name resolution, connecting, TLS.
 */

import type { Socket } from 'node:net';
import type { OutgoingCall, Scope } from '../../scope/scope';

/** µs, at least 1, from a time of `performance.now()` until another. */
export function microseconds(startMs: number, endMs: number): number {
  return Math.max(1, Math.round((endMs - startMs) * 1000));
}

/** Whether a socket is not connected yet, or its TLS handshake has not ended. */
function isConnecting(socket: Socket): boolean {
  return socket.connecting === true || (socket as { secureConnecting?: boolean }).secureConnecting === true;
}

/** Measures the connection of a call that has just got its socket. Returns a function to end it if the call fails. */
export function measureConnection(scope: Scope, call: OutgoingCall, socket: Socket): () => void {
  if (!isConnecting(socket)) {
    return () => undefined;
  }
  const startMs = performance.now();
  const event = (socket as { encrypted?: boolean }).encrypted === true ? 'secureConnect' : 'connect';
  const end = (): void => {
    socket.removeListener(event, end);
    if (call.connectUs === 0) {
      scope.setConnectTime(call, microseconds(startMs, performance.now()));
    }
  };
  socket.once(event, end);
  return end;
}
