/** Trust settings: who may ask for a history, who may plan faults, and the switch that stops all faults. */

import { utf8Length } from '../wire/bytes';
import { SIGNATURE_BYTES } from '../wire/envelope';
import { Mac } from './mac';

const SECRET_BYTES = 32;
const DOMAIN = Buffer.from('faultloom/1\n');

/** Signs and verifies. */
export class Key {
  private readonly mac: Mac;

  /** `fault`: may sign plans, else histories only. Throws RangeError unless the secret has 32 bytes and the id 1 to 32. */
  constructor(
    readonly id: string,
    readonly fault: boolean,
    secret: Buffer,
  ) {
    if (secret.length !== SECRET_BYTES || id === '' || utf8Length(id) > 32) {
      throw new RangeError('a key has 32 bytes and an id of 1 to 32');
    }
    this.mac = new Mac(secret);
  }

  /** The signature of a signed part, 16 bytes. */
  sign(part: Buffer): Buffer {
    return this.mac.sign(DOMAIN, part, SIGNATURE_BYTES);
  }

  /** Is the signed part within these bytes followed by its signature? Compares in constant time. */
  verifies(bytes: Buffer, from: number, end: number): boolean {
    return this.mac.verifies(DOMAIN, bytes, from, end, SIGNATURE_BYTES);
  }
}

/** The contents of one trust file. They do not change; a changed file makes new ones. */
export class Settings {
  constructor(
    readonly environment: string,
    readonly keys: readonly Key[],
    /** The switch: false stops every fault at this service. */
    readonly faultsOn = true,
  ) {}

  /** The key with this id, or undefined. */
  key(id: string): Key | undefined {
    for (const key of this.keys) {
      if (key.id === id) {
        return key;
      }
    }
    return undefined;
  }

  /** The first key for that purpose, or undefined. */
  signingKey(fault: boolean): Key | undefined {
    return this.keys.find((key) => key.fault === fault);
  }
}

/** Settings that do not follow the format. The text names the line, never a key. */
export class TrustError extends Error {
  constructor(
    /** From 1; 0 if it is not one line's fault. */
    readonly line: number,
    reason: string,
  ) {
    super(line > 0 ? `trust settings, line ${line}: ${reason}` : `trust settings: ${reason}`);
    this.name = 'TrustError';
  }
}

/** Reads the text form, with line ends or ';' between the lines. Throws TrustError. */
export function parseSettings(text: string): Settings {
  let environment = '';
  let faultsOn = true;
  const keys: Key[] = [];
  const lines = text.split(/[\n;]/);
  for (let i = 0; i < lines.length; i++) {
    const words = lines[i]!.split(/\s+/).filter((word) => word !== '');
    const [what, first, second, third] = words;
    if (what === undefined || what.startsWith('#')) {
      continue;
    }
    if (what === 'environment' && words.length === 2 && utf8Length(first!) <= 64) {
      environment = first!;
    } else if (what === 'faults' && words.length === 2 && (first === 'on' || first === 'off')) {
      faultsOn = first === 'on';
    } else if (what === 'key' && words.length === 4 && (first === 'trace' || first === 'fault')) {
      keys.push(parseKey(i + 1, second!, first === 'fault', third!));
    } else {
      throw new TrustError(i + 1, 'not one of: environment NAME, key trace|fault ID HEX, faults on|off');
    }
  }
  if (environment === '') {
    throw new TrustError(0, 'no environment is named');
  }
  return new Settings(environment, keys, faultsOn);
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
