import { useRef, useState } from 'react';
import { Dialog } from '../parts/dialog.tsx';
import { focusField, SearchField, SelectField } from '../parts/fields.tsx';
import { Verdict } from '../parts/marks.tsx';
import { When } from '../parts/message.tsx';
import { reveal, useWindow } from '../parts/window.ts';
import { filterOf, select } from '../model/runs.ts';
import { ago, count, counted, moment } from '../model/text.ts';
import type { RunHead, RunList } from '../model/view.ts';
import { failureOf } from '../source/failure.ts';
import { path } from '../source/source.ts';
import { useAbout, useCache, useRuns } from '../source/use.ts';
import { useKeys } from '../state/keys.tsx';
import { useNarrow } from '../state/narrow.ts';
import { to } from '../state/place.ts';
import { Link, useRouter } from '../state/router.tsx';

const FILTER = 'runs-filter';

/** All runs of the store. */
export function Runs() {
  return (
    <When loaded={useRuns()} what="the runs" isPage>
      {(list) => <RunsOf list={list} />}
    </When>
  );
}

function RunsOf({ list }: { list: RunList }) {
  const router = useRouter();
  const cache = useCache();
  const about = useAbout();
  const filter = filterOf(router.address.query);
  const now = Date.now();
  const rows = select(list.runs, filter, (run) => cache.progress.has(run.id) && run.end_ms === null, now);
  const kinds = [...new Set(list.runs.map((run) => run.kind))].sort();
  const chosen = (router.address.query.get('compare') ?? '').split(',').filter((id) => id !== '');
  const [toDelete, setToDelete] = useState<RunHead | null>(null);
  const all = { value: '', text: 'all' };
  const toggle = (id: string) => {
    const next = chosen.includes(id) ? chosen.filter((one) => one !== id) : [...chosen, id].slice(-2);
    router.set({ compare: next.join(',') });
  };
  const [a, b] = chosen;
  return (
    <div className="wide">
      <h1>Runs</h1>
      <div className="toolbar" role="search">
        <SearchField id={FILTER} label="Filter runs ( / )" value={filter.text} onChange={(q) => router.set({ q })} />
        <SelectField
          label="Kind"
          value={filter.kind}
          options={[all, ...kinds.map((kind) => ({ value: kind, text: kind }))]}
          onChange={(kind) => router.set({ kind })}
        />
        <SelectField
          label="Verdict"
          value={filter.verdict}
          options={[all, ...['fail', 'unknown', 'pass', 'done', 'unfinished'].map((value) => ({ value, text: value }))]}
          onChange={(verdict) => router.set({ verdict })}
        />
        <SelectField
          label="Began"
          value={String(filter.hours)}
          options={[
            { value: '0', text: 'any time' },
            { value: '1', text: 'last hour' },
            { value: '24', text: 'last day' },
            { value: '168', text: 'last week' },
          ]}
          onChange={(hours) => router.set({ hours: hours === '0' ? null : hours })}
        />
        <span className="soft grow" role="status">
          {rows.length === list.runs.length
            ? counted(rows.length, 'run')
            : `${count(rows.length)} of ${counted(list.runs.length, 'run')}`}
          {list.has_more && '; the store has more'}
        </span>
        {a !== undefined && b !== undefined ? (
          <Link className="button primary" to={to.diff({ run: a, which: 'main' }, { run: b, which: 'main' })}>
            Compare the two
          </Link>
        ) : (
          <span className="soft">{chosen.length === 1 ? 'Select one more to compare' : ''}</span>
        )}
      </div>
      {list.runs.length === 0 ? (
        <div className="message">
          <h3>No runs yet</h3>
          <p>
            Record a request: <code>faultloom record http://127.0.0.1:8080/</code>
          </p>
        </div>
      ) : (
        <RunRows
          rows={rows}
          now={now}
          chosen={chosen}
          onToggle={toggle}
          onDelete={about.state === 'ready' && about.value.allows_runs ? setToDelete : null}
        />
      )}
      {toDelete !== null && <ConfirmDelete run={toDelete} onClose={() => setToDelete(null)} />}
    </div>
  );
}

function RunRows(props: {
  rows: RunHead[];
  now: number;
  chosen: string[];
  onToggle: (id: string) => void;
  onDelete: ((run: RunHead) => void) | null;
}) {
  const { rows, now } = props;
  const box = useRef<HTMLDivElement>(null);
  const rowPx = useNarrow(700) ? 118 : 52;
  const range = useWindow(box, rows.length, rowPx);
  const cursor = useRef(-1);
  const focus = (step: number) => {
    cursor.current = Math.max(0, Math.min(rows.length - 1, cursor.current + step));
    if (box.current !== null) reveal(box.current, cursor.current, rowPx);
    // the row may be drawn only now that it is visible
    const link = () => box.current?.querySelector<HTMLElement>(`[data-row="${cursor.current}"] a`);
    if (link()) link()?.focus();
    else requestAnimationFrame(() => link()?.focus());
  };
  useKeys([
    { name: 'j', does: 'Next run', run: () => focus(1) },
    { name: 'k', does: 'Previous run', run: () => focus(-1) },
    { name: '/', does: 'Filter', run: () => focusField(FILTER) },
    {
      name: 'x',
      does: 'Select the run, to compare two',
      run: () => {
        const run = rows[cursor.current];
        if (run !== undefined) props.onToggle(run.id);
      },
    },
  ]);
  const cache = useCache();
  return (
    <div className="runs" ref={box} role="table" aria-label="Runs" aria-rowcount={rows.length} tabIndex={0}>
      <div role="rowgroup" style={{ height: rows.length * rowPx, position: 'relative' }}>
        {rows.slice(range.first, range.end).map((run, i) => {
          const row = range.first + i;
          const progress = run.end_ms === null ? cache.progress.get(run.id) : undefined;
          return (
            <div
              key={run.id}
              role="row"
              aria-rowindex={row + 1}
              data-row={row}
              className="run-row"
              style={{ top: row * rowPx, height: rowPx }}
              onFocus={() => (cursor.current = row)}
            >
              <span role="cell" className="run-check">
                <input
                  type="checkbox"
                  aria-label={`Select ${run.kind} ${run.short_id} to compare`}
                  checked={props.chosen.includes(run.id)}
                  onChange={() => props.onToggle(run.id)}
                />
              </span>
              <span role="cell" className="run-verdict">
                <Verdict run={run} />
              </span>
              <span role="cell" className="run-kind">
                {run.kind}
              </span>
              <span role="cell" className="run-title">
                <Link to={to.run(run.id)}>{run.title}</Link>
                <span className="soft">
                  {progress === undefined ? (
                    run.summary
                  ) : (
                    <>
                      <progress aria-label="Progress" /> {count(progress.done)} done, {count(progress.failed)} failed
                    </>
                  )}
                </span>
              </span>
              <span role="cell" className="run-id">
                <code>{run.short_id}</code>
              </span>
              <span role="cell" className="run-time" title={moment(run.begin_ms, now)}>
                {ago(run.begin_ms, now)}
              </span>
              {props.onDelete !== null && (
                <span role="cell" className="run-delete">
                  <button
                    type="button"
                    className="button quiet small"
                    aria-label={`Delete ${run.kind} ${run.short_id}`}
                    onClick={() => props.onDelete?.(run)}
                  >
                    Delete
                  </button>
                </span>
              )}
            </div>
          );
        })}
      </div>
      {rows.length === 0 && <p className="soft">No run matches.</p>}
    </div>
  );
}

function ConfirmDelete({ run, onClose }: { run: RunHead; onClose: () => void }) {
  const cache = useCache();
  const [failed, setFailed] = useState('');
  const confirm = () => {
    cache.source
      .delete(run.id)
      .then(() => {
        cache.reload(path.runs);
        onClose();
      })
      .catch((thrown: unknown) => setFailed(failureOf(thrown).what));
  };
  return (
    <Dialog label="Delete a run" onClose={onClose}>
      <h2>
        Delete {run.kind} {run.short_id}?
      </h2>
      <p className="breaks">{run.title}</p>
      <p>Its files are removed from the store. This cannot be undone.</p>
      {failed !== '' && <p role="alert">{failed}</p>}
      <div className="row">
        <button type="button" className="button danger" onClick={confirm}>
          Delete
        </button>
        <button type="button" className="button" onClick={onClose}>
          Keep it
        </button>
      </div>
    </Dialog>
  );
}
