/** Plays vectors of kind `scope`: the steps of a scope, with the clock in the input. */

import { Process } from '../scope/process';
import { OutgoingCall, Scope } from '../scope/scope';
import type { UnscopedCall } from '../scope/unscoped';
import { Receiver } from '../trust/receiver';
import { TrustSettings } from '../trust/settings';
import type { Uint64 } from '../wire/bytes';
import { ACCEPT_FIELD, ACCEPT_TAIL } from '../wire/envelope';
import { normalizeHttpName, rawHttpName } from '../wire/names';
import { PieceJoiner } from '../wire/piece';
import { hex, hexOrNull, Json } from './json';

interface End {
  call: number;
  status: Uint64;
  history: string | null;
  gap: boolean;
}

interface Call {
  protocol: 'grpc' | 'http';
  authority: string;
  name: string;
}

interface Step {
  at_us: number;
  send?: Call & { inherited?: boolean };
  connected?: { call: number; us: Uint64 };
  unscoped?: { calls: (Call & { site: string })[]; more: Uint64 };
  reply?: End;
  failed?: End;
  message?: { bytes: number };
  respond?: { status: Uint64; name: string };
}

interface Input {
  trust: string;
  now: number;
  service: string;
  peers: { [address: string]: string };
  envelope: string;
  start_us: Uint64;
  stream?: boolean;
  steps: Step[];
}

class PlayedScope extends Scope {
  atUs = 0;

  override now(): number {
    return this.atUs;
  }
}

const RECEIVE_LIMIT = 4 << 20;

export function scope(input: Input): Json {
  const receiver = Receiver.fixed(TrustSettings.parse(input.trust));
  const process = new Process(input.service, { peers: new Map(Object.entries(input.peers)), receiver });
  const envelope = receiver.accept(hex(input.envelope), input.now, 0);
  if (envelope === null || typeof envelope === 'string') {
    throw new Error(`the envelope was refused: ${envelope}`);
  }
  const player = new Player(new PlayedScope(process, envelope, 'caller', false, input.start_us), input.stream ?? false);
  const steps = input.steps.map((step) => player.play(step));
  return { steps, history: hexOrNull(player.history()) };
}

class Player {
  private readonly calls: OutgoingCall[] = [];
  private readonly joiner = new PieceJoiner();
  private unaryHistory: Buffer | null = null;

  constructor(
    private readonly scope: PlayedScope,
    private readonly stream: boolean,
  ) {}

  history(): Buffer | null {
    return this.stream ? this.joiner.history(this.scope.envelope.call) : this.unaryHistory;
  }

  play(step: Step): Json {
    this.scope.atUs = step.at_us;
    if (step.send !== undefined) {
      return this.beginCall(step.send);
    }
    if (step.reply !== undefined) {
      const { call, status, history, gap } = step.reply;
      this.scope.recordReply(this.calls[call - 1]!, status, history === null ? null : hex(history), gap);
      return {};
    }
    if (step.failed !== undefined) {
      const { call, status, history, gap } = step.failed;
      this.scope.recordFailure(this.calls[call - 1]!, status, history === null ? null : hex(history), gap);
      return {};
    }
    if (step.message !== undefined) {
      return { piece: this.piece(this.scope.nextPiece(step.message.bytes)) };
    }
    if (step.connected !== undefined) {
      this.scope.setConnectTime(this.calls[step.connected.call - 1]!, step.connected.us);
      return {};
    }
    if (step.unscoped !== undefined) {
      const { calls, more } = step.unscoped;
      const unscoped = calls.map((call) => this.unscopedCall(call));
      this.scope.recordUnscoped(unscoped, more);
      return {};
    }
    if (step.respond === undefined) {
      throw new Error('a step must be send, connected, reply, failed, unscoped, message or respond');
    }
    const { status, name } = step.respond;
    if (this.stream) {
      return { piece: this.piece(this.scope.lastPiece(status, name)) };
    }
    this.unaryHistory = this.scope.finish(status, name);
    return {};
  }

  private piece(piece: Buffer | null): string | null {
    if (piece !== null) {
      this.joiner.add(piece);
    }
    return hexOrNull(piece);
  }

  private unscopedCall({ site, ...sent }: Call & { site: string }): UnscopedCall {
    const { http, peer, name } = this.request(sent);
    return { http, peer, name: http ? normalizeHttpName(name) : name, site };
  }

  private request({ protocol, authority, name }: Call): { http: boolean; peer: string; name: string } {
    const peer = this.scope.service.peerName(authority);
    if (protocol !== 'http') {
      return { http: false, peer, name };
    }
    const blank = name.indexOf(' ');
    return { http: true, peer, name: rawHttpName(name.slice(0, blank), name.slice(blank + 1)) };
  }

  private beginCall({ inherited, ...sent }: NonNullable<Step['send']>): Json {
    const { http, peer, name } = this.request(sent);
    const accept = http ? ACCEPT_TAIL : ACCEPT_FIELD;
    const limit = http ? 0 : RECEIVE_LIMIT;
    const call = inherited
      ? this.scope.beginInheritedCall(http, peer, name, accept, limit)
      : this.scope.beginCall(http, peer, name, accept, limit);
    if (call === null) {
      throw new Error('a call after the end of the scope');
    }
    this.calls.push(call);
    return {
      call: call.number,
      id: call.id.toString(),
      fault: call.fault === null ? null : call.faultIndex,
      kind: call.fault === null ? null : call.fault.kind,
      envelope: hexOrNull(call.envelope),
    };
  }
}
