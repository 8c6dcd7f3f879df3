import { useMemo, useRef, useState, type KeyboardEvent } from 'react';
import { NONE } from '../model/columns.ts';
import { CHANGE, lines, side, tally, type Comparison, type TreeLine } from '../model/comparison.ts';
import { count, duration, status } from '../model/text.ts';
import { callAt, labelAt, serviceAt, type CallDetails } from '../model/trace.ts';
import { CallCard } from './call.tsx';
import { hueOf, ServiceMark } from './marks.tsx';
import { Overview } from './overview.tsx';
import { reveal, useWindow } from './window.ts';

const LINE_PX = 28;

export const CHANGES = [
  { glyph: '', name: 'same', text: 'same' },
  { glyph: '✕', name: 'failed', text: 'failed' },
  { glyph: '≠', name: 'other', text: 'ended differently' },
  { glyph: '−', name: 'missing', text: 'missing' },
  { glyph: '+', name: 'extra', text: 'extra' },
] as const;

/** Two requests as one tree on one time axis. The thin bar is the first request, the thick one the other. */
export function Tree({ comparison, firstText }: { comparison: Comparison; firstText: string }) {
  const [open, setOpen] = useState<ReadonlySet<number>>(new Set());
  const [closed, setClosed] = useState<ReadonlySet<number>>(new Set());
  const [at, setAt] = useState<number | null>(null);
  const all = useMemo(() => lines(comparison, open, closed), [comparison, open, closed]);
  const box = useRef<HTMLDivElement>(null);
  const range = useWindow(box, all.length, LINE_PX);
  const counts = useMemo(() => tally(comparison), [comparison]);
  const { first, other } = comparison;
  const extentUs = Math.max(first.extent * first.usPerTick, other.extent * other.usPerTick);
  const toggle = (line: TreeLine) => {
    if (line.count > 1) setOpen(new Set(open).add(line.row));
    else if (line.isParent) setClosed(toggled(closed, line.row));
  };
  const go = (step: number) => {
    const next = Math.max(0, Math.min(all.length - 1, all.findIndex((line) => line.row === at) + step));
    setAt(all[next]?.row ?? null);
    if (box.current !== null) reveal(box.current, next, LINE_PX);
  };
  const press = (event: KeyboardEvent) => {
    const line = all.find((one) => one.row === at);
    const steps: Record<string, number> = { ArrowDown: 1, ArrowUp: -1, Home: -all.length, End: all.length };
    const step = steps[event.key];
    if (step !== undefined) go(step);
    else if (/^(ArrowRight|ArrowLeft| )$/.test(event.key) && line !== undefined) toggle(line);
    else return;
    event.preventDefault();
  };
  return (
    <div className="tree">
      <p className="tree-tally">
        {CHANGES.map((change, i) =>
          (counts[i] ?? 0) > 0 ? (
            <span key={change.name} className={`change ch-${change.name}`}>
              <b aria-hidden="true">{change.glyph || '='}</b> {count(counts[i] ?? 0)} {change.text}
            </span>
          ) : null,
        )}
      </p>
      <Overview
        comparison={comparison}
        lines={all}
        extentUs={extentUs}
        onPick={(line) => {
          setAt(all[line]?.row ?? null);
          if (box.current !== null) reveal(box.current, line, LINE_PX);
        }}
      />
      <div
        ref={box}
        className="tree-lines"
        role="tree"
        aria-label={`Calls, compared with ${firstText}`}
        tabIndex={0}
        aria-activedescendant={at === null ? undefined : `line-${at}`}
        onKeyDown={press}
      >
        <div role="none" style={{ height: all.length * LINE_PX, position: 'relative' }}>
          {all.slice(range.first, range.end).map((line, i) => (
            <Line
              key={line.row}
              comparison={comparison}
              line={line}
              top={(range.first + i) * LINE_PX}
              extentUs={extentUs}
              isAt={line.row === at}
              isClosed={closed.has(line.row)}
              onPick={() => setAt(line.row === at ? null : line.row)}
              onToggle={() => toggle(line)}
            />
          ))}
        </div>
      </div>
      {at !== null && <Details comparison={comparison} row={at} firstText={firstText} />}
    </div>
  );
}

function toggled(set: ReadonlySet<number>, row: number): ReadonlySet<number> {
  const next = new Set(set);
  if (!next.delete(row)) next.add(row);
  return next;
}

interface LineProps {
  comparison: Comparison;
  line: TreeLine;
  top: number;
  extentUs: number;
  isAt: boolean;
  isClosed: boolean;
  onPick: () => void;
  onToggle: () => void;
}

function Line({ comparison, line, top, extentUs, isAt, isClosed, onPick, onToggle }: LineProps) {
  const change = CHANGES[comparison.change[line.row] ?? 0] ?? CHANGES[0];
  const named = side(comparison, line.row);
  const service = serviceAt(named.trace, named.row);
  const first = callOf(comparison, 'first', line.row);
  const other = callOf(comparison, 'other', line.row);
  const last = line.row + line.count - 1;
  const call = other ?? first;
  const isFoldable = line.count > 1 || line.isParent;
  return (
    <div
      id={`line-${line.row}`}
      role="treeitem"
      aria-level={line.depth + 1}
      aria-expanded={isFoldable ? line.count === 1 && !isClosed : undefined}
      aria-selected={isAt}
      className={`line ch-${change.name}${isAt ? ' at' : ''}`}
      style={{ top, height: LINE_PX }}
      onClick={onPick}
      onDoubleClick={onToggle}
    >
      <span className="line-change">
        <span aria-hidden="true">{change.glyph}</span>
        <span className="hidden">{change.text}</span>
      </span>
      <span className="line-name" style={{ paddingLeft: Math.min(line.depth, 12) * 12 }}>
        {isFoldable ? (
          <span
            className={`twist${line.count === 1 && !isClosed ? ' open' : ''}`}
            aria-hidden="true"
            onClick={(event) => {
              event.stopPropagation();
              onToggle();
            }}
          />
        ) : (
          <span className="twist none" aria-hidden="true" />
        )}
        <ServiceMark index={hueOf(service)} />
        <span className="line-label">
          {labelAt(named.trace, named.row)}
          {line.count > 1 && <b> ×{line.count}</b>}
        </span>
        <span className="line-service">{service}</span>
        {(other?.faults.length ?? 0) > 0 && (
          <span className="fault-mark" title={other?.faults.join('\n')}>
            ↯<span className="hidden"> fault: {other?.faults.join(', ')}</span>
          </span>
        )}
        {(other?.gaps.length ?? 0) > 0 && (
          <span className="gap-mark" title={other?.gaps.join('\n')}>
            ◌<span className="hidden"> gap: {other?.gaps.join(', ')}</span>
          </span>
        )}
      </span>
      <span className="line-bars" aria-hidden="true">
        {bar(first, callOf(comparison, 'first', last), extentUs, 'bar-first')}
        {bar(other, callOf(comparison, 'other', last), extentUs, `bar-other s${hueOf(service)}`)}
      </span>
      <span className="line-result">{call !== null && resultOf(first, other)}</span>
    </div>
  );
}

function resultOf(first: CallDetails | null, other: CallDetails | null): string {
  const call = other ?? first;
  if (call === null) return '';
  if (other === null) return 'not sent';
  const took = duration(call.durationUs);
  if (call.outcome === 0 && (first === null || first.status === call.status)) return took;
  return `${call.outcome === 3 ? 'open' : status(call.status, call.isHttp)} ${took}`;
}

function bar(from: CallDetails | null, to: CallDetails | null, extentUs: number, name: string) {
  if (from === null) return null;
  const end = to === null ? from.startUs + from.durationUs : to.startUs + to.durationUs;
  const left = (100 * from.startUs) / extentUs;
  const width = Math.max(0.4, (100 * (end - from.startUs)) / extentUs);
  const failed = from.outcome === 1 || from.outcome === 2 ? ' failed' : from.outcome === 3 ? ' open' : '';
  return <i className={`${name}${failed}`} style={{ left: `${Math.min(left, 99.6)}%`, width: `${width}%` }} />;
}

export function callOf(comparison: Comparison, which: 'first' | 'other', row: number): CallDetails | null {
  const at = (which === 'first' ? comparison.firstRow : comparison.otherRow)[row] ?? NONE;
  return at === NONE ? null : callAt(comparison[which], at);
}

function Details({ comparison, row, firstText }: { comparison: Comparison; row: number; firstText: string }) {
  const change = comparison.change[row] ?? CHANGE.same;
  const [first, other] = [callOf(comparison, 'first', row), callOf(comparison, 'other', row)];
  return (
    <div className="tree-details">
      {other !== null && <CallCard call={other} beside={first} besideText={firstText} />}
      {other === null && first !== null && (
        <>
          <p>
            <b>Not sent in this request.</b> In {firstText}:
          </p>
          <CallCard call={first} />
        </>
      )}
      {change === CHANGE.extra && <p className="soft">This call is not part of {firstText}.</p>}
    </div>
  );
}
