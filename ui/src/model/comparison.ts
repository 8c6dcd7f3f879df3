import { bytes, NONE, numbers } from './columns.ts';
import { decodeTrace, labelAt, serviceAt, type Trace } from './trace.ts';
import type { ComparisonView } from './view.ts';

/** How a row of the other request differs from the first. */
export const CHANGE = { same: 0, failed: 1, other: 2, missing: 3, extra: 4 } as const;

/** Two requests as one tree. */
export interface Comparison {
  first: Trace;
  other: Trace;
  rows: number;
  depth: Uint32Array;
  firstRow: Uint32Array;
  otherRow: Uint32Array;
  change: Uint8Array;
}

export function decodeComparison(reply: unknown): Comparison {
  const view = reply as ComparisonView;
  return {
    first: decodeTrace(view.first),
    other: decodeTrace(view.other),
    rows: view.rows,
    depth: numbers(view.depth),
    firstRow: numbers(view.first_row),
    otherRow: numbers(view.other_row),
    change: bytes(view.change),
  };
}

/** The request and row that names a row of the comparison: the first one, because a failed call has no callee. */
export function side(comparison: Comparison, row: number): { trace: Trace; row: number } {
  const first = comparison.firstRow[row] ?? NONE;
  if (first !== NONE) return { trace: comparison.first, row: first };
  return { trace: comparison.other, row: comparison.otherRow[row] ?? 0 };
}

/** Counts of rows by change. */
export function tally(comparison: Comparison): number[] {
  const counts = [0, 0, 0, 0, 0];
  comparison.change.forEach((change) => (counts[change] = (counts[change] ?? 0) + 1));
  return counts;
}

/** A line of the tree: one row, or neighbors without calls of their own that are alike. */
export interface TreeLine {
  row: number;
  depth: number;
  /** Rows from `row` on that this line stands for. */
  count: number;
  /** Whether there are rows below it. */
  isParent: boolean;
}

/** Neighbors that are folded into one line, at least. */
const ALIKE_MIN = 3;

/**
 * The lines of the tree. `open`: first rows of groups that are shown in full. `closed`: rows whose calls are hidden.
 */
export function lines(comparison: Comparison, open: ReadonlySet<number>, closed: ReadonlySet<number>): TreeLine[] {
  const { rows, depth } = comparison;
  const at = (row: number) => depth[row] ?? 0;
  const isLeaf = (row: number) => row + 1 >= rows || at(row + 1) <= at(row);
  const key = (row: number) => {
    const { trace, row: of } = side(comparison, row);
    return `${comparison.change[row]} ${serviceAt(trace, of)} ${labelAt(trace, of)}`;
  };
  const out: TreeLine[] = [];
  for (let row = 0; row < rows;) {
    const isParent = !isLeaf(row);
    let next = row + 1;
    if (!isParent && row > 0) {
      const alike = key(row);
      while (next < rows && at(next) === at(row) && isLeaf(next) && key(next) === alike) next += 1;
    }
    const isGroup = next - row >= ALIKE_MIN && !open.has(row);
    if (!isGroup) {
      for (let one = row; one < next; one += 1) out.push({ row: one, depth: at(one), count: 1, isParent });
    } else {
      out.push({ row, depth: at(row), count: next - row, isParent: false });
    }
    if (isParent && closed.has(row)) {
      while (next < rows && at(next) > at(row)) next += 1;
    }
    row = next;
  }
  return out;
}
