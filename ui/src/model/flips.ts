import type { FlipSlice, FlipStory, ShareView, TallyView } from './view.ts';

/** Shares with intervals, groups of flips, and bytes side by side. */

export const errors = (tally: TallyView): number =>
  tally.undetected + tally.detected_by_hardening + tally.detected_otherwise;

export const flipped = (tally: TallyView): number => errors(tally) + tally.no_effect + tally.not_judged;

const Z = 1.959964;

/** A share with its 95 % interval (Wilson's score interval). None without a trial. */
export function share(hits: number, trials: number): ShareView | null {
  if (trials === 0) return null;
  const p = hits / trials;
  const spread = Z * Z;
  const middle = (p + spread / (2 * trials)) / (1 + spread / trials);
  const half = (Z / (1 + spread / trials)) * Math.sqrt((p * (1 - p)) / trials + spread / (4 * trials * trials));
  return {
    share: p,
    low: hits === 0 ? 0 : Math.max(0, middle - half),
    high: hits === trials ? 1 : Math.min(1, middle + half),
  };
}

/** A row of a drill-down: a function, a class of instructions or a bit. */
export interface FlipGroup {
  key: string;
  tally: TallyView;
  undetected: ShareView | null;
}

const NO_FLIPS: TallyView = {
  no_effect: 0,
  undetected: 0,
  detected_by_hardening: 0,
  detected_otherwise: 0,
  not_flipped: 0,
  not_judged: 0,
};

/** Slices by key, of one group of flips or of all; the most undetected errors first. */
export function groups(slices: FlipSlice[], group: string, order: 'share' | 'key'): FlipGroup[] {
  const sums = new Map<string, TallyView>();
  for (const slice of slices) {
    if (group !== '' && slice.group !== group) continue;
    const sum = sums.get(slice.key) ?? { ...NO_FLIPS };
    for (const name of Object.keys(sum) as (keyof TallyView)[]) sum[name] += slice.tally[name];
    sums.set(slice.key, sum);
  }
  const rows = [...sums].map(([key, tally]) => ({ key, tally, undetected: share(tally.undetected, errors(tally)) }));
  if (order === 'key') return rows.sort((a, b) => a.key.localeCompare(b.key, 'en', { numeric: true }));
  return rows.sort((a, b) => b.tally.undetected - a.tally.undetected || errors(b.tally) - errors(a.tally));
}

/** What is selected of a campaign. Empty: everything. */
export interface FlipFilter {
  variant: number;
  fn: string;
  class: string;
  bit: string;
}

export function matches(story: FlipStory, filter: FlipFilter): boolean {
  return (
    story.variant === filter.variant &&
    (filter.fn === '' || functionOf(story) === filter.fn) &&
    (filter.class === '' || story.class === filter.class) &&
    (filter.bit === '' || String(story.bit) === filter.bit)
  );
}

/** As the slices by function name it: the module in parentheses if it has no symbols. */
export const functionOf = (story: FlipStory): string =>
  story.function || (story.module === '' ? '(no name)' : `(${story.module})`);

/** Stories by function, the function with most of them first; within it by instruction. */
export function byFunction(stories: FlipStory[]): { name: string; stories: FlipStory[] }[] {
  const sums = new Map<string, FlipStory[]>();
  for (const story of stories) {
    const list = sums.get(functionOf(story));
    if (list === undefined) sums.set(functionOf(story), [story]);
    else list.push(story);
  }
  return [...sums]
    .map(([name, list]) => ({ name, stories: list.sort((a, b) => a.offset - b.offset || a.id - b.id) }))
    .sort((a, b) => b.stories.length - a.stories.length || a.name.localeCompare(b.name));
}

/** One byte, or an escape that stands for one. */
export interface Token {
  text: string;
  differs: boolean;
}

const TOKEN = /\\x[0-9a-fA-F]{2}|\\u\{[0-9a-fA-F]+\}|\\.|[\s\S]/gu;

/** Both outputs byte by byte, from the same beginning; a byte differs if the other output has another one there. */
export function sideBySide(expected: string, actual: string): { expected: Token[]; actual: Token[] } {
  const [a, b] = [expected.match(TOKEN) ?? [], actual.match(TOKEN) ?? []];
  const mark = (own: string[], other: string[]) => own.map((text, i) => ({ text, differs: other[i] !== text }));
  return { expected: mark(a, b), actual: mark(b, a) };
}
