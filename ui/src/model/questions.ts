import { has, type Cases } from './cases.ts';
import type { Behavior, SiteColumn } from './view.ts';

/**
 * Questions about all cases of a space: when do requests fail? A condition is a set of cases as a bitmap, so that all
 * pairs of conditions are compared in milliseconds.
 */

export type Bitmap = Uint32Array;

/** What is true of some cases: a fault fired there, or none was planned at a call. */
export interface Condition {
  text: string;
  /** Sites that it is about; one, or those of a series. */
  sites: number[];
  /** Whether the fault of one of the sites fired; otherwise, whether none was planned. */
  fired: boolean;
  cases: Bitmap;
  size: number;
}

export interface Rule {
  /** All of them hold. */
  conditions: Condition[];
  /** Cases in which they hold, and of those the failing ones. */
  cases: number;
  failed: number;
  /** All failing cases. */
  failures: number;
  /** No case fails without them. */
  isNecessary: boolean;
  /** All of their cases fail. */
  isSufficient: boolean;
}

export const words = (rows: number): number => (rows + 31) >> 5;

export function bitmap(rows: number, holds: (row: number) => boolean): Bitmap {
  const out = new Uint32Array(words(rows));
  for (let row = 0; row < rows; row += 1) {
    if (holds(row)) out[row >> 5] = (out[row >> 5] ?? 0) | (1 << (row & 31));
  }
  return out;
}

function popcount(word: number): number {
  let x = word - ((word >>> 1) & 0x5555_5555);
  x = (x & 0x3333_3333) + ((x >>> 2) & 0x3333_3333);
  return Math.imul((x + (x >>> 4)) & 0x0f0f_0f0f, 0x0101_0101) >>> 24;
}

export function size(map: Bitmap): number {
  let sum = 0;
  for (const word of map) sum += popcount(word);
  return sum;
}

/** The number of cases in all of the bitmaps. */
function common(a: Bitmap, b: Bitmap, c?: Bitmap): number {
  let sum = 0;
  for (let i = 0; i < a.length; i += 1) {
    sum += popcount((a[i] ?? 0) & (b[i] ?? 0) & (c === undefined ? -1 : (c[i] ?? 0)));
  }
  return sum;
}

/** A site of a space, or the series of calls that it belongs to, in the order of the good request. */
export interface Subject {
  text: string;
  sites: number[];
}

export function subjects(cases: Cases, columns: SiteColumn[]): Subject[] {
  const out: Subject[] = [];
  const series = new Map<string, Subject>();
  cases.columns.forEach((at, site) => {
    const column = columns[at];
    if (column === undefined) return;
    const name = column.label === column.service ? column.service : `${column.service}/${column.label}`;
    const suffix = column.kind === 'unavailable' ? '' : ` (${column.kind})`;
    const base = /^(.*)#\d+$/.exec(name)?.[1];
    if (base !== undefined) {
      const key = base + suffix;
      const known = series.get(key);
      if (known === undefined) {
        const subject = { text: `${base}${suffix}`, sites: [site] };
        series.set(key, subject);
        out.push(subject);
      } else {
        known.sites.push(site);
      }
    }
    if (base === undefined || cases.columns.length <= SITES_MAX) out.push({ text: name + suffix, sites: [site] });
  });
  return out.filter((subject, i) => out.findIndex((other) => sameSites(other, subject)) === i);
}

const sameSites = (a: Subject, b: Subject) =>
  a.sites.length === b.sites.length && a.sites.every((s, i) => s === b.sites[i]);

/** More sites than this are combined as series only. */
const SITES_MAX = 40;

export function firedCondition(cases: Cases, subject: Subject): Condition {
  const map = bitmap(cases.rows, (row) => subject.sites.some((site) => has(cases, cases.fired, row, site)));
  const any = subject.sites.length > 1 ? 'any ' : '';
  return { text: `${any}${subject.text} fails`, sites: subject.sites, fired: true, cases: map, size: size(map) };
}

export function worksCondition(cases: Cases, subject: Subject): Condition {
  const map = bitmap(cases.rows, (row) => !subject.sites.some((site) => has(cases, cases.planned, row, site)));
  return { text: `${subject.text} is not faulted`, sites: subject.sites, fired: false, cases: map, size: size(map) };
}

/** The failing cases, or those of one bug. */
export function failures(cases: Cases, behaviors: Behavior[], bug: number | null): Bitmap {
  const wanted = behaviors.map((one) => one.outcome === 'fail' && (bug === null || one.bugs.includes(bug)));
  return bitmap(cases.rows, (row) => wanted[cases.behavior[row] ?? 0] === true);
}

export function ruleOf(failed: Bitmap, conditions: Condition[]): Rule {
  const [first, second] = conditions;
  const total = size(failed);
  const holds = first === undefined ? total : second === undefined ? first.size : common(first.cases, second.cases);
  const both = first === undefined ? total : common(failed, first.cases, second?.cases);
  return {
    conditions,
    cases: holds,
    failed: both,
    failures: total,
    isNecessary: total > 0 && both === total,
    isSufficient: holds > 0 && both === holds,
  };
}

/**
 * The simplest rules that explain failures: conditions whose cases all fail, those that cover most failures first,
 * until all failures are covered; and conditions without which no case fails.
 */
export function explain(cases: Cases, columns: SiteColumn[], failed: Bitmap): Rule[] {
  const total = size(failed);
  if (total === 0) return [];
  const all = subjects(cases, columns);
  const fired = all.map((subject) => firedCondition(cases, subject)).filter((one) => one.size > 0);
  const works = all.map((subject) => worksCondition(cases, subject)).filter((one) => one.size > 0);
  const candidates: Rule[] = fired.map((one) => ruleOf(failed, [one]));
  fired.forEach((one, i) => {
    for (const other of fired.slice(i + 1)) {
      if (!overlaps(one, other)) candidates.push(ruleOf(failed, [one, other]));
    }
    for (const other of works) {
      // only an earlier call of the request can matter by its success
      if (!overlaps(one, other) && Math.max(...other.sites) < Math.min(...one.sites)) {
        candidates.push(ruleOf(failed, [one, other]));
      }
    }
  });
  const necessary = candidates.filter((rule) => rule.isNecessary && rule.cases < cases.rows).sort(byStrength)[0];
  const sufficient = candidates.filter((rule) => rule.isSufficient).sort(byStrength);
  const covered = new Uint32Array(failed.length);
  const chosen: Rule[] = necessary === undefined ? [] : [necessary];
  for (const rule of sufficient) {
    if (chosen.length >= RULES_MAX || common(failed, covered) === total) break;
    const [first, second] = rule.conditions;
    if (first === undefined) continue;
    let isNew = false;
    first.cases.forEach((word, i) => {
      const own = word & (second === undefined ? -1 : (second.cases[i] ?? 0));
      const before = covered[i] ?? 0;
      if ((own & ~before) !== 0) isNew = true;
      covered[i] = before | own;
    });
    if (isNew && rule !== necessary) chosen.push(rule);
  }
  return chosen;
}

const RULES_MAX = 6;

const overlaps = (a: Condition, b: Condition) => a.sites.some((site) => b.sites.includes(site));

/** Rules that hold in both directions first, then those of more failures, of fewer cases, of fewer conditions. */
function byStrength(a: Rule, b: Rule): number {
  const both = (rule: Rule) => Number(rule.isNecessary && rule.isSufficient);
  return both(b) - both(a) || b.failed - a.failed || a.cases - b.cases || a.conditions.length - b.conditions.length;
}

/** `exactly when X fails and Y is not faulted` */
export function ruleText(rule: Rule): string {
  const kind = rule.isNecessary && rule.isSufficient ? 'exactly when' : rule.isNecessary ? 'only when' : 'whenever';
  return `${kind} ${rule.conditions.map((one) => one.text).join(' and ')}`;
}
