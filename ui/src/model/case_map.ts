import type { Cases } from './cases.ts';

/** Where cases are in the map of a space. */
export interface CaseLayout {
  columns: number;
  rows: number;
  /** Cell of each case. */
  cell: Uint32Array;
  /** Case row of each cell; none where no case was run. */
  caseAt: Int32Array;
  /** If every combination has its place: sites along the x axis and along the y axis. Otherwise empty. */
  across: number[];
  down: number[];
}

/** Sites of a space whose combinations are all drawn. */
const SITES_MAX = 20;

/**
 * A space of all subsets is a square: half of the sites are the bits of x, the others those of y. Any other space is
 * drawn line by line, in the order of its cases.
 */
export function layout(cases: Cases): CaseLayout {
  const sites = cases.columns.length;
  const isPowerSet = sites <= SITES_MAX && cases.words === 1 && cases.rows > 2 ** sites / 2;
  const columns = isPowerSet ? 2 ** Math.ceil(sites / 2) : Math.max(1, Math.ceil(Math.sqrt(cases.rows * 2)));
  const rows = isPowerSet ? 2 ** Math.floor(sites / 2) : Math.ceil(cases.rows / columns);
  const cell = new Uint32Array(cases.rows);
  const caseAt = new Int32Array(columns * rows).fill(-1);
  for (let row = 0; row < cases.rows; row += 1) {
    const at = isPowerSet ? (cases.planned[row] ?? 0) : row;
    cell[row] = at;
    caseAt[at] = row;
  }
  const width = Math.ceil(sites / 2);
  const all = cases.columns.map((_, site) => site);
  return {
    columns,
    rows,
    cell,
    caseAt,
    across: isPowerSet ? all.slice(0, width) : [],
    down: isPowerSet ? all.slice(width) : [],
  };
}
