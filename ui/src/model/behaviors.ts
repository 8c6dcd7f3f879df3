import type { Behavior, SweepView } from './view.ts';

/** The behaviors of two sweeps. The id of a behavior is the same in every run. */
export interface ComparedBehaviors {
  onlyFirst: Behavior[];
  onlyOther: Behavior[];
  both: [Behavior, Behavior][];
}

export function compareBehaviors(first: SweepView, other: SweepView): ComparedBehaviors {
  const known = new Map(other.behaviors.map((behavior) => [behavior.id, behavior]));
  const both = first.behaviors.flatMap((behavior): [Behavior, Behavior][] => {
    const same = known.get(behavior.id);
    return same === undefined ? [] : [[behavior, same]];
  });
  const shared = new Set(both.map(([behavior]) => behavior.id));
  return {
    onlyFirst: first.behaviors.filter((behavior) => !shared.has(behavior.id)),
    onlyOther: other.behaviors.filter((behavior) => !shared.has(behavior.id)),
    both,
  };
}
