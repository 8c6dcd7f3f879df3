import type { About, CaseColumns, ComparisonView, RunList, RunProgress, RunView, TraceView } from '../model/view.ts';

/** What a path of the API returns. Paths are those below `/api/v1/`. */
export interface Replies {
  about: About;
  runs: RunList;
  view: RunView;
  cases: CaseColumns;
  trace: TraceView;
  comparison: ComparisonView;
}

export type SourceEvent = { type: 'runs' } | ({ type: 'progress' } & RunProgress);

/** Where the page gets its data: the API of `faultloom ui`, or data embedded in a report. */
export interface Source {
  readonly kind: 'api' | 'embedded';
  /** The reply to a path. Throws a `SourceFailure`. */
  get(path: string): Promise<unknown>;
  /** Deletes a run. Only if `about` allows it. */
  delete(run: string): Promise<void>;
  /** Calls `listener` for each event until the returned function is called. */
  listen(listener: (event: SourceEvent) => void): () => void;
}

export const path = {
  about: 'about',
  runs: 'runs',
  view: (run: string) => `runs/${encodeURIComponent(run)}/view`,
  cases: (run: string, space: number) => `runs/${encodeURIComponent(run)}/cases/${space}`,
  trace: (run: string, which: string) => `runs/${encodeURIComponent(run)}/traces/${encodeURIComponent(which)}`,
  comparison: (first: RequestName, other: RequestName) =>
    `comparison/${[first.run, first.which, other.run, other.which].map(encodeURIComponent).join('/')}`,
};

/** A request of a run: `main`, `request-2`, `bug-1`, `behavior-FINGERPRINT`. */
export interface RequestName {
  run: string;
  which: string;
}
