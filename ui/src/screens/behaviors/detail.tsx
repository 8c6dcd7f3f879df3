import { Tree } from '../../parts/tree.tsx';
import { BugMark, OUTCOMES, OutcomeMark, resultText } from '../../parts/marks.tsx';
import { Command } from '../../parts/copy.tsx';
import { When } from '../../parts/message.tsx';
import { count, counted, duration } from '../../model/text.ts';
import type { Behavior, RunHead, SweepView } from '../../model/view.ts';
import { useComparison } from '../../source/use.ts';
import { to } from '../../state/place.ts';
import { Link } from '../../state/router.tsx';
import { SelectField } from '../../parts/fields.tsx';
import { baseName, bases, baseText, commandOf, requestOf } from './base.ts';

interface DetailProps {
  run: RunHead;
  sweep: SweepView;
  behavior: Behavior;
  base: string;
  onBase: (base: string) => void;
  isPreview: boolean;
}

/** A behavior: its result, the command that shows it, and its request beside the good one. */
export function Detail({ run, sweep, behavior, base, onBase, isPreview }: DetailProps) {
  const number = sweep.behaviors.indexOf(behavior) + 1;
  const isHttp = sweep.protocol === 'http';
  const command = commandOf(sweep, behavior);
  return (
    <>
      <header className={`detail-head r-${behavior.outcome}`}>
        <h2>
          <OutcomeMark outcome={behavior.outcome} /> Behavior {number}{' '}
          <span className="result">
            {OUTCOMES[behavior.outcome].text}
            {behavior.outcome !== 'unaffected' && `, ${resultText(behavior, isHttp)}`}
          </span>
          {isPreview && <span className="preview">preview</span>}
        </h2>
        <p className="soft">
          {counted(behavior.cases, 'case')}:{' '}
          {behavior.spaces.map((one) => `${count(one.cases)} in ${sweep.spaces[one.space]?.name}`).join(', ')} · p50{' '}
          {duration(behavior.latency.p50_us)}, p95 {duration(behavior.latency.p95_us)}
        </p>
      </header>
      {behavior.bugs.map((one) => {
        const bug = [...sweep.bugs, ...sweep.hard_dependencies].find((bug) => bug.number === one);
        return (
          <p key={one} className="of-bug">
            <BugMark number={one} /> <span className="breaks">{bug?.title}</span>
          </p>
        );
      })}
      {behavior.reason !== '' && <p className="breaks reason">{behavior.reason}</p>}
      <p className="faults">
        {behavior.example_faults.length === 0 ? (
          <span className="soft">No fault was planned.</span>
        ) : (
          behavior.example_faults.map((fault) => (
            <code key={fault} className="chip">
              {fault}
            </code>
          ))
        )}
      </p>
      {command !== '' && <Command text={command} label="Send it again" />}
      <Compared run={run} sweep={sweep} behavior={behavior} base={base} onBase={onBase} />
    </>
  );
}

function Compared({ run, sweep, behavior, base, onBase }: Omit<DetailProps, 'isPreview'>) {
  const first = baseName(run.id, sweep, base);
  const other = requestOf(run.id, sweep, behavior);
  const loaded = useComparison(first !== null && other !== null ? { first, other } : null);
  return (
    <>
      <div className="toolbar compared">
        <SelectField
          label="Compared with"
          value={base}
          options={bases(sweep, base).map((value) => ({ value, text: baseText(sweep, value) }))}
          onChange={onBase}
        />
        <span className="grow" />
        {first !== null && other !== null && (
          <>
            <Link className="button small" to={to.diff(first, other)}>
              Full page <kbd>d</kbd>
            </Link>
            <Link className="button small" to={to.trace(run.id, other.which)}>
              Trace
            </Link>
          </>
        )}
      </div>
      {other === null ? (
        <p className="soft">No request of this behavior is stored. The command above sends one.</p>
      ) : first === null ? (
        <p className="soft">No request of the base is stored; choose another one.</p>
      ) : (
        <When loaded={loaded} what="both requests">
          {(comparison) => (
            <Tree key={`${base} ${behavior.id}`} comparison={comparison} firstText={baseText(sweep, base)} />
          )}
        </When>
      )}
    </>
  );
}
