import { useMemo, useState } from 'react';
import { focusField } from '../../parts/fields.tsx';
import { copy } from '../../parts/copy.tsx';
import { filtered, filterOf } from '../../model/facets.ts';
import { shownColumns } from '../../model/sites.ts';
import { count, counted } from '../../model/text.ts';
import type { RunHead, SweepView } from '../../model/view.ts';
import { useKeys } from '../../state/keys.tsx';
import { useNarrow } from '../../state/narrow.ts';
import { to } from '../../state/place.ts';
import { useRouter } from '../../state/router.tsx';
import { baseName, bases, commandOf, requestOf } from './base.ts';
import { BugList } from './bugs.tsx';
import { CaseMap } from './case_map.tsx';
import { Detail } from './detail.tsx';
import { Facets, FILTER } from './facets.tsx';
import { Questions } from './questions.tsx';
import { Table } from './table.tsx';

/** What a request did under all faults that were tried: one row per distinct behavior. */
export function Behaviors({ run, sweep }: { run: RunHead; sweep: SweepView }) {
  const router = useRouter();
  const query = router.address.query;
  const queryText = query.toString();
  const filter = useMemo(() => filterOf(new URLSearchParams(queryText)), [queryText]);
  const { rows, counts } = useMemo(() => filtered(sweep, filter), [sweep, filter]);
  const open = useMemo(() => new Set((query.get('open') ?? '').split(',').filter(Boolean).map(Number)), [query]);
  const columns = useMemo(() => {
    const spaces = filter.space.map((name) => sweep.spaces.findIndex((space) => space.name === name));
    return shownColumns(
      sweep.columns,
      open,
      (column) => spaces.length === 0 || spaces.some((s) => column.spaces.includes(s)),
    );
  }, [sweep, filter.space, open]);

  const pinned = sweep.behaviors.findIndex((behavior) => behavior.id === query.get('sel'));
  const [moved, setMoved] = useState<number | null>(null);
  const [column, setColumn] = useState(0);
  const [hovered, setHovered] = useState<number | null>(null);
  const wanted = moved ?? (pinned >= 0 ? pinned : (rows[0] ?? -1));
  const cursor = rows.includes(wanted) ? wanted : (rows[0] ?? -1);
  const shown = sweep.behaviors[hovered ?? cursor];
  const base = query.get('base') ?? 'good';
  const view = query.get('view') === 'cases' ? 'cases' : 'table';

  const move = (step: number) => {
    const at = rows.indexOf(cursor) + step;
    setHovered(null);
    setMoved(rows[Math.max(0, Math.min(rows.length - 1, at))] ?? null);
  };
  const pin = (index: number) => {
    setMoved(index);
    setHovered(null);
    router.set({ sel: sweep.behaviors[index]?.id ?? null }, true);
  };
  const setBase = (name: string) => router.set({ base: name === 'good' ? null : name });
  const stepBase = (step: number) => {
    const list = bases(sweep, base);
    setBase(list[(list.indexOf(base) + step + list.length) % list.length] ?? 'good');
  };
  const nextBug = () => {
    const numbers = sweep.bugs.map((bug) => String(bug.number));
    const next = numbers[numbers.indexOf(filter.bug[0] ?? '') + 1] ?? numbers[0];
    setMoved(null);
    router.set({ bug: next ?? null, sel: null });
  };
  const toggleSeries = (series: number) => {
    const next = new Set(open);
    if (!next.delete(series)) next.add(series);
    router.set({ open: [...next].join(',') });
  };
  const names =
    shown === undefined ? null : { first: baseName(run.id, sweep, base), other: requestOf(run.id, sweep, shown) };
  const showDiff = () => {
    if (names?.first && names.other) router.go(to.diff(names.first, names.other));
  };
  const toggleView = () => router.set({ view: view === 'cases' ? null : 'cases' });
  const moveColumn = (step: number) => setColumn(Math.max(0, Math.min(columns.length - 1, column + step)));
  useKeys([
    { name: 'j', does: 'Next behavior', run: () => move(1) },
    { name: 'k', does: 'Previous behavior', run: () => move(-1) },
    { name: 'h', does: 'Previous fault (column)', run: () => moveColumn(-1) },
    { name: 'l', does: 'Next fault (column)', run: () => moveColumn(1) },
    { name: 'Enter', does: 'Pin the behavior: it goes into the address', run: () => pin(cursor) },
    { name: 'd', does: 'Compare with the base on a full page', run: showDiff },
    { name: 'b', does: 'Next bug', run: nextBug },
    { name: '[', does: 'Previous base of the comparison', run: () => stepBase(-1) },
    { name: ']', does: 'Next base of the comparison', run: () => stepBase(1) },
    { name: 'm', does: 'All cases as a map, or the table', run: toggleView },
    { name: '/', does: 'Filter behaviors', run: () => focusField(FILTER) },
    {
      name: 'c',
      does: 'Copy the command that sends the request again',
      run: () => void (shown && copy(commandOf(sweep, shown))),
    },
  ]);

  const isNarrow = useNarrow(1100);
  const cases = sweep.spaces.reduce((sum, space) => sum + space.cases, 0);
  const facets = <Facets sweep={sweep} filter={filter} counts={counts} />;
  return (
    <div className="hero">
      <aside className="hero-side" aria-label="Bugs and filters">
        <BugList sweep={sweep} selected={filter.bug} />
        {isNarrow ? (
          <details className="fold">
            <summary>Filter behaviors</summary>
            {facets}
          </details>
        ) : (
          facets
        )}
      </aside>
      <section className="hero-center" aria-label="Behaviors">
        <div className="toolbar">
          <h2>
            {rows.length === sweep.behaviors.length
              ? counted(rows.length, 'behavior')
              : `${count(rows.length)} of ${counted(sweep.behaviors.length, 'behavior')}`}{' '}
            <span className="soft">in {counted(cases, 'case')}</span>
          </h2>
          <div className="switch" role="group" aria-label="What is shown">
            <button type="button" aria-pressed={view === 'table'} onClick={() => router.set({ view: null })}>
              Behaviors
            </button>
            <button type="button" aria-pressed={view === 'cases'} onClick={() => router.set({ view: 'cases' })}>
              All cases <kbd>m</kbd>
            </button>
          </div>
        </div>
        {view === 'cases' ? (
          <CaseMap run={run} sweep={sweep} filter={filter} rows={rows} cursor={cursor} onPick={pin} />
        ) : (
          <Table
            sweep={sweep}
            rows={rows}
            columns={columns}
            open={open}
            spaces={filter.space}
            cursor={cursor}
            column={Math.min(column, columns.length - 1)}
            pinned={pinned}
            base={sweep.behaviors.findIndex((behavior) => behavior.id === base)}
            onCursor={(index, at) => {
              setMoved(index);
              if (at !== null) setColumn(at);
            }}
            onMove={move}
            onMoveColumn={moveColumn}
            onHover={setHovered}
            onPin={pin}
            onBase={(index) => setBase(sweep.behaviors[index]?.id ?? 'good')}
            onToggleSeries={toggleSeries}
          />
        )}
        <Questions run={run} sweep={sweep} filter={filter} />
      </section>
      <section className="hero-detail" aria-label="The selected behavior">
        {shown === undefined ? (
          <p className="soft">No behavior matches the filter.</p>
        ) : (
          <Detail run={run} sweep={sweep} behavior={shown} base={base} onBase={setBase} isPreview={hovered !== null} />
        )}
      </section>
    </div>
  );
}
