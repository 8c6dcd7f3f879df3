import { useMemo } from 'react';
import { SelectField } from '../../parts/fields.tsx';
import { When } from '../../parts/message.tsx';
import type { Cases } from '../../model/cases.ts';
import type { BehaviorFilter } from '../../model/facets.ts';
import {
  explain,
  failures,
  firedCondition,
  ruleOf,
  ruleText,
  subjects,
  worksCondition,
  type Rule,
} from '../../model/questions.ts';
import { count } from '../../model/text.ts';
import type { RunHead, SweepView } from '../../model/view.ts';
import { useCases } from '../../source/use.ts';
import { useRouter } from '../../state/router.tsx';

/** What all failing cases of a space have in common. */
export function Questions({ run, sweep, filter }: { run: RunHead; sweep: SweepView; filter: BehaviorFilter }) {
  const router = useRouter();
  const isOpen = router.address.query.get('ask') !== null;
  const space = spaceOf(sweep, router.address.query.get('in') ?? filter.space[0] ?? '');
  return (
    <details
      className="questions"
      open={isOpen}
      onToggle={(event) => {
        if (event.currentTarget.open !== isOpen) router.set({ ask: event.currentTarget.open ? 1 : null });
      }}
    >
      <summary>When does it fail? Questions about all cases</summary>
      {isOpen && <Answers run={run} sweep={sweep} filter={filter} space={space} />}
    </details>
  );
}

/** The selected space, otherwise the one with the most cases. */
export function spaceOf(sweep: SweepView, name: string): number {
  const at = sweep.spaces.findIndex((space) => space.name === name);
  if (at >= 0) return at;
  return sweep.spaces.reduce((best, space, i) => (space.cases > (sweep.spaces[best]?.cases ?? 0) ? i : best), 0);
}

function Answers(props: { run: RunHead; sweep: SweepView; filter: BehaviorFilter; space: number }) {
  const { run, sweep, filter, space } = props;
  const router = useRouter();
  const loaded = useCases(run.id, space);
  const bug = filter.bug.length === 1 ? Number(filter.bug[0]) : null;
  return (
    <div className="answers">
      <div className="toolbar">
        <SelectField
          label="Space"
          value={sweep.spaces[space]?.name ?? ''}
          options={sweep.spaces.map((one) => ({ value: one.name, text: `${one.name} (${count(one.cases)})` }))}
          onChange={(name) => router.set({ in: name, x: null, y: null })}
        />
        <span className="soft">{bug === null ? 'all failing cases' : `failing cases of bug ${bug}`}</span>
      </div>
      <When loaded={loaded} what="the cases">
        {(cases) => <Rules cases={cases} sweep={sweep} bug={bug} />}
      </When>
    </div>
  );
}

function Rules({ cases, sweep, bug }: { cases: Cases; sweep: SweepView; bug: number | null }) {
  const failed = useMemo(() => failures(cases, sweep.behaviors, bug), [cases, sweep, bug]);
  const rules = useMemo(() => explain(cases, sweep.columns, failed), [cases, sweep, failed]);
  return (
    <>
      {rules.length === 0 ? (
        <p className="soft">No single fault and no pair of conditions explains these cases.</p>
      ) : (
        <ul className="rules">
          {rules.map((rule) => (
            <RuleLine key={ruleText(rule)} rule={rule} />
          ))}
        </ul>
      )}
      <Own cases={cases} sweep={sweep} failed={failed} />
    </>
  );
}

function RuleLine({ rule }: { rule: Rule }) {
  return (
    <li>
      <b>It fails {ruleText(rule)}.</b>{' '}
      <span className="soft">
        {count(rule.failed)} of {count(rule.cases)} such cases fail; {count(rule.failures)} fail in all
      </span>
    </li>
  );
}

const RELATIONS = [
  { value: '', text: 'anything else' },
  { value: 'after', text: 'no fault' },
  { value: 'with', text: 'a fault' },
];

/** A question that the user composes. */
function Own({ cases, sweep, failed }: { cases: Cases; sweep: SweepView; failed: Uint32Array }) {
  const router = useRouter();
  const query = router.address.query;
  const list = useMemo(() => subjects(cases, sweep.columns), [cases, sweep]);
  const [x, y, how] = [query.get('x') ?? '', query.get('y') ?? '', query.get('how') ?? ''];
  const first = list.find((subject) => subject.text === x);
  const second = list.find((subject) => subject.text === y);
  const options = [{ value: '', text: '…' }, ...list.map((one) => ({ value: one.text, text: one.text }))];
  const rule = useMemo(() => {
    if (first === undefined) return null;
    const conditions = [firedCondition(cases, first)];
    if (how === 'after' && second !== undefined) conditions.push(worksCondition(cases, second));
    if (how === 'with' && second !== undefined) conditions.push(firedCondition(cases, second));
    return ruleOf(failed, conditions);
  }, [cases, failed, first, second, how]);
  return (
    <div className="own-question">
      <div className="toolbar">
        <SelectField
          label="Does it fail when this fails"
          value={x}
          options={options}
          onChange={(x) => router.set({ x })}
        />
        <SelectField label="and" value={how} options={RELATIONS} onChange={(how) => router.set({ how })} />
        {how !== '' && <SelectField label="at" value={y} options={options} onChange={(y) => router.set({ y })} />}
      </div>
      {rule !== null && <p role="status">{answerText(rule)}</p>}
    </div>
  );
}

export function answerText(rule: Rule): string {
  if (rule.cases === 0) return 'There is no such case.';
  const share = `${count(rule.failed)} of ${count(rule.cases)} such cases fail.`;
  const always = rule.isSufficient ? ' It always fails then.' : rule.failed === 0 ? ' It never fails then.' : '';
  const rest = rule.failures - rule.failed;
  const only = rule.isNecessary
    ? ' No other case fails.'
    : rule.failed > 0
      ? ` ${count(rest)} other ${rest === 1 ? 'case fails' : 'cases fail'} too.`
      : '';
  return share + always + only;
}
