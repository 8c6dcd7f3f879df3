import { expect, it } from 'vitest';
import { filtered, filterOf } from './facets.ts';
import { cellOf, hits, serviceGroups, shownColumns } from './sites.ts';
import type { Behavior, SiteColumn, SweepView } from './view.ts';

const column = (service: string, label: string, failed = 0, fired = 0): SiteColumn => ({
  service,
  label,
  fault: `${service}/${label} unavailable`,
  kind: 'unavailable',
  spaces: [0],
  planned: fired,
  fired,
  failed_when_fired: failed,
});
const COLUMNS = [
  column('currency', 'GetCurrencies'),
  column('currency', 'Convert#1', 4, 8),
  column('currency', 'Convert#2', 4, 4),
  column('currency', 'Convert#3', 4, 4),
  column('ads', 'GetAds'),
];
const behavior = (id: string, outcome: string, cells: string, bugs: number[]) =>
  ({ id, outcome, cells, bugs, cases: 2, spaces: [{ space: 0, cases: 2 }], reason: '' }) as unknown as Behavior;
const SWEEP = {
  bugs: [{ number: 1, title: 'Broken rate' }],
  columns: COLUMNS,
  spaces: [{ name: 'temporal' }],
  behaviors: [
    behavior('a', 'fail', '.x..o', [1]),
    behavior('b', 'pass', 'x....', []),
    behavior('c', 'pass', '....x', []),
  ],
} as unknown as SweepView;

it('calls of a series share a column until it is opened', () => {
  const folded = shownColumns(COLUMNS, new Set(), () => true);
  expect(folded.map((one) => one.label)).toEqual(['GetCurrencies', 'Convert#1–3', 'GetAds']);
  const open = shownColumns(COLUMNS, new Set([1]), () => true);
  expect(open.map((one) => one.label)).toEqual(['GetCurrencies', 'Convert#1', 'Convert#2', 'Convert#3', 'GetAds']);
  expect(serviceGroups(folded).map((group) => [group.service, group.columns.length])).toEqual([
    ['currency', 2],
    ['ads', 1],
  ]);
});

it('a folded column sums up', () => {
  const series = shownColumns(COLUMNS, new Set(), () => true)[1];
  const first = SWEEP.behaviors[0];
  if (series === undefined || first === undefined) throw new Error('no series');
  expect(cellOf(first, series)).toEqual({ fired: 1, notReached: 0 });
  expect(hits(COLUMNS, series)).toEqual({ failed: 12, fired: 16, planned: 16 });
});

it('facets narrow down, and count what each value would show', () => {
  const of = (query: string) => filtered(SWEEP, filterOf(new URLSearchParams(query)));
  expect(of('').rows).toEqual([0, 1, 2]);
  expect(of('outcome=pass').rows).toEqual([1, 2]);
  expect(of('outcome=pass&service=ads').rows).toEqual([2]);
  expect(of('outcome=pass,fail&service=currency').rows).toEqual([0, 1]);
  expect(of('bug=1').rows).toEqual([0]);
  expect(of('q=broken').rows).toEqual([0]);
  const counts = of('outcome=pass').counts;
  expect([counts.outcome.get('fail'), counts.outcome.get('pass'), counts.service.get('currency')]).toEqual([1, 2, 1]);
});
