import { NONE } from './columns.ts';
import type { Trace } from './trace.ts';

/** Geometry of a trace with up to millions of rows: what is shown, in which order, and where time passes. */

/** A range of time in ticks. */
export interface TimeRange {
  from: number;
  to: number;
}

const SPAN_MIN = 4;

/** Around a moment; a factor below 1 shows less time. */
export function zoomed(range: TimeRange, extent: number, factor: number, around: number): TimeRange {
  const span = Math.min(extent, Math.max(SPAN_MIN, (range.to - range.from) * factor));
  const share = (around - range.from) / (range.to - range.from || 1);
  return within({ from: around - share * span, to: around + (1 - share) * span }, extent);
}

export const panned = (range: TimeRange, extent: number, share: number): TimeRange => {
  const by = (range.to - range.from) * share;
  return within({ from: range.from + by, to: range.to + by }, extent);
};

/** Moved into the trace. */
export function within(range: TimeRange, extent: number): TimeRange {
  const span = Math.min(extent, range.to - range.from);
  const from = Math.min(Math.max(0, range.from), extent - span);
  return { from, to: from + span };
}

/** The rows that are not hidden below a closed one. */
export function openRows(rows: number, ends: Uint32Array, closed: ReadonlySet<number>): Uint32Array {
  const out = new Uint32Array(rows);
  let length = 0;
  for (let row = 0; row < rows;) {
    out[length] = row;
    length += 1;
    row = closed.has(row) ? (ends[row] ?? rows) : row + 1;
  }
  return out.subarray(0, length);
}

/**
 * The calls that determined how long the request took: from the end of each call backward, the call below it that
 * ended last before that moment. As in CRISP (USENIX ATC 2022), for synchronous calls.
 */
export function criticalPath(trace: Trace, ends: Uint32Array): Uint8Array {
  const isCritical = new Uint8Array(trace.rows);
  const pending = [0];
  if (trace.rows === 0) return isCritical;
  while (pending.length > 0) {
    const row = pending.pop() ?? 0;
    isCritical[row] = 1;
    const children: number[] = [];
    for (let child = row + 1; child < (ends[row] ?? 0); child = ends[child] ?? child + 1) children.push(child);
    children.sort((a, b) => (trace.end[b] ?? 0) - (trace.end[a] ?? 0));
    let moment = trace.end[row] ?? 0;
    for (const child of children) {
      if ((trace.end[child] ?? 0) > moment) continue;
      pending.push(child);
      moment = trace.start[child] ?? 0;
    }
  }
  return isCritical;
}

/** Rows of each depth in the order of their start, for the icicle view. */
export function byDepth(trace: Trace): Uint32Array[] {
  const counts: number[] = [];
  trace.depth.forEach((depth) => (counts[depth] = (counts[depth] ?? 0) + 1));
  const levels = Array.from(counts, (count) => new Uint32Array(count ?? 0));
  const filled = levels.map(() => 0);
  trace.depth.forEach((depth, row) => {
    const level = levels[depth];
    const at = filled[depth] ?? 0;
    if (level !== undefined) level[at] = row;
    filled[depth] = at + 1;
  });
  for (const level of levels) {
    let isSorted = true;
    for (let i = 1; i < level.length && isSorted; i += 1) {
      isSorted = (trace.start[level[i - 1] ?? 0] ?? 0) <= (trace.start[level[i] ?? 0] ?? 0);
    }
    if (!isSorted) level.sort((a, b) => (trace.start[a] ?? 0) - (trace.start[b] ?? 0));
  }
  return levels;
}

/** The first position of a level whose row starts at or after a moment. */
export function firstFrom(trace: Trace, level: Uint32Array, moment: number, from = 0): number {
  let [low, high] = [from, level.length];
  while (low < high) {
    const middle = (low + high) >> 1;
    if ((trace.start[level[middle] ?? 0] ?? 0) < moment) low = middle + 1;
    else high = middle;
  }
  return low;
}

/** For the overview: how many calls run at a time, and whether one failed, in `buckets` slices of time. */
export interface Density {
  busy: Float32Array;
  failed: Uint8Array;
}

export function density(trace: Trace, buckets: number): Density {
  const steps = new Float32Array(buckets + 1);
  const failed = new Uint8Array(buckets);
  const scale = buckets / trace.extent;
  for (let row = 0; row < trace.rows; row += 1) {
    const from = Math.min(buckets - 1, Math.floor((trace.start[row] ?? 0) * scale));
    const to = Math.min(buckets - 1, Math.floor((trace.end[row] ?? 0) * scale));
    steps[from] = (steps[from] ?? 0) + 1;
    steps[to + 1] = (steps[to + 1] ?? 0) - 1;
    const outcome = trace.outcome[row] ?? 0;
    if (outcome === 1 || outcome === 2) failed[to] = 1;
  }
  const busy = new Float32Array(buckets);
  let sum = 0;
  for (let i = 0; i < buckets; i += 1) {
    sum += steps[i] ?? 0;
    busy[i] = sum;
  }
  return { busy, failed };
}

/** Rows whose service, label or name contains the text. */
export function search(trace: Trace, text: string): Uint32Array {
  const wanted = text.trim().toLowerCase();
  if (wanted === '') return new Uint32Array(0);
  const matching = (list: string[]) => Uint8Array.from(list, (one) => Number(one.toLowerCase().includes(wanted)));
  const [services, labels, names] = [matching(trace.services), matching(trace.labels), matching(trace.names)];
  const out = new Uint32Array(trace.rows);
  let length = 0;
  for (let row = 0; row < trace.rows; row += 1) {
    if (
      services[trace.service[row] ?? 0] === 1 ||
      labels[trace.label[row] ?? 0] === 1 ||
      names[trace.name[row] ?? 0] === 1
    ) {
      out[length] = row;
      length += 1;
    }
  }
  return out.slice(0, length);
}

/** One byte per row: whether it was found. Much smaller than a set of 10^6 numbers. */
export function marks(trace: Trace, found: Uint32Array): Uint8Array {
  const out = new Uint8Array(found.length === 0 ? 0 : trace.rows);
  for (const row of found) out[row] = 1;
  return out;
}

/** The rows above a row, the request first. */
export function ancestors(trace: Trace, row: number): number[] {
  const out: number[] = [];
  for (let at = trace.parent[row] ?? NONE; at !== NONE; at = trace.parent[at] ?? NONE) out.unshift(at);
  return out;
}
