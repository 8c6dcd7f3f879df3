import { describe, expect, it } from 'vitest';
import { ticks } from './axis.ts';
import { trace } from './testing.ts';
import { byDepth, criticalPath, density, firstFrom, openRows, panned, search, within, zoomed } from './timeline.ts';
import { subtreeEnds } from './trace.ts';

const request = trace([
  [0, 'GET /'],
  [1, 'List'],
  [2, 'Query'],
  [1, 'Ads'],
]);
const timed = {
  ...request,
  start: Uint32Array.of(0, 10, 12, 20),
  end: Uint32Array.of(100, 60, 30, 95),
};
const ends = subtreeEnds(timed.depth);

describe('a range of time', () => {
  it('is zoomed around a moment', () => {
    expect(zoomed({ from: 0, to: 100 }, 100, 0.5, 50)).toEqual({ from: 25, to: 75 });
    expect(zoomed({ from: 0, to: 100 }, 100, 0.5, 0)).toEqual({ from: 0, to: 50 });
  });

  it('never leaves the request', () => {
    expect(zoomed({ from: 20, to: 60 }, 100, 9, 40)).toEqual({ from: 0, to: 100 });
    expect(panned({ from: 80, to: 100 }, 100, 0.5)).toEqual({ from: 80, to: 100 });
    expect(within({ from: -10, to: 30 }, 100)).toEqual({ from: 0, to: 40 });
  });
});

describe('rows of a timeline', () => {
  it('below a closed one are hidden', () => {
    expect([...openRows(4, ends, new Set([1]))]).toEqual([0, 1, 3]);
    expect([...openRows(4, ends, new Set([0]))]).toEqual([0]);
  });

  it('are found by their texts', () => {
    expect([...search(timed, 'q')]).toEqual([2]);
    expect([...search(timed, ' ')]).toEqual([]);
  });

  it('of one depth are in the order of their start', () => {
    const levels = byDepth({ ...timed, start: Uint32Array.of(0, 20, 21, 10) });
    expect(levels.map((level) => [...level])).toEqual([[0], [3, 1], [2]]);
    expect(firstFrom(timed, Uint32Array.of(1, 3), 11)).toBe(1);
  });
});

it('the critical path skips calls that another one outlasted', () => {
  expect([...criticalPath(timed, ends)]).toEqual([1, 0, 0, 1]);
  const sequential = { ...timed, start: Uint32Array.of(0, 10, 12, 62), end: Uint32Array.of(100, 60, 30, 95) };
  expect([...criticalPath(sequential, ends)]).toEqual([1, 1, 1, 1]);
});

it('the overview counts calls that run at a time', () => {
  const { busy, failed } = density({ ...timed, outcome: Uint8Array.of(0, 0, 2, 0) }, 10);
  expect([...busy]).toEqual([1, 3, 4, 4, 3, 3, 3, 2, 2, 2]);
  expect([...failed]).toEqual([0, 0, 0, 1, 0, 0, 0, 0, 0, 0]);
});

it('ticks are round numbers', () => {
  expect(ticks(0, 100, 4)).toEqual([0, 50]);
  expect(ticks(0, 41_000, 4)).toEqual([0, 20_000]);
  expect(ticks(3, 3, 4)).toEqual([3]);
});
