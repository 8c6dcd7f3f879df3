import { describe, expect, it } from 'vitest';
import type { Cases } from './cases.ts';
import {
  bitmap,
  explain,
  failures,
  firedCondition,
  ruleOf,
  ruleText,
  size,
  subjects,
  worksCondition,
} from './questions.ts';
import type { Behavior, SiteColumn } from './view.ts';

const column = (service: string, label: string) => ({ service, label, kind: 'unavailable' }) as SiteColumn;
const COLUMNS = [
  column('currency', 'GetCurrencies'),
  column('ads', 'GetAds'),
  column('currency', 'Convert#1'),
  column('currency', 'Convert#2'),
];
const BEHAVIORS = [
  { outcome: 'pass', bugs: [] as number[] },
  { outcome: 'fail', bugs: [1] },
] as Behavior[];

/** All subsets of four sites; `fails` says which of them fail. A fault of a failing site always fires. */
function space(fails: (planned: number) => boolean): Cases {
  const all = Array.from({ length: 16 }, (_, i) => i);
  return {
    space: 0,
    rows: 16,
    case: Uint32Array.from(all),
    behavior: Uint32Array.from(all, (planned) => Number(fails(planned))),
    latencyUs: new Uint32Array(16),
    words: 1,
    planned: Uint32Array.from(all),
    fired: Uint32Array.from(all),
    columns: [0, 1, 2, 3],
  };
}

const rulesOf = (cases: Cases) => explain(cases, COLUMNS, failures(cases, BEHAVIORS, null));

describe('bitmaps', () => {
  it('count their rows', () => {
    expect(size(bitmap(100, (row) => row % 3 === 0))).toBe(34);
    expect(size(bitmap(64, () => true))).toBe(64);
    expect(size(bitmap(0, () => true))).toBe(0);
  });
});

describe('subjects', () => {
  it('are single calls and series of calls', () => {
    expect(
      subjects(
        space(() => false),
        COLUMNS,
      ).map((one) => one.text),
    ).toEqual(['currency/GetCurrencies', 'ads/GetAds', 'currency/Convert', 'currency/Convert#1', 'currency/Convert#2']);
  });
});

describe('rules', () => {
  it('find one call that decides', () => {
    const [first] = rulesOf(space((planned) => (planned & 2) !== 0));
    expect(first && ruleText(first)).toBe('exactly when ads/GetAds fails');
  });

  it('find a series after a call without a fault', () => {
    const [first] = rulesOf(space((planned) => (planned & 1) === 0 && (planned & 12) !== 0));
    expect(first && ruleText(first)).toBe(
      'exactly when any currency/Convert fails and currency/GetCurrencies is not faulted',
    );
    expect(first?.failed).toBe(first?.failures);
  });

  it('find two calls that must both fail', () => {
    const [first] = rulesOf(space((planned) => (planned & 3) === 3));
    expect(first && ruleText(first)).toBe('exactly when currency/GetCurrencies fails and ads/GetAds fails');
  });

  it('cover failures of two causes with a rule each', () => {
    const rules = rulesOf(space((planned) => (planned & 2) !== 0 || (planned & 4) !== 0));
    expect(rules.filter((rule) => rule.isSufficient).map(ruleText)).toEqual([
      'whenever ads/GetAds fails',
      'whenever currency/Convert#1 fails',
    ]);
  });

  it('are none without failures', () => {
    expect(rulesOf(space(() => false))).toEqual([]);
  });

  it('count what a person wants to know', () => {
    const cases = space((planned) => (planned & 2) !== 0);
    const [, ads, convert] = subjects(cases, COLUMNS);
    if (ads === undefined || convert === undefined) throw new Error('no subjects');
    const failed = failures(cases, BEHAVIORS, null);
    const rule = ruleOf(failed, [firedCondition(cases, convert), worksCondition(cases, ads)]);
    expect([rule.cases, rule.failed, rule.isNecessary, rule.isSufficient]).toEqual([6, 0, false, false]);
  });

  it('may be about one bug', () => {
    const cases = space((planned) => planned === 3);
    expect(size(failures(cases, BEHAVIORS, 1))).toBe(1);
    expect(size(failures(cases, BEHAVIORS, 2))).toBe(0);
  });
});
