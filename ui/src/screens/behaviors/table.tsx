import { memo, useEffect, useRef, type CSSProperties, type KeyboardEvent, type MouseEvent } from 'react';
import { BugMark, OutcomeMark, OUTCOMES, resultText } from '../../parts/marks.tsx';
import { reveal, useWindow } from '../../parts/window.ts';
import { casesIn } from '../../model/facets.ts';
import { cellOf, type ShownColumn } from '../../model/sites.ts';
import { count, duration } from '../../model/text.ts';
import type { Behavior, SweepView } from '../../model/view.ts';
import { TableHead } from './head.tsx';
import { HitLine } from './hit_line.tsx';
import { LatencyStrip, latencyScale, type LatencyScale } from './latency.tsx';

export const ROW_PX = 30;
const HEAD_PX = 150;
const HOVER_MS = 90;

interface TableProps {
  sweep: SweepView;
  /** Indices of the behaviors to show. */
  rows: number[];
  columns: ShownColumn[];
  open: ReadonlySet<number>;
  /** Names of the selected spaces. */
  spaces: string[];
  /** Indices of behaviors; -1 for none. */
  cursor: number;
  pinned: number;
  base: number;
  column: number;
  onCursor: (index: number, column: number | null) => void;
  onMove: (step: number) => void;
  onMoveColumn: (step: number) => void;
  onHover: (index: number | null) => void;
  onPin: (index: number) => void;
  onBase: (index: number) => void;
  onToggleSeries: (series: number) => void;
}

/** Behaviors × faults. One tab stop; the arrow keys move within it. */
export function Table(props: TableProps) {
  const { sweep, rows, columns, cursor, column } = props;
  const box = useRef<HTMLDivElement>(null);
  const range = useWindow(box, rows.length, ROW_PX, HEAD_PX);
  const at = rows.indexOf(cursor);
  useEffect(() => {
    if (box.current !== null && at >= 0) reveal(box.current, at, ROW_PX, HEAD_PX);
  }, [at]);
  const hover = useHover(props.onHover);
  const press = (event: KeyboardEvent) => {
    const moves: Record<string, () => void> = {
      ArrowDown: () => props.onMove(1),
      ArrowUp: () => props.onMove(-1),
      ArrowRight: () => props.onMoveColumn(1),
      ArrowLeft: () => props.onMoveColumn(-1),
      PageDown: () => props.onMove(10),
      PageUp: () => props.onMove(-10),
      Home: () => props.onMove(-rows.length),
      End: () => props.onMove(rows.length),
      ' ': () => toggleAt(columns[column], props.onToggleSeries),
    };
    const move = moves[event.key];
    if (move === undefined || event.ctrlKey || event.metaKey) return;
    event.preventDefault();
    move();
  };
  const click = (event: MouseEvent) => {
    const cell = (event.target as HTMLElement).closest<HTMLElement>('[data-column]');
    const row = (event.target as HTMLElement).closest<HTMLElement>('[data-index]');
    if (row === null) return;
    const index = Number(row.dataset.index);
    if (event.shiftKey) return props.onBase(index);
    if (cell !== null) props.onCursor(index, Number(cell.dataset.column));
    props.onPin(index);
  };
  const scale = latencyScale(sweep.behaviors);
  const style = { '--cells': columns.length } as CSSProperties;
  return (
    <>
      <div
        ref={box}
        className="behaviors"
        style={style}
        role="grid"
        aria-label="Behaviors by fault"
        aria-rowcount={rows.length + 1}
        aria-colcount={columns.length + 4}
        aria-activedescendant={at >= 0 ? cellId(cursor, column) : undefined}
        tabIndex={0}
        onKeyDown={press}
        onClick={click}
        onMouseOver={(event) => hover((event.target as HTMLElement).closest<HTMLElement>('[data-index]'))}
        onMouseLeave={() => hover(null)}
      >
        <TableHead
          sweep={sweep}
          columns={columns}
          open={props.open}
          column={column}
          onToggleSeries={props.onToggleSeries}
        />
        <div role="rowgroup" style={{ height: range.first * ROW_PX }} />
        <div role="rowgroup">
          {rows.slice(range.first, range.end).map((index, i) => {
            const behavior = sweep.behaviors[index];
            return (
              behavior !== undefined && (
                <Row
                  key={behavior.id}
                  behavior={behavior}
                  index={index}
                  row={range.first + i}
                  columns={columns}
                  isHttp={sweep.protocol === 'http'}
                  cases={casesIn(sweep, behavior, props.spaces)}
                  scale={scale}
                  at={index === cursor ? column : null}
                  isPinned={index === props.pinned}
                  isBase={index === props.base}
                />
              )
            );
          })}
        </div>
        <div role="rowgroup" style={{ height: Math.max(0, rows.length - range.end) * ROW_PX }} />
      </div>
      <HitLine sweep={sweep} column={columns[column]} behavior={sweep.behaviors[cursor]} />
    </>
  );
}

function toggleAt(column: ShownColumn | undefined, toggle: (series: number) => void): void {
  if (column !== undefined && column.series !== null) toggle(column.series);
}

/** Reports the row below the pointer once it rests there. */
function useHover(report: (index: number | null) => void) {
  const timer = useRef<ReturnType<typeof setTimeout> | undefined>(undefined);
  useEffect(() => () => clearTimeout(timer.current), []);
  return (row: HTMLElement | null) => {
    clearTimeout(timer.current);
    const index = row === null ? null : Number(row.dataset.index);
    timer.current = setTimeout(() => report(index), HOVER_MS);
  };
}

export const cellId = (index: number, column: number): string => `cell-${index}-${column}`;

interface RowProps {
  behavior: Behavior;
  index: number;
  row: number;
  columns: ShownColumn[];
  isHttp: boolean;
  cases: number;
  scale: LatencyScale;
  /** The column of the cursor if it is in this row. */
  at: number | null;
  isPinned: boolean;
  isBase: boolean;
}

const Row = memo(function Row(props: RowProps) {
  const { behavior, index, columns, at } = props;
  const state = [
    at !== null ? 'cursor' : '',
    props.isPinned ? 'pinned' : '',
    props.isBase ? 'base' : '',
    `r-${behavior.outcome}`,
  ].join(' ');
  const result = resultText(behavior, props.isHttp);
  return (
    <div role="row" aria-rowindex={props.row + 2} aria-selected={at !== null} className={state} data-index={index}>
      <div role="rowheader" className="row-name">
        <span className="row-number">{index + 1}</span>
        {behavior.bugs.slice(0, 2).map((number) => (
          <BugMark key={number} number={number} />
        ))}
        <span className="hidden">
          {behavior.bugs.length === 0 ? '' : `bug ${behavior.bugs.join(', ')}`}
          {props.isBase ? ', the base of the comparison' : ''}
        </span>
      </div>
      {columns.map((column, i) => (
        <Cell key={column.id} behavior={behavior} column={column} index={index} i={i} isAt={at === i} />
      ))}
      <div role="gridcell" className="row-outcome">
        <OutcomeMark outcome={behavior.outcome} />
        <span>
          {behavior.outcome === 'unaffected' ? '' : result}
          <span className="hidden"> {OUTCOMES[behavior.outcome].text}</span>
        </span>
      </div>
      <div role="gridcell" className="row-cases">
        {count(props.cases)}
      </div>
      <div
        role="gridcell"
        className="row-latency"
        title={`median ${duration(behavior.latency.p50_us)}, 95th percentile ${duration(behavior.latency.p95_us)}, longest ${duration(behavior.latency.max_us)}`}
      >
        <LatencyStrip latency={behavior.latency} scale={props.scale} />
        <span>{duration(behavior.latency.p50_us)}</span>
      </div>
    </div>
  );
});

function Cell(props: { behavior: Behavior; column: ShownColumn; index: number; i: number; isAt: boolean }) {
  const { fired, notReached } = cellOf(props.behavior, props.column);
  const isSeries = props.column.sites.length > 1;
  const [name, glyph, text] =
    fired > 0
      ? ['fired', isSeries ? String(fired) : '↯', isSeries ? `${fired} fired` : 'fired']
      : notReached > 0
        ? ['idle', '○', 'planned, not reached']
        : ['none', '·', 'not planned'];
  return (
    <div
      role="gridcell"
      id={cellId(props.index, props.i)}
      data-column={props.i}
      className={`cell c-${name}${props.isAt ? ' at' : ''}`}
      aria-label={text}
    >
      {glyph}
    </div>
  );
}
