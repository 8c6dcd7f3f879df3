/** Names of calls and peers, as selectors match them and as histories record them. */

import { truncateUtf8, utf8Length } from './bytes';

/** Limits in bytes. */
export const MAX_NAME_BYTES = 200;
export const MAX_SERVICE_BYTES = 64;

/** The name that local selectors match: "METHOD /path" without query and fragment. */
export function rawHttpName(method: string, target: string): string {
  for (let i = 0; i < target.length; i++) {
    const c = target.charCodeAt(i);
    if (c === 0x3f || c === 0x23) {
      target = target.slice(0, i);
      break;
    }
  }
  return `${method} ${target === '' ? '/' : target}`;
}

/** The name that is recorded: variable path segments become {id}, and the result is truncated to 200 bytes. */
export function normalizeHttpName(raw: string): string {
  let at = raw.indexOf('/');
  let out = '';
  let kept = 0;
  while (at >= 0) {
    const slash = raw.indexOf('/', at + 1);
    const end = slash < 0 ? raw.length : slash;
    if (isVariable(raw, at + 1, end)) {
      out += raw.slice(kept, at) + '/{id}';
      kept = end;
    }
    at = slash;
  }
  return truncateUtf8(kept === 0 ? raw : out + raw.slice(kept), MAX_NAME_BYTES);
}

/**
 * A path segment is variable if it is all digits, a UUID, at least 8 hex digits including a decimal digit, or at least
 * 20 bytes including a decimal digit.
 */
function isVariable(text: string, from: number, to: number): boolean {
  const length = to - from;
  let digits = 0;
  let letters = 0;
  for (let i = from; i < to; i++) {
    const c = text.charCodeAt(i);
    if (c >= 0x30 && c <= 0x39) {
      digits++;
    } else if ((c >= 0x61 && c <= 0x66) || (c >= 0x41 && c <= 0x46)) {
      letters++;
    }
  }
  const hexes = digits + letters;
  if (digits > 0) {
    if (digits === length || length >= 20 || (length >= 8 && hexes === length)) {
      return true;
    }
    // fewer than 20 characters, each of at most three bytes
    if (length >= 7 && utf8Length(text.slice(from, to)) >= 20) {
      return true;
    }
  }
  return (
    length === 36 &&
    hexes === 32 &&
    isDash(text, from + 8) &&
    isDash(text, from + 13) &&
    isDash(text, from + 18) &&
    isDash(text, from + 23)
  );
}

function isDash(text: string, at: number): boolean {
  return text.charCodeAt(at) === 0x2d;
}
