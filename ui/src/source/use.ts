import { createContext, useContext, useSyncExternalStore } from 'react';
import type { Cache, Loaded } from './cache.ts';
import { path, type RequestName } from './source.ts';
import { decodeCases, type Cases } from '../model/cases.ts';
import { decodeComparison, type Comparison } from '../model/comparison.ts';
import { decodeTrace, type Trace } from '../model/trace.ts';
import type { About, RunList, RunView } from '../model/view.ts';

export const CacheContext = createContext<Cache | null>(null);

export function useCache(): Cache {
  const cache = useContext(CacheContext);
  if (cache === null) throw new Error('a page without a source');
  useSyncExternalStore(cache.subscribe, cache.snapshot);
  return cache;
}

const IDLE: Loaded<never> = { state: 'loading' };
const as =
  <T>() =>
  (reply: unknown) =>
    reply as T;

export const useAbout = (): Loaded<About> => useCache().read(path.about, as<About>());
export const useRuns = (): Loaded<RunList> => useCache().read(path.runs, as<RunList>());
export const useRun = (run: string): Loaded<RunView> => useCache().read(path.view(run), as<RunView>());

/** `null`: nothing is wanted yet. */
export function useCases(run: string, space: number | null): Loaded<Cases> {
  const cache = useCache();
  return space === null ? IDLE : cache.read(path.cases(run, space), decodeCases);
}

export const useTrace = (name: RequestName): Loaded<Trace> =>
  useCache().read(path.trace(name.run, name.which), decodeTrace);

export function useComparison(names: { first: RequestName; other: RequestName } | null): Loaded<Comparison> {
  const cache = useCache();
  return names === null ? IDLE : cache.read(path.comparison(names.first, names.other), decodeComparison);
}
