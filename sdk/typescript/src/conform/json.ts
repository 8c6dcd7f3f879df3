/** JSON of vectors: 64-bit integers are exact, keys are printed in sorted order, without spaces. */

import { toUint64 } from '../wire/bytes';

/** An object whose members are checked or cast where they are used. */
export type Json = { [key: string]: unknown };

/** Numbers above 2^53 - 1 become bigints. */
export function parse(text: string): unknown {
  const exact = text.replace(/"(?:[^"\\]|\\.)*"|\b\d{16,}\b/g, (token) =>
    token.startsWith('"') ? token : `{"\\u0000":"${token}"}`,
  );
  return JSON.parse(exact, (_key, value: unknown) => {
    const digits = typeof value === 'object' && value !== null ? (value as Json)['\0'] : undefined;
    return typeof digits === 'string' ? toUint64(BigInt(digits)) : value;
  });
}

export function print(value: unknown): string {
  if (typeof value === 'bigint') {
    return value.toString();
  }
  if (Array.isArray(value)) {
    return `[${value.map(print).join(',')}]`;
  }
  if (typeof value === 'object' && value !== null) {
    const members = Object.entries(value).filter(([, member]) => member !== undefined);
    members.sort(([a], [b]) => (a < b ? -1 : 1));
    return `{${members.map(([key, member]) => `${JSON.stringify(key)}:${print(member)}`).join(',')}}`;
  }
  return JSON.stringify(value);
}

export function hex(text: string): Buffer {
  return Buffer.from(text, 'hex');
}

export function hexOrNull(bytes: Buffer | null): string | null {
  return bytes === null ? null : bytes.toString('hex');
}
