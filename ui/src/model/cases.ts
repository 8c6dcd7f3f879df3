import { numbers } from './columns.ts';
import type { CaseColumns } from './view.ts';

/** All cases of a space, in ascending order of their number. */
export interface Cases {
  space: number;
  rows: number;
  case: Uint32Array;
  behavior: Uint32Array;
  latencyUs: Uint32Array;
  /** Words of 32 sites per case. */
  words: number;
  planned: Uint32Array;
  fired: Uint32Array;
  /** Column of the behavior table of each site. */
  columns: number[];
}

export function decodeCases(reply: unknown): Cases {
  const view = reply as CaseColumns;
  return {
    space: view.space,
    rows: view.rows,
    case: numbers(view.case),
    behavior: numbers(view.behavior),
    latencyUs: numbers(view.latency_us),
    words: view.words,
    planned: numbers(view.planned),
    fired: numbers(view.fired),
    columns: view.columns,
  };
}

/** Whether a site's bit is set in a row of `planned` or `fired`. */
export function has(cases: Cases, bits: Uint32Array, row: number, site: number): boolean {
  const word = bits[row * cases.words + (site >> 5)] ?? 0;
  return ((word >>> (site & 31)) & 1) === 1;
}

/** The sites of a row. */
export function sites(cases: Cases, bits: Uint32Array, row: number): number[] {
  return cases.columns.flatMap((_, site) => (has(cases, bits, row, site) ? [site] : []));
}
