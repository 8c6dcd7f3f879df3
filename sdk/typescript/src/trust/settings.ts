/** Trust settings: the keys that may request histories and plan faults, and the switch that disables all faults. */

import { utf8Length } from '../wire/bytes';
import { SIGNATURE_BYTES } from '../wire/envelope';
import { Mac } from './mac';

const SECRET_BYTES = 32;
const DOMAIN = Buffer.from('faultloom/1\n');

/** A key that signs and verifies envelopes. */
export class Key {
  private readonly mac: Mac;

  /** `fault`: the key may sign plans. Throws RangeError unless the secret has 32 bytes and the id has 1 to 32 bytes. */
  constructor(
    readonly id: string,
    readonly fault: boolean,
    secret: Buffer,
  ) {
    if (secret.length !== SECRET_BYTES || id === '' || utf8Length(id) > 32) {
      throw new RangeError('a key needs 32 bytes and an id of 1 to 32 bytes');
    }
    this.mac = new Mac(secret);
  }

  /** The 16-byte signature of a signed part. */
  sign(part: Buffer): Buffer {
    return this.mac.sign(DOMAIN, part, SIGNATURE_BYTES);
  }

  /** Whether the signed part from `from` to `end` is followed by its signature. Compares in constant time. */
  verifies(bytes: Buffer, from: number, end: number): boolean {
    return this.mac.verifies(DOMAIN, bytes, from, end, SIGNATURE_BYTES);
  }
}

/** The contents of a trust file. Immutable; a changed file results in a new object. */
export class TrustSettings {
  constructor(
    readonly environment: string,
    readonly keys: readonly Key[],
    /** False disables every fault at this service. */
    readonly faultsEnabled = true,
  ) {}

  /** Parses the text form, with line ends or ';' between the lines. Throws TrustError. */
  static parse(text: string): TrustSettings {
    let environment = '';
    let faultsEnabled = true;
    const keys: Key[] = [];
    const lines = text.split(/[\n;]/);
    for (let i = 0; i < lines.length; i++) {
      const words = lines[i]!.split(/\s+/).filter((word) => word !== '');
      const [keyword, first, second, third] = words;
      if (keyword === undefined || keyword.startsWith('#')) {
        continue;
      }
      if (keyword === 'environment' && words.length === 2 && utf8Length(first!) <= 64) {
        environment = first!;
      } else if (keyword === 'faults' && words.length === 2 && (first === 'on' || first === 'off')) {
        faultsEnabled = first === 'on';
      } else if (keyword === 'key' && words.length === 4 && (first === 'trace' || first === 'fault')) {
        keys.push(parseKey(i + 1, second!, first === 'fault', third!));
      } else {
        throw new TrustError(i + 1, 'not one of: environment NAME, key trace|fault ID HEX, faults on|off');
      }
    }
    if (environment === '') {
      throw new TrustError(0, 'environment is missing');
    }
    return new TrustSettings(environment, keys, faultsEnabled);
  }

  /** The key with this id, or undefined. */
  key(id: string): Key | undefined {
    for (const key of this.keys) {
      if (key.id === id) {
        return key;
      }
    }
    return undefined;
  }

  /** The first fault key or the first trace key, or undefined. */
  signingKey(fault: boolean): Key | undefined {
    return this.keys.find((key) => key.fault === fault);
  }
}

/** Invalid trust settings. The message names the line and never contains a key. */
export class TrustError extends Error {
  constructor(
    /** Line number from 1; 0 if the error does not belong to a line. */
    readonly line: number,
    reason: string,
  ) {
    super(line > 0 ? `trust settings, line ${line}: ${reason}` : `trust settings: ${reason}`);
    this.name = 'TrustError';
  }
}

function parseKey(line: number, id: string, fault: boolean, hex: string): Key {
  if (!/^[0-9a-fA-F]{64}$/.test(hex)) {
    throw new TrustError(line, 'a key is 64 hex digits');
  }
  if (utf8Length(id) > 32) {
    throw new TrustError(line, 'a key id has at most 32 bytes');
  }
  return new Key(id, fault, Buffer.from(hex, 'hex'));
}
