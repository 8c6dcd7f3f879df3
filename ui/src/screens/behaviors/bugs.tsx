import { BugMark } from '../../parts/marks.tsx';
import { Command } from '../../parts/copy.tsx';
import { counted } from '../../model/text.ts';
import type { BugView, SweepView } from '../../model/view.ts';
import { Link, useRouter } from '../../state/router.tsx';

/** The bugs of a sweep, the most harmful first. The selected one is shown in full. */
export function BugList({ sweep, selected }: { sweep: SweepView; selected: string[] }) {
  const count = sweep.bugs.length;
  return (
    <section aria-label="Bugs">
      <h2>{count === 0 ? 'No bugs' : counted(count, 'bug')}</h2>
      <ol className="bugs">
        {sweep.bugs.map((bug) => (
          <Bug key={bug.number} bug={bug} isSelected={selected.includes(String(bug.number))} />
        ))}
      </ol>
      {sweep.hard_dependencies.length > 0 && (
        <details className="fold">
          <summary>{counted(sweep.hard_dependencies.length, 'required call')}: without it, the request fails</summary>
          <ol className="bugs">
            {sweep.hard_dependencies.map((bug) => (
              <Bug key={bug.number} bug={bug} isSelected={selected.includes(String(bug.number))} />
            ))}
          </ol>
        </details>
      )}
      {sweep.unexplained.length > 0 && (
        <details className="fold">
          <summary>Not explained by a bug ({sweep.unexplained.length})</summary>
          {sweep.unexplained.map((one, i) => (
            <div key={i} className="bug-story">
              <p className="breaks">{one.reason}</p>
              <p className="soft">
                {counted(one.failing_cases, 'failing case')} in {one.spaces.join(', ')}
              </p>
              <Command text={one.again} label="Send it again" />
            </div>
          ))}
        </details>
      )}
    </section>
  );
}

function Bug({ bug, isSelected }: { bug: BugView; isSelected: boolean }) {
  const router = useRouter();
  return (
    <li className={isSelected ? 'bug selected' : 'bug'}>
      <Link
        to={router.with({ bug: isSelected ? null : bug.number, sel: null })}
        aria-current={isSelected ? 'true' : undefined}
      >
        <BugMark number={bug.number} />
        <span>
          <b className="breaks">{bug.title}</b>
          <span className="soft" title={bug.name}>
            {bug.harm_text || bug.mistake} · {counted(bug.failing_cases, 'case')}
          </span>
        </span>
      </Link>
      {isSelected && <Story bug={bug} />}
    </li>
  );
}

function Story({ bug }: { bug: BugView }) {
  return (
    <div className="bug-story">
      <ol className="steps">
        {bug.story.map((step, i) => (
          <li key={i}>{step}</li>
        ))}
      </ol>
      <p className="soft breaks">
        {bug.mistake}
        {bug.name !== '' && ` (${bug.name})`}
      </p>
      <p className="breaks">
        Smallest set of faults:{' '}
        {bug.faults.map((fault) => (
          <code key={fault} className="chip">
            {fault}
          </code>
        ))}
      </p>
      {bug.violation !== '' && <p className="breaks">{bug.violation}</p>}
      {bug.real_stop !== '' && <p className="breaks">{bug.real_stop}</p>}
      {bug.log.length > 0 && (
        <details>
          <summary>Last lines of the log of {bug.failed_caller}</summary>
          <pre className="log">{bug.log.join('\n')}</pre>
          {bug.log_path !== null && <code className="breaks">{bug.log_path}</code>}
        </details>
      )}
      <Command text={bug.again} label="Send it again" />
    </div>
  );
}
