import type { Behavior, SiteColumn } from './view.ts';

/** A drawn column: one site, or a folded series of calls such as `Convert#1–10`. */
export interface ShownColumn {
  /** Stable in addresses: the index of its first site. */
  id: number;
  service: string;
  label: string;
  kind: string;
  /** Indices of its sites. */
  sites: number[];
  /** The series it belongs to: the index of its first site; none outside of a series. */
  series: number | null;
}

/** Calls that make a series, at least. */
const SERIES_MIN = 3;

interface Numbered {
  base: string;
  number: number;
}

function numbered(label: string): Numbered | null {
  const [, base, number] = /^(.*)#(\d+)$/.exec(label) ?? [];
  return base === undefined ? null : { base, number: Number(number) };
}

/**
 * The columns to draw. `open`: series that are shown site by site, by the index of their first site.
 * `wanted`: which sites are shown at all.
 */
export function shownColumns(
  columns: SiteColumn[],
  open: ReadonlySet<number>,
  wanted: (column: SiteColumn) => boolean,
): ShownColumn[] {
  const out: ShownColumn[] = [];
  const indices = columns.flatMap((column, i) => (wanted(column) ? [i] : []));
  for (let at = 0; at < indices.length;) {
    const first = indices[at] ?? 0;
    const column = columns[first];
    if (column === undefined) break;
    const name = numbered(column.label);
    const isSame = (other: SiteColumn | undefined) =>
      other?.service === column.service &&
      other.kind === column.kind &&
      name !== null &&
      numbered(other.label)?.base === name.base;
    let end = at + 1;
    while (end < indices.length && isSame(columns[indices[end] ?? 0])) end += 1;
    const sites = indices.slice(at, end);
    const { service, kind } = column;
    if (name === null || sites.length < SERIES_MIN) {
      for (const site of sites) {
        out.push({ id: site, service, label: columns[site]?.label ?? '', kind, sites: [site], series: null });
      }
    } else if (open.has(first)) {
      for (const site of sites) {
        out.push({ id: site, service, label: columns[site]?.label ?? '', kind, sites: [site], series: first });
      }
    } else {
      const last = numbered(columns[sites.at(-1) ?? 0]?.label ?? '')?.number ?? name.number;
      out.push({ id: first, service, label: `${name.base}#${name.number}–${last}`, kind, sites, series: first });
    }
    at = end;
  }
  return out;
}

export interface CellState {
  fired: number;
  notReached: number;
}

export function cellOf(behavior: Behavior, column: ShownColumn): CellState {
  let [fired, notReached] = [0, 0];
  for (const site of column.sites) {
    const cell = behavior.cells[site];
    if (cell === 'x') fired += 1;
    else if (cell === 'o') notReached += 1;
  }
  return { fired, notReached };
}

/** How often requests failed when a fault of this column fired. Of a series: per fault, not per case. */
export function hits(columns: SiteColumn[], column: ShownColumn): { failed: number; fired: number; planned: number } {
  const sum = { failed: 0, fired: 0, planned: 0 };
  for (const site of column.sites) {
    sum.failed += columns[site]?.failed_when_fired ?? 0;
    sum.fired += columns[site]?.fired ?? 0;
    sum.planned += columns[site]?.planned ?? 0;
  }
  return sum;
}

/** Neighbors of one service. */
export function serviceGroups(shown: ShownColumn[]): { service: string; columns: ShownColumn[] }[] {
  const groups: { service: string; columns: ShownColumn[] }[] = [];
  for (const column of shown) {
    const last = groups.at(-1);
    if (last?.service === column.service) last.columns.push(column);
    else groups.push({ service: column.service, columns: [column] });
  }
  return groups;
}
