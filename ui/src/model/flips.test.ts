import { expect, it } from 'vitest';
import { groups, share, sideBySide } from './flips.ts';
import type { FlipSlice, TallyView } from './view.ts';

const tally = (undetected: number, otherwise: number): TallyView => ({
  no_effect: 5,
  undetected,
  detected_by_hardening: 0,
  detected_otherwise: otherwise,
  not_flipped: 0,
  not_judged: 0,
});

it('shares have the interval of Wilson', () => {
  const of = share(10, 100);
  expect(of?.share).toBe(0.1);
  expect(of?.low).toBeCloseTo(0.0552, 3);
  expect(of?.high).toBeCloseTo(0.1744, 3);
  expect(share(0, 50)?.low).toBe(0);
  expect(share(50, 50)?.high).toBe(1);
  expect(share(0, 0)).toBeNull();
});

it('groups are summed, the most undetected first', () => {
  const slices: FlipSlice[] = [
    { group: 'CF', key: 'read', tally: tally(1, 9) },
    { group: 'DF', key: 'read', tally: tally(2, 8) },
    { group: 'DF', key: 'write', tally: tally(5, 5) },
  ];
  expect(groups(slices, '', 'share').map((row) => [row.key, row.tally.undetected])).toEqual([
    ['write', 5],
    ['read', 3],
  ]);
  expect(groups(slices, 'CF', 'share').map((row) => [row.key, row.undetected?.share])).toEqual([['read', 0.1]]);
  const bits = ['10', '2'].map((key): FlipSlice => ({ group: 'CF', key, tally: tally(0, 1) }));
  expect(groups(bits, '', 'key').map((row) => row.key)).toEqual(['2', '10']);
});

it('bytes are compared one by one, escapes are one byte', () => {
  const { expected, actual } = sideBySide('ab\\x00c', 'ab\\x01c\\r');
  expect(expected.map((token) => token.text)).toEqual(['a', 'b', '\\x00', 'c']);
  expect(actual.filter((token) => token.differs).map((token) => token.text)).toEqual(['\\x01', '\\r']);
});
