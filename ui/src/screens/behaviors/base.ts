import { again } from '../../model/command.ts';
import type { Behavior, SweepView } from '../../model/view.ts';
import type { RequestName } from '../../source/source.ts';

/** What a behavior is compared with: `good`, `bug-N`, or the id of another behavior. */

/** The bases that `[` and `]` go through: good, each bug, and the current one. */
export function bases(sweep: SweepView, current: string): string[] {
  const list = ['good', ...sweep.bugs.map((bug) => `bug-${bug.number}`)];
  return list.includes(current) ? list : [...list, current];
}

export function baseText(sweep: SweepView, base: string): string {
  if (base === 'good') return 'the good request';
  const bug = /^bug-(\d+)$/.exec(base)?.[1];
  if (bug !== undefined) return `bug ${bug}`;
  const at = sweep.behaviors.findIndex((behavior) => behavior.id === base);
  return at < 0 ? 'another behavior' : `behavior ${at + 1}`;
}

export function baseName(run: string, sweep: SweepView, base: string): RequestName | null {
  if (base === 'good') return { run, which: 'main' };
  if (/^bug-\d+$/.test(base)) return { run, which: base };
  const behavior = sweep.behaviors.find((one) => one.id === base);
  return behavior === undefined ? null : requestOf(run, sweep, behavior);
}

/** The stored request of a behavior: its own, or that of the bug with the same faults. */
export function requestOf(run: string, sweep: SweepView, behavior: Behavior): RequestName | null {
  if (behavior.has_trace) return { run, which: `behavior-${behavior.fingerprint}` };
  const bug = bugWithFaults(sweep, behavior);
  return bug === undefined ? null : { run, which: `bug-${bug.number}` };
}

function bugWithFaults(sweep: SweepView, behavior: Behavior) {
  const faults = [...behavior.example_faults].sort().join('\n');
  return [...sweep.bugs, ...sweep.hard_dependencies].find(
    (bug) => behavior.bugs.includes(bug.number) && [...bug.faults].sort().join('\n') === faults,
  );
}

/** The command that sends the simplest case of a behavior again. */
export function commandOf(sweep: SweepView, behavior: Behavior): string {
  const bug = bugWithFaults(sweep, behavior);
  if (bug !== undefined && bug.again !== '') return bug.again;
  const known = [...sweep.bugs, ...sweep.hard_dependencies, ...sweep.unexplained].find((one) => one.again !== '');
  return again(known?.again, sweep.request, behavior.example_faults);
}
