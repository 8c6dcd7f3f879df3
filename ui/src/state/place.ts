import type { RequestName } from '../source/source.ts';

/** Which screen an address shows. */
export type Place =
  | { screen: 'runs' }
  | { screen: 'run'; run: string; view: RunScreen | null }
  | { screen: 'trace'; run: string; which: string }
  | { screen: 'diff'; first: RequestName; other: RequestName }
  | { screen: 'unknown' };

export const RUN_SCREENS = ['behaviors', 'requests', 'map', 'flips'] as const;
export type RunScreen = (typeof RUN_SCREENS)[number];

export function placeOf(path: string): Place {
  const parts = path.split('/').filter((part) => part !== '');
  const [first, run, view, which] = parts.map(decoded);
  if (parts.length === 0 || (first === 'runs' && parts.length === 1)) return { screen: 'runs' };
  if (first === 'r' && run !== undefined) {
    if (view === undefined) return { screen: 'run', run, view: null };
    if (view === 'trace') return { screen: 'trace', run, which: which ?? 'main' };
    const known = RUN_SCREENS.find((one) => one === view);
    if (known !== undefined && which === undefined) return { screen: 'run', run, view: known };
  }
  if (first === 'diff' && run !== undefined) {
    const names = (parts[1] ?? '').split('..').map(requestName);
    if (names.length === 2 && names[0] && names[1]) return { screen: 'diff', first: names[0], other: names[1] };
  }
  return { screen: 'unknown' };
}

function decoded(part: string): string {
  try {
    return decodeURIComponent(part);
  } catch {
    return part;
  }
}

/** `ID:main`; `ID` alone is its main request. */
function requestName(text: string): RequestName | null {
  const [run, which = 'main'] = decoded(text).split(':');
  return run === undefined || run === '' ? null : { run, which };
}

const part = encodeURIComponent;

export const to = {
  runs: '/runs',
  run: (run: string, view?: RunScreen) => (view === undefined ? `/r/${part(run)}` : `/r/${part(run)}/${view}`),
  trace: (run: string, which: string) => `/r/${part(run)}/trace/${part(which)}`,
  diff: (first: RequestName, other: RequestName) =>
    `/diff/${[first, other].map((name) => `${part(name.run)}:${part(name.which)}`).join('..')}`,
};
