import type { ReactNode } from 'react';
import { duration, moment } from '../model/text.ts';
import type { RunHead } from '../model/view.ts';

/** Pairs of a name and a value. */
export function Facts({ list }: { list: [string, ReactNode][] }) {
  return (
    <dl className="facts">
      {list.map(([name, value]) => (
        <div key={name}>
          <dt>{name}</dt>
          <dd>{value}</dd>
        </div>
      ))}
    </dl>
  );
}

export function runFacts(run: RunHead): [string, ReactNode][] {
  const took = run.end_ms === null ? 'not finished' : duration((run.end_ms - run.begin_ms) * 1000);
  return [
    ['Run', <code key="id">{run.id}</code>],
    ['Kind', run.kind],
    ['Began', moment(run.begin_ms, Date.now())],
    ['Took', took],
    ['Seed', <code key="seed">{String(run.seed)}</code>],
    ['Faultloom', run.tool_version],
    ['Kernel', run.kernel],
    ['CPUs', String(run.cpus)],
  ];
}
