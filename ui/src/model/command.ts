/** Commands for the user to copy. */

/** In single quotes, so that a shell changes nothing. */
export const quoted = (text: string): string => `'${text.replaceAll("'", `'\\''`)}'`;

const FAULT = / --fault (?:'(?:[^']|'\\'')*'|\S+)/g;

/**
 * The command that sends a request with these faults; empty if no command line can. `known`: a command of the same run
 * with other faults, which has the request's options. Without one, `request` is `METHOD URL`.
 */
export function again(known: string | undefined, request: string, faults: string[]): string {
  const planned = faults.map((fault) => ` --fault ${quoted(fault)}`).join('');
  // a recorded spec has its own faults, and takes no others
  if (known !== undefined && / --spec /.test(known)) return '';
  if (known !== undefined && known !== '') return known.replace(FAULT, '') + planned;
  const [, method, url] = /^([A-Z]+) (\S+)$/.exec(request) ?? [];
  if (url === undefined) return '';
  return `faultloom record ${method === 'GET' ? '' : `-X ${method} `}${quoted(url)}${planned}`;
}
