/** Vectors of kind `scope`: a service's work, with the clock in the input. */

import { Process } from '../scope/process';
import { Call, Scope } from '../scope/scope';
import { Receiver } from '../trust/receiver';
import { parseSettings } from '../trust/settings';
import type { Whole } from '../wire/bytes';
import { ACCEPT_FIELD, ACCEPT_TAIL } from '../wire/envelope';
import { rawHttpName } from '../wire/names';
import { Joiner } from '../wire/piece';
import type { Json } from './json';
import { hex, orNull } from './kinds';

interface End {
  call: number;
  status: Whole;
  history: string | null;
  gap: boolean;
}

interface Step {
  at_us: number;
  send?: { protocol: 'grpc' | 'http'; authority: string; name: string };
  reply?: End;
  failed?: End;
  message?: { bytes: number };
  respond?: { status: Whole; name: string };
}

interface Input {
  trust: string;
  now: number;
  service: string;
  peers: { [address: string]: string };
  envelope: string;
  start_us: Whole;
  stream?: boolean;
  steps: Step[];
}

class Stepped extends Scope {
  atUs = 0;

  override now(): number {
    return this.atUs;
  }
}

const RECEIVE_LIMIT = 4 << 20;

export function scope(input: Input): Json {
  const receiver = Receiver.fixed(parseSettings(input.trust));
  const process = new Process(input.service, { peers: new Map(Object.entries(input.peers)), receiver });
  const envelope = receiver.accept(hex(input.envelope), input.now, 0);
  if (envelope === null || typeof envelope === 'string') {
    throw new Error(`the envelope is refused: ${envelope}`);
  }
  const player = new Player(new Stepped(process, envelope, 'caller', false, input.start_us), input.stream ?? false);
  const steps = input.steps.map((step) => player.play(step));
  return { steps, history: orNull(player.history()) };
}

class Player {
  private readonly calls: Call[] = [];
  private readonly joiner = new Joiner();
  private whole: Buffer | null = null;

  constructor(
    private readonly scope: Stepped,
    private readonly stream: boolean,
  ) {}

  history(): Buffer | null {
    return this.stream ? this.joiner.finish(this.scope.envelope.call).history : this.whole;
  }

  play(step: Step): Json {
    this.scope.atUs = step.at_us;
    if (step.send !== undefined) {
      return this.send(step.send);
    }
    if (step.reply !== undefined) {
      const { call, status, history, gap } = step.reply;
      this.scope.replied(this.calls[call - 1]!, status, history === null ? null : hex(history), gap);
      return {};
    }
    if (step.failed !== undefined) {
      const { call, status, history, gap } = step.failed;
      this.scope.failed(this.calls[call - 1]!, status, history === null ? null : hex(history), gap);
      return {};
    }
    if (step.message !== undefined) {
      return { piece: this.piece(this.scope.message(step.message.bytes)) };
    }
    if (step.respond === undefined) {
      throw new Error('a step is send, reply, failed, message or respond');
    }
    const { status, name } = step.respond;
    if (this.stream) {
      return { piece: this.piece(this.scope.finishStream(status, name)) };
    }
    this.whole = this.scope.finish(status, name);
    return {};
  }

  private piece(piece: Buffer | null): string | null {
    if (piece !== null) {
      this.joiner.add(piece);
    }
    return orNull(piece);
  }

  private send({ protocol, authority, name }: NonNullable<Step['send']>): Json {
    const peer = this.scope.process.peer(authority);
    let call: Call | null;
    if (protocol === 'http') {
      const blank = name.indexOf(' ');
      call = this.scope.send(true, peer, rawHttpName(name.slice(0, blank), name.slice(blank + 1)), ACCEPT_TAIL, 0);
    } else {
      call = this.scope.send(false, peer, name, ACCEPT_FIELD, RECEIVE_LIMIT);
    }
    if (call === null) {
      throw new Error('a send after the answer');
    }
    this.calls.push(call);
    return {
      call: call.number,
      id: call.id.toString(),
      fault: call.fault === null ? null : call.faultIndex,
      kind: call.fault === null ? null : call.fault.kind,
      envelope: orNull(call.envelope),
    };
  }
}
