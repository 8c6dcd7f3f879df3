import type { Behavior, SiteColumn, SweepView } from './view.ts';

/** Ways to narrow the behaviors down. Within a facet, any of the values; between facets, all of them. */
export const FACETS = ['bug', 'outcome', 'space', 'service', 'kind'] as const;
export type Facet = (typeof FACETS)[number];

export type BehaviorFilter = Record<Facet, string[]> & { text: string };

export function filterOf(query: URLSearchParams): BehaviorFilter {
  const list = (key: string) => (query.get(key) ?? '').split(',').filter((value) => value !== '');
  return {
    bug: list('bug'),
    outcome: list('outcome'),
    space: list('space'),
    service: list('service'),
    kind: list('kind'),
    text: query.get('q') ?? '',
  };
}

/** The values of a facet that a behavior has. */
export function valuesOf(sweep: SweepView, behavior: Behavior, facet: Facet): string[] {
  switch (facet) {
    case 'bug':
      return behavior.bugs.map(String);
    case 'outcome':
      return [behavior.outcome];
    case 'space':
      return behavior.spaces.map((count) => sweep.spaces[count.space]?.name ?? '');
    case 'service':
      return firedColumns(sweep, behavior, (column) => column.service);
    case 'kind':
      return firedColumns(sweep, behavior, (column) => column.kind);
  }
}

function firedColumns(sweep: SweepView, behavior: Behavior, of: (column: SiteColumn) => string): string[] {
  const values = new Set<string>();
  for (let i = 0; i < behavior.cells.length; i += 1) {
    const column = sweep.columns[i];
    if (behavior.cells[i] === 'x' && column !== undefined) values.add(of(column));
  }
  return [...values];
}

/** The text of a behavior that a search finds. */
function haystack(sweep: SweepView, behavior: Behavior): string {
  const titles = behavior.bugs.map((number) => sweep.bugs.find((bug) => bug.number === number)?.title ?? '');
  const fired = firedColumns(sweep, behavior, (column) => `${column.service} ${column.fault}`);
  return [behavior.id, behavior.outcome, behavior.reason, behavior.status, behavior.ending, ...titles, ...fired]
    .join(' ')
    .toLowerCase();
}

export interface Filtered {
  /** Indices of the behaviors that match, in the order of the view. */
  rows: number[];
  /** For each facet, the number of behaviors per value if only the other facets were set. */
  counts: Record<Facet, Map<string, number>>;
}

export function filtered(sweep: SweepView, filter: BehaviorFilter): Filtered {
  const words = filter.text.toLowerCase().split(/\s+/).filter(Boolean);
  const counts = Object.fromEntries(FACETS.map((facet) => [facet, new Map<string, number>()])) as Filtered['counts'];
  const rows: number[] = [];
  sweep.behaviors.forEach((behavior, index) => {
    if (words.length > 0) {
      const text = haystack(sweep, behavior);
      if (!words.every((word) => text.includes(word))) return;
    }
    const values = FACETS.map((facet) => valuesOf(sweep, behavior, facet));
    const fits = FACETS.map(
      (facet, i) => filter[facet].length === 0 || filter[facet].some((value) => values[i]?.includes(value)),
    );
    const misses = fits.filter((fit) => !fit).length;
    if (misses === 0) rows.push(index);
    FACETS.forEach((facet, i) => {
      if (misses > 1 || (misses === 1 && fits[i])) return;
      for (const value of values[i] ?? []) counts[facet].set(value, (counts[facet].get(value) ?? 0) + 1);
    });
  });
  return { rows, counts };
}

/** The number of a behavior's cases in the selected spaces. */
export function casesIn(sweep: SweepView, behavior: Behavior, spaces: string[]): number {
  if (spaces.length === 0) return behavior.cases;
  return behavior.spaces
    .filter((count) => spaces.includes(sweep.spaces[count.space]?.name ?? ''))
    .reduce((sum, count) => sum + count.cases, 0);
}
