import { expect, it } from 'vitest';
import { compareBehaviors } from './behaviors.ts';
import type { SweepView } from './view.ts';

const sweep = (...ids: string[]) => ({ behaviors: ids.map((id) => ({ id })) }) as unknown as SweepView;

it('behaviors of two runs are in one of them or in both', () => {
  const { onlyFirst, onlyOther, both } = compareBehaviors(sweep('a', 'b'), sweep('b', 'c', 'd'));
  expect(onlyFirst.map((one) => one.id)).toEqual(['a']);
  expect(onlyOther.map((one) => one.id)).toEqual(['c', 'd']);
  expect(both.map(([one]) => one.id)).toEqual(['b']);
});
