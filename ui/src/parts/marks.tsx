import { status as statusText, ending as endingText } from '../model/text.ts';
import type { Behavior, Outcome, RunHead } from '../model/view.ts';

/** Small marks. Each has a shape or a text beside its color. */

const VERDICTS: Record<string, string> = { pass: '✓', fail: '✕', unknown: '?' };

export function Verdict({ run }: { run: RunHead }) {
  const { verdict } = run;
  if (verdict === null) return <span className="verdict v-none">{run.end_ms === null ? 'unfinished' : 'done'}</span>;
  return (
    <span className={`verdict v-${verdict}`}>
      <span aria-hidden="true">{VERDICTS[verdict]}</span> {verdict}
    </span>
  );
}

export const OUTCOMES: Record<Outcome, { glyph: string; text: string; about: string }> = {
  fail: { glyph: '✕', text: 'fail', about: 'the reply is wrong' },
  unknown: { glyph: '?', text: 'unknown', about: 'the reply could not be judged' },
  pass: { glyph: '✓', text: 'pass', about: 'the reply is right although a fault fired' },
  unaffected: { glyph: '–', text: 'unaffected', about: 'no planned fault was reached' },
};

export function OutcomeMark({ outcome }: { outcome: Outcome }) {
  return (
    <span className={`outcome o-${outcome}`} aria-hidden="true">
      {OUTCOMES[outcome].glyph}
    </span>
  );
}

/** `500`, `crash`, `no reply` */
export function resultText(behavior: Behavior, isHttp: boolean): string {
  if (behavior.ending !== null && behavior.ending !== 'returned-error') return endingText(behavior.ending);
  return statusText(behavior.status, isHttp);
}

/** A bug's number on its pattern, so that two bugs differ without color. */
export function BugMark({ number }: { number: number }) {
  return <span className={`bug-mark bug-p${((number - 1) % 6) + 1}`}>{number}</span>;
}

/** A square in the color of a service, beside its name. */
export function ServiceMark({ index }: { index: number }) {
  return <span className={`service-mark s${index % 8}`} aria-hidden="true" />;
}

/** A number from 0 to 7 for a service, the same on every screen. */
export function hueOf(service: string): number {
  let hash = 0x811c9dc5;
  for (let i = 0; i < service.length; i += 1) hash = Math.imul(hash ^ service.charCodeAt(i), 0x01000193);
  return ((hash >>> 8) ^ hash) & 7;
}
