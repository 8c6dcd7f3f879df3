import { OutcomeMark, OUTCOMES, resultText } from '../parts/marks.tsx';
import { compareBehaviors } from '../model/behaviors.ts';
import { count, counted } from '../model/text.ts';
import type { Behavior, RunView, SweepView } from '../model/view.ts';
import { useRun } from '../source/use.ts';
import { to } from '../state/place.ts';
import { Link } from '../state/router.tsx';

/** Rows of a list; the run itself has all of them. */
const ROWS = 50;

/** What two sweeps have in common. Nothing for other kinds of runs. */
export function RunsCompared({ first, other }: { first: string; other: string }) {
  const [a, b] = [useRun(first), useRun(other)];
  if (a.state !== 'ready' || b.state !== 'ready') return null;
  if (a.value.content.kind !== 'sweep' || b.value.content.kind !== 'sweep') return null;
  const { onlyFirst, onlyOther, both } = compareBehaviors(a.value.content, b.value.content);
  return (
    <section className="runs-compared" aria-label="Behaviors of both runs">
      <h2>
        {counted(both.length, 'behavior')} in both, {count(onlyFirst.length)} only in {a.value.run.short_id},{' '}
        {count(onlyOther.length)} only in {b.value.run.short_id}
      </h2>
      <div className="two">
        <Only view={a.value} sweep={a.value.content} behaviors={onlyFirst} />
        <Only view={b.value} sweep={b.value.content} behaviors={onlyOther} />
      </div>
    </section>
  );
}

function Only({ view, sweep, behaviors }: { view: RunView; sweep: SweepView; behaviors: Behavior[] }) {
  return (
    <section aria-label={`Only in ${view.run.short_id}`}>
      <h3>Only in {view.run.short_id}</h3>
      {behaviors.length === 0 && <p className="soft">None.</p>}
      <ul>
        {behaviors.slice(0, ROWS).map((behavior) => (
          <li key={behavior.id}>
            <OutcomeMark outcome={behavior.outcome} />{' '}
            <Link to={`${to.run(view.run.id, 'behaviors')}?sel=${encodeURIComponent(behavior.id)}`}>
              {OUTCOMES[behavior.outcome].text}, {resultText(behavior, sweep.protocol === 'http')}
            </Link>{' '}
            <span className="soft breaks">
              {counted(behavior.cases, 'case')}: {behavior.example_faults.join(', ') || 'no fault'}
            </span>
          </li>
        ))}
      </ul>
      {behaviors.length > ROWS && <p className="soft">and {count(behaviors.length - ROWS)} more</p>}
    </section>
  );
}
