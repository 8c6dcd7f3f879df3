import { useLayoutEffect, useMemo, useRef, useState, type KeyboardEvent, type MouseEvent } from 'react';
import { useCanvas, type ColorOf } from '../../parts/canvas.ts';
import { SelectField } from '../../parts/fields.tsx';
import { OUTCOMES } from '../../parts/marks.tsx';
import { When } from '../../parts/message.tsx';
import { layout, type CaseLayout } from '../../model/case_map.ts';
import { sites, type Cases } from '../../model/cases.ts';
import type { BehaviorFilter } from '../../model/facets.ts';
import { count, duration } from '../../model/text.ts';
import type { Outcome, RunHead, SweepView } from '../../model/view.ts';
import { useCases } from '../../source/use.ts';
import { useRouter } from '../../state/router.tsx';
import { spaceOf } from './questions.tsx';

const COLORS: Record<Outcome, string> = {
  fail: '--fail-fill',
  unknown: '--warn-fill',
  pass: '--pass-fill',
  unaffected: '--calm-fill',
};

interface MapProps {
  run: RunHead;
  sweep: SweepView;
  filter: BehaviorFilter;
  rows: number[];
  cursor: number;
  onPick: (behavior: number) => void;
}

/** Every case of one space as a cell. */
export function CaseMap(props: MapProps) {
  const { run, sweep, filter } = props;
  const router = useRouter();
  const space = spaceOf(sweep, router.address.query.get('in') ?? filter.space[0] ?? '');
  const loaded = useCases(run.id, space);
  return (
    <div className="case-map">
      <div className="toolbar">
        <SelectField
          label="Space"
          value={sweep.spaces[space]?.name ?? ''}
          options={sweep.spaces.map((one) => ({ value: one.name, text: `${one.name} (${count(one.cases)})` }))}
          onChange={(name) => router.set({ in: name })}
        />
        <span className="soft">{sweep.spaces[space]?.about}</span>
      </div>
      <When loaded={loaded} what="the cases">
        {(cases) => <Cells {...props} cases={cases} />}
      </When>
    </div>
  );
}

const BAND_PX = 11;
const LABEL_PX = 104;
const CELL_MAX = 44;

function Cells({ sweep, rows, cursor, cases, onPick }: MapProps & { cases: Cases }) {
  const place = useMemo(() => layout(cases), [cases]);
  const matching = useMemo(() => new Set(rows), [rows]);
  const canvas = useRef<HTMLCanvasElement>(null);
  const [at, setAt] = useState<number | null>(null); // a cell
  const head = place.across.length * BAND_PX + (place.across.length > 0 ? 6 : 0);
  const side = place.down.length * BAND_PX + (place.down.length > 0 ? 6 : 0);
  const margin = place.across.length > 0 ? LABEL_PX : 0;
  const geometry = useRef({ x: 0, y: 0, px: 1 });
  const label = (site: number) => {
    const column = sweep.columns[cases.columns[site] ?? 0];
    return column === undefined ? '' : column.label === column.service ? column.service : column.label;
  };
  const [width, setWidth] = useState(0);
  useLayoutEffect(() => {
    const node = canvas.current;
    if (node === null) return;
    const observer = new ResizeObserver(() => setWidth(node.clientWidth));
    observer.observe(node);
    return () => observer.disconnect();
  }, []);
  const cellPx = Math.min(CELL_MAX, Math.max(0.5, (width - margin - side) / place.columns));
  useCanvas(canvas, (context, width, height, color) => {
    const px = Math.min((width - margin - side) / place.columns, (height - head) / place.rows, CELL_MAX);
    geometry.current = { x: margin, y: head, px };
    drawBands(context, place, geometry.current, color, label);
    drawCells(context, place, geometry.current, color, (row) => {
      const index = cases.behavior[row] ?? 0;
      const outcome = sweep.behaviors[index]?.outcome ?? 'unknown';
      return {
        outcome,
        bug: sweep.behaviors[index]?.bugs[0] ?? 0,
        isDim: !matching.has(index),
        isMarked: index === cursor,
      };
    });
    if (at === null) return;
    context.strokeStyle = color('--ink');
    context.lineWidth = 2;
    const [x, y] = [at % place.columns, Math.floor(at / place.columns)];
    context.strokeRect(margin + x * px - 1, head + y * px - 1, px + 2, px + 2);
  });
  const cellAt = (event: MouseEvent<HTMLElement>): number | null => {
    const box = event.currentTarget.getBoundingClientRect();
    const { x, y, px } = geometry.current;
    const [column, row] = [
      Math.floor((event.clientX - box.left - x) / px),
      Math.floor((event.clientY - box.top - y) / px),
    ];
    if (column < 0 || row < 0 || column >= place.columns || row >= place.rows) return null;
    return row * place.columns + column;
  };
  const pick = (cell: number | null) => {
    const row = cell === null ? -1 : (place.caseAt[cell] ?? -1);
    if (row >= 0) onPick(cases.behavior[row] ?? 0);
  };
  const press = (event: KeyboardEvent) => {
    const steps: Record<string, number> = {
      ArrowRight: 1,
      ArrowLeft: -1,
      ArrowDown: place.columns,
      ArrowUp: -place.columns,
    };
    const step = steps[event.key];
    if (event.key === ' ') pick(at);
    else if (step !== undefined) setAt(Math.max(0, Math.min(place.caseAt.length - 1, (at ?? -step) + step)));
    else return;
    event.preventDefault();
  };
  return (
    <>
      <canvas
        ref={canvas}
        className="cells"
        style={{ height: Math.ceil(head + place.rows * cellPx) + 2 }}
        role="application"
        aria-label="Map of all cases. Arrow keys move, space selects the behavior of the case."
        aria-describedby="case-line"
        tabIndex={0}
        onKeyDown={press}
        onMouseMove={(event) => setAt(cellAt(event))}
        onMouseLeave={() => setAt(null)}
        onClick={(event) => pick(cellAt(event))}
      />
      <p id="case-line" className="case-line" aria-live="polite">
        {at === null ? (
          <span className="soft">
            Point at a case to see its faults. The cases of the selected behavior have a dot.
          </span>
        ) : (
          <CaseLine sweep={sweep} cases={cases} row={place.caseAt[at] ?? -1} />
        )}
      </p>
      <ul className="legend" aria-label="Colors">
        {(Object.keys(COLORS) as Outcome[]).map((outcome) => (
          <li key={outcome}>
            <span className={`swatch o-${outcome}`} aria-hidden="true">
              {OUTCOMES[outcome].glyph}
            </span>{' '}
            {OUTCOMES[outcome].text}
          </li>
        ))}
      </ul>
    </>
  );
}

interface CellLook {
  outcome: Outcome;
  bug: number;
  isDim: boolean;
  isMarked: boolean;
}

interface Geometry {
  x: number;
  y: number;
  px: number;
}

function drawCells(
  context: CanvasRenderingContext2D,
  place: CaseLayout,
  { x, y, px }: Geometry,
  color: ColorOf,
  look: (row: number) => CellLook,
): void {
  const gap = px >= 5 ? 1 : 0;
  place.cell.forEach((cell, row) => {
    const { outcome, bug, isDim, isMarked } = look(row);
    const left = x + (cell % place.columns) * px;
    const top = y + Math.floor(cell / place.columns) * px;
    context.globalAlpha = isDim ? 0.18 : 1;
    context.fillStyle = color(COLORS[outcome]);
    context.fillRect(left, top, Math.max(px - gap, 0.8), Math.max(px - gap, 0.8));
    // bugs differ by their pattern: the second has a stripe
    if (outcome === 'fail' && bug % 2 === 0 && bug > 0 && px >= 3) {
      context.fillStyle = color('--sheet');
      context.fillRect(left, top + px * 0.4, px - gap, Math.max(1, px * 0.2));
    }
    if (isMarked && px >= 3) {
      context.globalAlpha = 1;
      context.fillStyle = color('--ink');
      context.fillRect(left + px * 0.3, top + px * 0.3, px * 0.4, px * 0.4);
    }
  });
  context.globalAlpha = 1;
}

/** Above and beside the cells: where each fault is planned. */
function drawBands(
  context: CanvasRenderingContext2D,
  place: CaseLayout,
  { x, y, px }: Geometry,
  color: ColorOf,
  label: (site: number) => string,
): void {
  context.font = '11px system-ui, sans-serif';
  context.textBaseline = 'middle';
  const band = (isAcross: boolean, bit: number, length: number) => {
    const run = 2 ** bit;
    context.fillStyle = color('--soft');
    for (let from = run; from < length; from += 2 * run) {
      if (isAcross) context.fillRect(x + from * px, bit * BAND_PX + 2, run * px - 0.5, BAND_PX - 5);
      else context.fillRect(x + place.columns * px + 4 + bit * BAND_PX, y + from * px, BAND_PX - 5, run * px - 0.5);
    }
  };
  place.across.forEach((site, bit) => {
    band(true, bit, place.columns);
    context.fillStyle = color('--ink');
    context.textAlign = 'right';
    context.fillText(label(site), x - 6, bit * BAND_PX + BAND_PX / 2, x - 8);
  });
  place.down.forEach((site, bit) => {
    band(false, bit, place.rows);
    context.save();
    context.translate(x + place.columns * px + 7 + bit * BAND_PX, y - 4);
    context.rotate(-Math.PI / 2);
    context.fillStyle = color('--ink');
    context.textAlign = 'left';
    context.fillText(label(site), 0, 0, Math.max(20, y - 6));
    context.restore();
  });
}

function CaseLine({ sweep, cases, row }: { sweep: SweepView; cases: Cases; row: number }) {
  if (row < 0) return <span className="soft">This combination was not run.</span>;
  const behavior = sweep.behaviors[cases.behavior[row] ?? 0];
  const fired = sites(cases, cases.fired, row);
  const planned = sites(cases, cases.planned, row);
  const name = (site: number) => {
    const column = sweep.columns[cases.columns[site] ?? 0];
    return column === undefined
      ? ''
      : column.label === column.service
        ? column.service
        : `${column.service}/${column.label}`;
  };
  return (
    <>
      <b>Case {count(cases.case[row] ?? 0)}</b>: {behavior === undefined ? '' : OUTCOMES[behavior.outcome].text},
      behavior {(cases.behavior[row] ?? 0) + 1}, {duration(cases.latencyUs[row] ?? 0)}.{' '}
      {planned.length === 0 ? 'No fault planned.' : `Fired: ${fired.map(name).join(', ') || 'none'}.`}{' '}
      {planned.length > fired.length &&
        `Planned, not reached: ${planned
          .filter((s) => !fired.includes(s))
          .map(name)
          .join(', ')}.`}
    </>
  );
}
