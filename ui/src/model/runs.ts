import type { RunHead } from './view.ts';

/** What the list of runs shows. */
export interface RunFilter {
  text: string;
  kind: string;
  verdict: string;
  /** Only runs that began within this many hours; 0 for all. */
  hours: number;
}

export function filterOf(query: URLSearchParams): RunFilter {
  return {
    text: query.get('q') ?? '',
    kind: query.get('kind') ?? '',
    verdict: query.get('verdict') ?? '',
    hours: Number(query.get('hours') ?? 0) || 0,
  };
}

/** Its verdict; `done` for a kind of run that has none. */
const stateOf = (run: RunHead): string => run.verdict ?? (run.end_ms === null ? 'unfinished' : 'done');

/** Matching runs, those in progress first, otherwise in the given order: newest first. */
export function select(
  runs: RunHead[],
  filter: RunFilter,
  isLive: (run: RunHead) => boolean,
  nowMs: number,
): RunHead[] {
  const words = filter.text.toLowerCase().split(/\s+/).filter(Boolean);
  const matches = (run: RunHead) => {
    const text = `${run.id} ${run.kind} ${run.title} ${run.summary}`.toLowerCase();
    return (
      words.every((word) => text.includes(word)) &&
      (filter.kind === '' || run.kind === filter.kind) &&
      (filter.verdict === '' || stateOf(run) === filter.verdict) &&
      (filter.hours === 0 || nowMs - run.begin_ms <= filter.hours * 3_600_000)
    );
  };
  const found = runs.filter(matches);
  const rank = (run: RunHead) => (isLive(run) ? 0 : run.end_ms === null ? 1 : 2);
  return found
    .map((run, i) => ({ run, i }))
    .sort((a, b) => rank(a.run) - rank(b.run) || a.i - b.i)
    .map(({ run }) => run);
}
