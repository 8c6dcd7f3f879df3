/**
 * @grpc/grpc-js as a caller: all four kinds of calls, below the application's interceptors and above the library's retries.
 *
 * `Channel.createCall` makes an object that takes serialized messages and hands serialized messages and the final status
 * to a listener. Ours stands between the two, so faults are statuses as the transport would report them, and the library
 * itself makes the errors that the application sees.
 */

import { current, outside } from '../scope/context';
import { GrpcCall, Target, Wire } from './grpc-call';
import { authorityOf, limitOf } from './grpc-status';
import type { Loose, Patch } from './patch';

/** Has the call that is being made one reply message? The channel is not told. */
let oneReply = false;

// what the makers of calls ask first; clients made from definitions have taken hold of the makers themselves already
const CHECKS: Record<string, boolean> = { checkOptionalUnaryResponseArguments: true, checkMetadataAndOptions: false };

export function hookClient(patch: Patch, grpc: Loose): void {
  for (const [name, one] of Object.entries(CHECKS)) {
    patch.wrap(grpc['Client'].prototype, name, (check) =>
      function (this: unknown, ...args) {
        oneReply = one;
        return check.apply(this, args) as unknown;
      },
    );
  }
  patch.wrap(grpc['Channel'].prototype, 'createCall', (createCall) =>
    function (this: Loose, method: string, ...args) {
      const wire = createCall.call(this, method, ...args) as Wire;
      const scope = current();
      if (scope === undefined) {
        keepOutside(wire);
        return wire;
      }
      try {
        new GrpcCall(scope, wire, String(method), targetOf(this), grpc, oneReply);
      } catch {
        // a call of an unknown make goes out as it is
      }
      return wire;
    },
  );
}

const targets = new WeakMap<object, Target>();

function targetOf(channel: Loose): Target {
  let target = targets.get(channel);
  if (target === undefined) {
    const options = channel['internalChannel']?.options as Loose | undefined;
    target = {
      authority: authorityOf(String(channel['getTarget']())),
      receiveLimit: options === undefined ? 0 : limitOf(options, 'grpc.max_receive_message_length'),
    };
    targets.set(channel, target);
  }
  return target;
}

/** Connections outlive the request that opened them; what they report to others must not run in its scope. */
function keepOutside(wire: Wire): void {
  const start = wire.start;
  wire.start = function (metadata, listener) {
    start.call(this, metadata, {
      onReceiveMetadata: (value) => outside(() => listener.onReceiveMetadata(value)),
      onReceiveMessage: (value) => outside(() => listener.onReceiveMessage(value)),
      onReceiveStatus: (value) => outside(() => listener.onReceiveStatus(value)),
    });
  };
}
