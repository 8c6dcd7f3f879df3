import { useEffect, useMemo, useRef, useState } from 'react';
import {
  ancestors,
  byDepth,
  criticalPath,
  openRows,
  panned,
  within,
  zoomed,
  type TimeRange,
} from '../../model/timeline.ts';
import { subtreeEnds, type Trace } from '../../model/trace.ts';
import { useRouter } from '../../state/router.tsx';

export type Mode = 'rows' | 'flame';
export const ROW_PX = 22;
const ADDRESS_MS = 250;

/** What a timeline shows, and how it changes. The address has all of it. */
export interface Timeline {
  trace: Trace;
  mode: Mode;
  range: TimeRange;
  /** The first visible line; a fraction while scrolling. */
  top: number;
  selected: number | null;
  /** Rows that are drawn, in order. */
  rows: Uint32Array;
  ends: Uint32Array;
  closed: ReadonlySet<number>;
  critical: Uint8Array | null;
  levels: Uint32Array[];
  /** Lines in all. */
  lines: number;
  setRange(range: TimeRange): void;
  zoom(factor: number, around?: number): void;
  pan(share: number): void;
  scroll(top: number): void;
  /** Lines that fit; the drawing reports it. */
  height: { current: number };
  select(row: number | null, reveal?: boolean): void;
  toggle(row: number): void;
  step(by: number): void;
  set(patch: Record<string, string | number | null>): void;
}

export function useTimeline(trace: Trace): Timeline {
  const router = useRouter();
  const query = router.address.query;
  const mode: Mode = query.get('view') === 'flame' ? 'flame' : 'rows';
  const [range, setRangeNow] = useState<TimeRange>(() => rangeOf(query.get('t'), trace.extent));
  const [topWanted, setTop] = useState(0);
  const [closed, setClosed] = useState<ReadonlySet<number>>(new Set());
  const height = useRef(20);
  const ends = useMemo(() => subtreeEnds(trace.depth), [trace]);
  const rows = useMemo(() => openRows(trace.rows, ends, closed), [trace, ends, closed]);
  const levels = useMemo(() => (mode === 'flame' ? byDepth(trace) : []), [trace, mode]);
  const isCritical = query.get('critical') !== null;
  const critical = useMemo(() => (isCritical ? criticalPath(trace, ends) : null), [trace, ends, isCritical]);
  const wanted = query.get('call');
  const selected = wanted !== null && Number(wanted) < trace.rows ? Number(wanted) : null;
  const lines = mode === 'flame' ? levels.length : rows.length;
  const limit = Math.max(0, lines - height.current + 1);
  const top = Math.max(0, Math.min(topWanted, limit));

  const pending = useRef<ReturnType<typeof setTimeout> | undefined>(undefined);
  useEffect(() => () => clearTimeout(pending.current), []);
  const setRange = (next: TimeRange) => {
    setRangeNow(next);
    clearTimeout(pending.current);
    const isWhole = next.from <= 0 && next.to >= trace.extent;
    const text = isWhole ? null : `${Math.round(next.from)}-${Math.round(next.to)}`;
    pending.current = setTimeout(() => router.set({ t: text }), ADDRESS_MS);
  };
  const lineOf = (row: number) => (mode === 'flame' ? (trace.depth[row] ?? 0) : positionOf(rows, row));
  const reveal = (row: number) => {
    const line = lineOf(row);
    if (line < top + 1 || line > top + height.current - 3) setTop(Math.max(0, line - height.current / 2));
    const [from, to] = [trace.start[row] ?? 0, trace.end[row] ?? 0];
    if (to < range.from || from > range.to) {
      const span = range.to - range.from;
      setRange(within({ from: from - span / 4, to: from + (span * 3) / 4 }, trace.extent));
    }
  };
  const select = (row: number | null, isRevealed = true) => {
    router.set({ call: row });
    if (row === null || !isRevealed) return;
    const hidden = ancestors(trace, row).filter((above) => closed.has(above));
    if (hidden.length > 0) setClosed(new Set([...closed].filter((one) => !hidden.includes(one))));
    reveal(row);
  };
  // an address that names a call shows it
  useEffect(() => {
    if (selected !== null) reveal(selected);
  }, [trace, mode]);
  return {
    trace,
    mode,
    range,
    top,
    selected,
    rows,
    ends,
    closed,
    critical,
    levels,
    lines,
    height,
    setRange,
    zoom: (factor, around) => setRange(zoomed(range, trace.extent, factor, around ?? center(trace, range, selected))),
    pan: (share) => setRange(panned(range, trace.extent, share)),
    scroll: (next) => setTop(Math.max(0, Math.min(next, limit))),
    select,
    toggle: (row) => {
      const next = new Set(closed);
      if (!next.delete(row)) next.add(row);
      setClosed(next);
    },
    step: (by) => {
      const at = selected === null ? -1 : positionOf(rows, selected);
      select(rows[Math.max(0, Math.min(rows.length - 1, at + by))] ?? null);
    },
    set: (patch) => router.set(patch),
  };
}

function rangeOf(text: string | null, extent: number): TimeRange {
  const [, from, to] = /^(\d+)-(\d+)$/.exec(text ?? '') ?? [];
  if (from === undefined || to === undefined || Number(to) <= Number(from)) return { from: 0, to: extent };
  return within({ from: Number(from), to: Number(to) }, extent);
}

/** Zooming keeps the selected call in view, if it is. */
function center(trace: Trace, range: TimeRange, selected: number | null): number {
  const middle = (range.from + range.to) / 2;
  if (selected === null) return middle;
  const at = ((trace.start[selected] ?? 0) + (trace.end[selected] ?? 0)) / 2;
  return at >= range.from && at <= range.to ? at : middle;
}

/** The position of the largest entry that is at most `row`. */
function positionOf(rows: Uint32Array, row: number): number {
  let [low, high] = [0, rows.length];
  while (low < high) {
    const middle = (low + high) >> 1;
    if ((rows[middle] ?? 0) <= row) low = middle + 1;
    else high = middle;
  }
  return Math.max(0, low - 1);
}
