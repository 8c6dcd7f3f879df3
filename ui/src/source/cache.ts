import { failureOf, SourceFailure } from './failure.ts';
import type { RunProgress } from '../model/view.ts';
import type { Source } from './source.ts';
import { VERSION } from '../model/view.ts';

export type Loaded<T> =
  { state: 'loading' } | { state: 'ready'; value: T } | { state: 'failed'; failure: SourceFailure };

const LOADING = { state: 'loading' } as const;
const KEPT_MAX = 60;

/** Replies by path, decoded once. Components subscribe to it; events of the source make it load again. */
export class Cache {
  private readonly entries = new Map<string, Loaded<unknown>>();
  private readonly listeners = new Set<() => void>();
  /** Paths whose replies are shown until newer ones are there. */
  private readonly stale = new Set<string>();
  private isScheduled = false;
  readonly progress = new Map<string, RunProgress>();
  /** Changes with each change of an entry. */
  private version = 0;

  constructor(readonly source: Source) {
    source.listen((event) => {
      if (event.type === 'progress') {
        this.progress.set(event.run, event);
        this.schedule();
      } else {
        this.reload('runs');
        // a run that was unfinished may be finished now
        for (const [path, entry] of this.entries) if (entry.state === 'failed') this.stale.add(path);
      }
    });
  }

  subscribe = (listener: () => void): (() => void) => {
    this.listeners.add(listener);
    return () => this.listeners.delete(listener);
  };

  snapshot = (): number => this.version;

  /** The state of a path; begins to load it if it is unknown. */
  read<T>(path: string, decode: (reply: unknown) => T): Loaded<T> {
    const known = this.entries.get(path);
    if (known === undefined) this.entries.set(path, LOADING);
    if (known === undefined || this.stale.delete(path)) this.load(path, decode);
    return (known as Loaded<T> | undefined) ?? LOADING;
  }

  /** What was loaded of a path; loads nothing. */
  peek<T>(path: string): T | undefined {
    const known = this.entries.get(path);
    return known?.state === 'ready' ? (known.value as T) : undefined;
  }

  /** Loads a path again when it is read next. What is shown stays until then. */
  reload(path: string): void {
    if (this.entries.has(path)) this.stale.add(path);
    this.changed();
  }

  /** Progress may arrive thousands of times per second; the page is drawn once a frame. */
  private schedule(): void {
    if (this.isScheduled) return;
    this.isScheduled = true;
    requestAnimationFrame(() => {
      this.isScheduled = false;
      this.changed();
    });
  }

  private load<T>(path: string, decode: (reply: unknown) => T): void {
    this.source
      .get(path)
      .then((reply) => {
        refuseNewer(reply);
        this.put(path, { state: 'ready', value: decode(reply) });
      })
      .catch((thrown: unknown) => this.put(path, { state: 'failed', failure: failureOf(thrown) }));
  }

  private put(path: string, entry: Loaded<unknown>): void {
    this.entries.set(path, entry);
    for (const oldest of this.entries.keys()) {
      if (this.entries.size <= KEPT_MAX) break;
      if (oldest !== path && oldest !== 'runs' && oldest !== 'about') this.entries.delete(oldest);
    }
    this.changed();
  }

  private changed(): void {
    this.version += 1;
    this.listeners.forEach((listener) => listener());
  }
}

function refuseNewer(reply: unknown): void {
  const version = (reply as { version?: unknown } | null)?.version;
  if (typeof version === 'number' && version > VERSION) {
    throw new SourceFailure(
      'newer',
      'This run was written by a newer version of Faultloom',
      `its view has version ${version}, this page reads version ${VERSION}`,
      'update faultloom',
    );
  }
}
