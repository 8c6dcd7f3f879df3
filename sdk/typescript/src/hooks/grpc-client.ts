/**
 * @grpc/grpc-js as a caller: all four kinds of calls, below the application's interceptors and above the library's retries.
 *
 * `Channel.createCall` makes an object that takes serialized messages and hands serialized messages and the final status
 * to a listener. Ours stands between the two, so faults are statuses as the transport would report them, and the library
 * itself makes the errors that the application sees.
 */

import { current } from '../scope/context';
import type { Process } from '../scope/process';
import { GrpcCall, Target } from './grpc-call';
import { Methods } from './grpc-methods';
import { authorityOf, limitOf } from './grpc-status';
import { know, putBetween, Wire } from './grpc-wire';
import type { Loose, Patch } from './patch';

/** Has the call that is being made one reply message? The channel is not told. */
let oneReply = false;

// what the makers of calls ask first; clients made from definitions have taken hold of the makers themselves already
const CHECKS: Record<string, boolean> = { checkOptionalUnaryResponseArguments: true, checkMetadataAndOptions: false };

export function hookClient(patch: Patch, grpc: Loose): void {
  for (const [name, one] of Object.entries(CHECKS)) {
    patch.wrap(grpc['Client'].prototype, name, (check) =>
      function (this: unknown, first: unknown, second: unknown, third: unknown) {
        oneReply = one;
        return check.call(this, first, second, third) as unknown;
      },
    );
  }
  patch.wrap(grpc['Channel'].prototype, 'createCall', (createCall) =>
    function (this: Loose, method: string, deadline: unknown, host: unknown, parent: unknown, flags: unknown) {
      const wire = createCall.call(this, method, deadline, host, parent, flags) as Wire;
      try {
        know(wire);
        const scope = current();
        if (scope !== undefined) {
          putBetween(wire, new GrpcCall(scope, wire, method, targetOf(this, scope.process), grpc, oneReply));
        }
      } catch {
        // a call of an unknown make goes out as it is
      }
      return wire;
    },
  );
}

const targets = new WeakMap<object, Target>();

function targetOf(channel: Loose, process: Process): Target {
  let target = targets.get(channel);
  if (target === undefined) {
    const options = channel['internalChannel']?.options as Loose | undefined;
    const authority = authorityOf(String(channel['getTarget']()));
    target = {
      authority,
      peer: process.peer(authority),
      receiveLimit: options === undefined ? 0 : limitOf(options, 'grpc.max_receive_message_length'),
      sendLimit: limitOf(options, 'grpc.max_send_message_length', Infinity),
      methods: new Methods(),
    };
    targets.set(channel, target);
  }
  return target;
}
