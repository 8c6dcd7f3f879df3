import { useDeferredValue, useEffect, useMemo, useRef, useState, type KeyboardEvent, type PointerEvent } from 'react';
import { CallCard } from '../../parts/call.tsx';
import { useCanvas } from '../../parts/canvas.ts';
import { focusField, SearchField } from '../../parts/fields.tsx';
import { ticks } from '../../model/axis.ts';
import { count, counted, duration, tickText } from '../../model/text.ts';
import { ancestors, marks, search } from '../../model/timeline.ts';
import { callAt, labelAt, serviceAt, type Trace } from '../../model/trace.ts';
import { useKeys, type KeyBinding } from '../../state/keys.tsx';
import { Link, useRouter } from '../../state/router.tsx';
import { drawTimeline, indent, nameWidth, rowAt } from './draw.ts';
import { TraceOverview } from './overview.tsx';
import { ROW_PX, useTimeline, type Timeline } from './timeline.ts';

const SEARCH = 'trace-search';

interface TracePaneProps {
  trace: Trace;
  /** The address of the sockets of a service; none if they were not recorded. */
  socketsOf?: (service: string) => string;
}

/** A request as a timeline: overview, search, rows or flame graph, and the details of a call. */
export function TracePane({ trace, socketsOf }: TracePaneProps) {
  const router = useRouter();
  const timeline = useTimeline(trace);
  const text = router.address.query.get('find') ?? '';
  const wanted = useDeferredValue(text);
  const found = useMemo(() => search(trace, wanted), [trace, wanted]);
  const foundMarks = useMemo(() => marks(trace, found), [trace, found]);
  const nextFound = (step: number) => {
    if (found.length === 0) return;
    const at = timeline.selected === null ? -1 : found.findIndex((row) => row >= (timeline.selected ?? 0));
    const isOn = at >= 0 && found[at] === timeline.selected;
    const next = step > 0 ? (isOn ? at + 1 : Math.max(at, 0)) : (at < 0 ? found.length : at) - 1;
    timeline.select(found[(next + found.length) % found.length] ?? null);
  };
  const bindings: KeyBinding[] = [
    { name: 'w', does: 'Timeline: zoom in', run: () => timeline.zoom(0.6) },
    { name: 's', does: 'Timeline: zoom out', run: () => timeline.zoom(1 / 0.6) },
    { name: 'a', does: 'Timeline: earlier', run: () => timeline.pan(-0.25) },
    { name: 'd', does: 'Timeline: later', run: () => timeline.pan(0.25) },
    {
      name: 'f',
      does: 'Timeline: show the whole request',
      run: () => timeline.setRange({ from: 0, to: trace.extent }),
    },
    { name: 'j', does: 'Next call', run: () => timeline.step(1) },
    { name: 'k', does: 'Previous call', run: () => timeline.step(-1) },
    { name: 'n', does: 'Next match', run: () => nextFound(1) },
    { name: 'N', does: 'Previous match', run: () => nextFound(-1) },
    { name: '/', does: 'Search calls', run: () => focusField(SEARCH) },
    { name: 'p', does: 'Critical path', run: () => toggleCritical(timeline) },
    {
      name: 'v',
      does: 'Rows or flame graph',
      run: () => timeline.set({ view: timeline.mode === 'rows' ? 'flame' : null }),
    },
  ];
  useKeys(bindings);
  return (
    <div className="trace">
      <div className="toolbar">
        <SearchField id={SEARCH} label="Search calls ( / )" value={text} onChange={(find) => router.set({ find })} />
        {text !== '' && (
          <>
            <span className="soft" role="status">
              {counted(found.length, 'match').replace('matchs', 'matches')}
            </span>
            <button type="button" className="button small" disabled={found.length === 0} onClick={() => nextFound(1)}>
              Next <kbd>n</kbd>
            </button>
          </>
        )}
        <span className="grow" />
        <div className="switch" role="group" aria-label="View">
          <button type="button" aria-pressed={timeline.mode === 'rows'} onClick={() => timeline.set({ view: null })}>
            Rows
          </button>
          <button
            type="button"
            aria-pressed={timeline.mode === 'flame'}
            onClick={() => timeline.set({ view: 'flame' })}
          >
            Flame
          </button>
        </div>
        <label className="facet">
          <input type="checkbox" checked={timeline.critical !== null} onChange={() => toggleCritical(timeline)} />
          Critical path
        </label>
        <div className="row-buttons" role="group" aria-label="Zoom">
          <button type="button" className="button small" aria-label="Zoom in" onClick={() => timeline.zoom(0.6)}>
            +
          </button>
          <button type="button" className="button small" aria-label="Zoom out" onClick={() => timeline.zoom(1 / 0.6)}>
            −
          </button>
          <button
            type="button"
            className="button small"
            onClick={() => timeline.setRange({ from: 0, to: trace.extent })}
          >
            Fit
          </button>
        </div>
      </div>
      <TraceOverview timeline={timeline} />
      <Axis timeline={timeline} />
      <TimelineCanvas timeline={timeline} found={foundMarks} />
      <Selected timeline={timeline} socketsOf={socketsOf} />
    </div>
  );
}

function toggleCritical(timeline: Timeline): void {
  timeline.set({ critical: timeline.critical === null ? 1 : null });
}

function Axis({ timeline }: { timeline: Timeline }) {
  const { range, trace, mode } = timeline;
  const span = range.to - range.from || 1;
  const marksOfTime = ticks(range.from * trace.usPerTick, range.to * trace.usPerTick, 6);
  return (
    <div className={`trace-axis ${mode}`} aria-hidden="true">
      <div>
        {marksOfTime.map((us) => (
          <span key={us} style={{ left: `${(100 * (us / trace.usPerTick - range.from)) / span}%` }}>
            {tickText(us, (marksOfTime[1] ?? us) - (marksOfTime[0] ?? 0))}
          </span>
        ))}
      </div>
    </div>
  );
}

interface Drag {
  x: number;
  y: number;
  top: number;
  from: number;
  moved: boolean;
}

function TimelineCanvas({ timeline, found }: { timeline: Timeline; found: Uint8Array }) {
  const canvas = useRef<HTMLCanvasElement>(null);
  const [hovered, setHovered] = useState<number | null>(null);
  const drag = useRef<Drag | null>(null);
  const { trace, mode } = timeline;
  useCanvas(canvas, (context, width, height, color) => {
    timeline.height.current = height / ROW_PX;
    drawTimeline(context, width, height, color, timeline, { hovered, found });
  });
  useWheel(canvas, timeline);
  const at = (event: { clientX: number; clientY: number }) => {
    const box = canvas.current?.getBoundingClientRect() ?? new DOMRect();
    const [px, py] = [event.clientX - box.left, event.clientY - box.top];
    return { px, py, width: box.width, row: rowAt(timeline, box.width, px, py) };
  };
  const move = (event: PointerEvent) => {
    const start = drag.current;
    if (start === null) return setHovered(at(event).row);
    const [dx, dy] = [event.clientX - start.x, event.clientY - start.y];
    if (!start.moved && Math.abs(dx) + Math.abs(dy) < 4) return;
    start.moved = true;
    const { width } = at(event);
    const shown = width - (mode === 'rows' ? nameWidth(width) : 0);
    const span = timeline.range.to - timeline.range.from;
    const from = Math.max(0, Math.min(trace.extent - span, start.from - (dx / shown) * span));
    timeline.setRange({ from, to: from + span });
    timeline.scroll(start.top - dy / ROW_PX);
  };
  const up = (event: PointerEvent) => {
    const start = drag.current;
    drag.current = null;
    if (start === null || start.moved) return;
    const { row, px } = at(event);
    const twist = row === null ? 0 : indent(trace.depth[row] ?? 0);
    if (row !== null && mode === 'rows' && px >= twist - 6 && px < twist + 10) timeline.toggle(row);
    else timeline.select(row === timeline.selected ? null : row, false);
  };
  const press = (event: KeyboardEvent) => {
    const keys: Record<string, () => void> = {
      ArrowDown: () => timeline.step(1),
      ArrowUp: () => timeline.step(-1),
      PageDown: () => timeline.step(Math.floor(timeline.height.current)),
      PageUp: () => timeline.step(-Math.floor(timeline.height.current)),
      Home: () => timeline.step(-trace.rows),
      End: () => timeline.step(trace.rows),
      ArrowLeft: () =>
        timeline.selected !== null && !timeline.closed.has(timeline.selected) && timeline.toggle(timeline.selected),
      ArrowRight: () =>
        timeline.selected !== null && timeline.closed.has(timeline.selected) && timeline.toggle(timeline.selected),
      Enter: () => timeline.selected !== null && zoomTo(timeline, timeline.selected),
    };
    const run = keys[event.key];
    if (run === undefined || event.ctrlKey || event.metaKey) return;
    event.preventDefault();
    run();
  };
  const selected = timeline.selected === null ? null : callAt(trace, timeline.selected);
  const thumb = Math.min(1, timeline.height.current / Math.max(1, timeline.lines));
  return (
    <div className="trace-canvas">
      <canvas
        ref={canvas}
        style={{ height: Math.min(Math.max(8, timeline.lines + 1), 28) * ROW_PX, maxHeight: '62vh' }}
        role="application"
        aria-label={`Timeline of ${count(trace.rows)} calls. Arrow keys move, w a s d zoom and pan, Enter zooms to a call.`}
        tabIndex={0}
        onKeyDown={press}
        onPointerDown={(event) => {
          event.currentTarget.setPointerCapture(event.pointerId);
          drag.current = {
            x: event.clientX,
            y: event.clientY,
            top: timeline.top,
            from: timeline.range.from,
            moved: false,
          };
        }}
        onPointerMove={move}
        onPointerUp={up}
        onPointerLeave={() => setHovered(null)}
        onDoubleClick={(event) => {
          const { row } = at(event);
          if (row !== null) zoomTo(timeline, row);
        }}
      />
      {thumb < 1 && (
        <input
          type="range"
          className="trace-scroll"
          aria-label="First line shown"
          min={0}
          max={Math.max(1, timeline.lines - timeline.height.current + 1)}
          step="any"
          value={timeline.top}
          onChange={(event) => timeline.scroll(Number(event.target.value))}
        />
      )}
      <p className="hidden" aria-live="polite">
        {selected !== null &&
          `${selected.service} ${selected.label}, ${duration(selected.durationUs)}${selected.outcome === 0 ? '' : ', not ok'}`}
      </p>
    </div>
  );
}

function zoomTo(timeline: Timeline, row: number): void {
  const [from, to] = [timeline.trace.start[row] ?? 0, timeline.trace.end[row] ?? 0];
  const margin = Math.max(2, (to - from) * 0.05);
  timeline.setRange({ from: Math.max(0, from - margin), to: Math.min(timeline.trace.extent, to + margin) });
}

/** The wheel scrolls lines; with Ctrl it zooms, with Shift it pans. React's listeners cannot prevent scrolling. */
function useWheel(element: { current: HTMLCanvasElement | null }, timeline: Timeline): void {
  const current = useRef(timeline);
  current.current = timeline;
  useEffect(() => {
    const canvas = element.current;
    if (canvas === null) return;
    const wheel = (event: WheelEvent) => {
      const { trace, range, mode, top, lines, height } = current.current;
      const box = canvas.getBoundingClientRect();
      const left = mode === 'rows' ? nameWidth(box.width) : 0;
      if (event.ctrlKey || event.metaKey) {
        const share = (event.clientX - box.left - left) / (box.width - left);
        current.current.zoom(Math.exp(event.deltaY / 300), range.from + share * (range.to - range.from));
      } else if (event.shiftKey || Math.abs(event.deltaX) > Math.abs(event.deltaY)) {
        current.current.pan((event.shiftKey ? event.deltaY : event.deltaX) / box.width);
      } else {
        const isAtEnd = event.deltaY < 0 ? top <= 0 : top >= lines - height.current;
        if (isAtEnd || trace.rows === 0) return; // the page scrolls
        current.current.scroll(top + event.deltaY / ROW_PX);
      }
      event.preventDefault();
    };
    canvas.addEventListener('wheel', wheel, { passive: false });
    return () => canvas.removeEventListener('wheel', wheel);
  }, [element]);
}

function Selected(props: { timeline: Timeline; socketsOf: TracePaneProps['socketsOf'] | undefined }) {
  const { timeline, socketsOf } = props;
  const { trace, selected } = timeline;
  if (selected === null) {
    return (
      <p className="soft trace-hint">
        Select a call for its details. <kbd>w</kbd> <kbd>s</kbd> zoom, <kbd>a</kbd> <kbd>d</kbd> move, <kbd>?</kbd> all
        keys.
      </p>
    );
  }
  return (
    <section className="tree-details" aria-label="The selected call">
      <nav className="path" aria-label="Calls above it">
        {ancestors(trace, selected).map((row) => (
          <button key={row} type="button" className="button quiet small" onClick={() => timeline.select(row)}>
            {serviceAt(trace, row)} {labelAt(trace, row)}
          </button>
        ))}
      </nav>
      <CallCard call={callAt(trace, selected)} />
      {socketsOf !== undefined && (
        <p>
          <Link to={socketsOf(serviceAt(trace, selected))}>Sockets of {serviceAt(trace, selected)}</Link>
        </p>
      )}
    </section>
  );
}
