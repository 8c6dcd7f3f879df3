import { SearchField } from '../../parts/fields.tsx';
import { BugMark, OUTCOMES, OutcomeMark } from '../../parts/marks.tsx';
import { FACETS, type BehaviorFilter, type Facet, type Filtered } from '../../model/facets.ts';
import { count } from '../../model/text.ts';
import type { Outcome, SweepView } from '../../model/view.ts';
import { useRouter } from '../../state/router.tsx';

export const FILTER = 'behaviors-filter';

const NAMES: Record<Facet, string> = {
  bug: 'Bug',
  outcome: 'Outcome',
  space: 'Space',
  service: 'Faulted service',
  kind: 'Kind of fault',
};

export function Facets(props: { sweep: SweepView; filter: BehaviorFilter; counts: Filtered['counts'] }) {
  const { sweep, filter, counts } = props;
  const router = useRouter();
  const toggle = (facet: Facet, value: string) => {
    const list = filter[facet].includes(value)
      ? filter[facet].filter((one) => one !== value)
      : [...filter[facet], value];
    router.set({ [facet]: list.join(',') });
  };
  const isSet = filter.text !== '' || FACETS.some((facet) => filter[facet].length > 0);
  return (
    <section className="facets" aria-label="Filters">
      <SearchField id={FILTER} label="Filter ( / )" value={filter.text} onChange={(q) => router.set({ q })} />
      {FACETS.map((facet) => {
        const values = valuesOf(sweep, facet);
        if (values.length < 2 && filter[facet].length === 0) return null;
        return (
          <fieldset key={facet}>
            <legend>{NAMES[facet]}</legend>
            {values.map((value) => {
              const rows = counts[facet].get(value) ?? 0;
              return (
                <label key={value} className={rows === 0 ? 'facet empty' : 'facet'} title={about(sweep, facet, value)}>
                  <input
                    type="checkbox"
                    checked={filter[facet].includes(value)}
                    onChange={() => toggle(facet, value)}
                  />
                  {facet === 'outcome' && <OutcomeMark outcome={value as Outcome} />}
                  {facet === 'bug' && <BugMark number={Number(value)} />}
                  <span className="breaks">{facet === 'bug' ? `bug ${value}` : value}</span>
                  <span className="soft number">{count(rows)}</span>
                </label>
              );
            })}
          </fieldset>
        );
      })}
      {isSet && (
        <button
          type="button"
          className="button small"
          onClick={() => router.set({ ...Object.fromEntries(FACETS.map((facet) => [facet, null])), q: null })}
        >
          Show all behaviors
        </button>
      )}
    </section>
  );
}

function valuesOf(sweep: SweepView, facet: Facet): string[] {
  const unique = (values: string[]) => [...new Set(values)];
  switch (facet) {
    case 'bug':
      return [...sweep.bugs, ...sweep.hard_dependencies].map((bug) => String(bug.number));
    case 'outcome': {
      const present = new Set(sweep.behaviors.map((behavior) => behavior.outcome));
      return Object.keys(OUTCOMES).filter((outcome) => present.has(outcome as Outcome));
    }
    case 'space':
      return sweep.spaces.map((space) => space.name);
    case 'service':
      return unique(sweep.columns.map((column) => column.service));
    case 'kind':
      return unique(sweep.columns.map((column) => column.kind));
  }
}

function about(sweep: SweepView, facet: Facet, value: string): string {
  if (facet === 'outcome') return OUTCOMES[value as Outcome].about;
  if (facet === 'space') return sweep.spaces.find((space) => space.name === value)?.about ?? '';
  return '';
}
