import { describe, expect, it } from 'vitest';
import { lines, tally, type Comparison } from './comparison.ts';
import { trace } from './testing.ts';
import { subtreeEnds } from './trace.ts';

function comparison(rows: [number, string, number][]): Comparison {
  const both = trace(rows.map(([depth, label]) => [depth, label]));
  const all = Uint32Array.from(rows, (_, i) => i);
  return {
    first: both,
    other: both,
    rows: rows.length,
    depth: both.depth,
    firstRow: all,
    otherRow: all,
    change: Uint8Array.from(rows, ([, , change]) => change),
  };
}

const TREE = comparison([
  [0, 'GET /', 1],
  [1, 'List', 0],
  [2, 'Query', 0],
  [1, 'Convert', 0],
  [1, 'Convert', 0],
  [1, 'Convert', 0],
  [1, 'Convert', 1],
  [1, 'Ads', 3],
]);

const none: ReadonlySet<number> = new Set();
const shown = (list: ReturnType<typeof lines>) => list.map((line) => [line.row, line.count]);

describe('lines of a tree', () => {
  it('fold neighbors that are alike', () => {
    expect(shown(lines(TREE, none, none))).toEqual([
      [0, 1],
      [1, 1],
      [2, 1],
      [3, 3],
      [6, 1],
      [7, 1],
    ]);
  });

  it('show each of an opened group', () => {
    expect(lines(TREE, new Set([3]), none).map((line) => line.row)).toEqual([0, 1, 2, 3, 4, 5, 6, 7]);
  });

  it('hide the calls of a closed one', () => {
    expect(lines(TREE, none, new Set([1])).map((line) => line.row)).toEqual([0, 1, 3, 6, 7]);
    expect(lines(TREE, none, new Set([0])).map((line) => line.row)).toEqual([0]);
  });

  it('know which ones have calls', () => {
    expect(lines(TREE, none, none).map((line) => line.isParent)).toEqual([true, true, false, false, false, false]);
  });

  it('are counted by change', () => {
    expect(tally(TREE)).toEqual([5, 2, 0, 1, 0]);
  });
});

describe('subtrees', () => {
  it('end before the next row that is not deeper', () => {
    expect([...subtreeEnds(Uint32Array.of(0, 1, 2, 1, 1, 0))]).toEqual([5, 3, 3, 4, 5, 6]);
    expect(subtreeEnds(new Uint32Array(0)).length).toBe(0);
  });
});
