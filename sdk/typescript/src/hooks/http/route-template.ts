/**
 * Templates of paths as the frameworks write them, in the one form that histories have: `{name}` for a parameter,
 * `{*name}` or `*` for a wildcard. Regular expressions of parameters and marks of optional parts are left out.
 */

import { normalizeHttpName } from '../../wire/names';

const NAME = /^(?:[\p{L}\p{N}_$]+|"(?:[^"\\]|\\.)*")/u;

/** `/cart/:user(\\d+)/*rest` → `/cart/{user}/{*rest}` */
export function routeTemplate(path: string): string {
  let out = '';
  let at = 0;
  while (at < path.length) {
    const c = path[at]!;
    const name = c === ':' || c === '*' ? nameAt(path, at + 1) : '';
    if (c === '\\') {
      out += path[at + 1] ?? '';
      at += 2;
    } else if (c === ':' && name !== '') {
      const regex = endOfGroup(path, at + 1 + name.length);
      const repeats = path[regex] === '*' || path[regex] === '+';
      out += `{${repeats ? '*' : ''}${unquoted(name)}}`;
      at = repeats || path[regex] === '?' ? regex + 1 : regex;
    } else if (c === ':' && path[at + 1] === ':') {
      out += ':'; // Fastify's escape
      at += 2;
    } else if (c === '*') {
      out += name === '' ? '*' : `{*${unquoted(name)}}`;
      at += 1 + name.length;
    } else if (c === '(') {
      out += '*';
      at = endOfGroup(path, at);
      at += /[?*+]/.test(path[at] ?? '') ? 1 : 0;
    } else {
      out += c === '{' || c === '}' || c === '?' ? '' : c;
      at++;
    }
  }
  return out;
}

/** Whether a path that matches this template certainly has as many segments as the template. */
export function hasFixedSegments(path: string): boolean {
  return path.startsWith('/') && !/[*?+({]/.test(path);
}

/** A part of a path, whose template is not known, as it is recorded. */
export function normalizedSegment(segment: string): string {
  return normalizeHttpName(`/${segment}`).slice(1);
}

function nameAt(path: string, at: number): string {
  return NAME.exec(path.slice(at))?.[0] ?? '';
}

function unquoted(name: string): string {
  return name.startsWith('"') ? name.slice(1, -1) : name;
}

/** The position after the group in parentheses that begins at `at`; `at` if none does. */
function endOfGroup(path: string, at: number): number {
  if (path[at] !== '(') {
    return at;
  }
  let depth = 0;
  for (let end = at; end < path.length; end++) {
    if (path[end] === '\\') {
      end++;
    } else if (path[end] === '(') {
      depth++;
    } else if (path[end] === ')' && --depth === 0) {
      return end + 1;
    }
  }
  return path.length;
}
