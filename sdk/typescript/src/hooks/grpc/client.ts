/**
 * The client side of @grpc/grpc-js: all four kinds of calls, below the application's interceptors and above the
 * library's retries.
 *
 * `Channel.createCall` creates an object that takes serialized messages and passes serialized messages and the final
 * status to a listener. GrpcCall sits between the two, so a fault is a status as the transport would report it, and the
 * library itself creates the errors that the application gets.
 */

import { currentScope, isUnscoped } from '../../scope/context';
import type { Service } from '../../scope/service';
import { addUnscopedGrpc } from '../../scope/unscoped';
import type { Loose, Patch } from '../patch';
import { ChannelTarget, GrpcCall } from './call';
import { instrument, intercept, LibraryCall } from './intercept';
import { MethodCarriers } from './method-carriers';
import { authorityOf, messageLimit } from './status';

/** Whether the call that is being created has one reply message. The channel does not have this information. */
let hasOneReply = false;

// The methods that create calls run these checks first. The creating methods themselves cannot be replaced: clients
// made from service definitions hold references to them.
const CHECKS: Record<string, boolean> = { checkOptionalUnaryResponseArguments: true, checkMetadataAndOptions: false };

export function hookClient(patch: Patch, grpc: Loose): void {
  for (const [name, oneReply] of Object.entries(CHECKS)) {
    patch.wrap(
      grpc['Client'].prototype,
      name,
      (check) =>
        function (this: unknown, first: unknown, second: unknown, third: unknown) {
          hasOneReply = oneReply;
          return check.call(this, first, second, third) as unknown;
        },
    );
  }
  patch.wrap(
    grpc['Channel'].prototype,
    'createCall',
    (createCall) =>
      function (this: Loose, method: string, deadline: unknown, host: unknown, parent: unknown, flags: unknown) {
        const call = createCall.call(this, method, deadline, host, parent, flags) as LibraryCall;
        try {
          instrument(call);
          const scope = currentScope();
          if (scope !== undefined) {
            intercept(call, new GrpcCall(scope, call, method, targetOf(this, scope.service), grpc, hasOneReply));
          } else if (isUnscoped()) {
            addUnscopedGrpc(authorityOf(String(this['getTarget']())), method);
          }
        } catch {
          // a call of an unknown class goes out unchanged
        }
        return call;
      },
  );
}

const targets = new WeakMap<object, ChannelTarget>();

function targetOf(channel: Loose, service: Service): ChannelTarget {
  let target = targets.get(channel);
  if (target === undefined) {
    const options = channel['internalChannel']?.options as Loose | undefined;
    const authority = authorityOf(String(channel['getTarget']()));
    target = {
      authority,
      peer: service.peerName(authority),
      receiveLimit: options === undefined ? 0 : messageLimit(options, 'grpc.max_receive_message_length'),
      sendLimit: messageLimit(options, 'grpc.max_send_message_length', Infinity),
      carriers: new MethodCarriers(),
    };
    targets.set(channel, target);
  }
  return target;
}
