import { useMemo, useRef, type PointerEvent } from 'react';
import { useCanvas } from '../../parts/canvas.ts';
import { density, within } from '../../model/timeline.ts';
import type { Timeline } from './timeline.ts';

const BUCKETS = 600;

/** The whole request: how many calls run at a time, failures, and the part that is shown. Drag to choose a part. */
export function TraceOverview({ timeline }: { timeline: Timeline }) {
  const { trace, range } = timeline;
  const canvas = useRef<HTMLCanvasElement>(null);
  const drag = useRef<number | null>(null);
  const { busy, failed } = useMemo(() => density(trace, BUCKETS), [trace]);
  const most = useMemo(() => busy.reduce((a, b) => Math.max(a, b), 1), [busy]);
  useCanvas(canvas, (context, width, height, color) => {
    const step = width / BUCKETS;
    context.fillStyle = color('--edge');
    context.globalAlpha = 0.55;
    busy.forEach((count, i) => {
      const tall = (Math.log1p(count) / Math.log1p(most)) * (height - 8);
      const left = Math.floor(i * step);
      context.fillRect(left, height - tall, Math.floor((i + 1) * step) - left, tall);
    });
    context.globalAlpha = 1;
    context.fillStyle = color('--fired-fill');
    for (const { row } of trace.faults)
      context.fillRect(((trace.start[row] ?? 0) / trace.extent) * width - 1, 0, 3, height);
    context.fillStyle = color('--fail-fill');
    failed.forEach((is, i) => {
      if (is === 1) context.fillRect(i * step, 0, Math.max(2, step), 6);
    });
    const [from, to] = [(range.from / trace.extent) * width, (range.to / trace.extent) * width];
    if (to - from >= width - 1) return;
    context.fillStyle = color('--ground');
    context.globalAlpha = 0.65;
    context.fillRect(0, 0, from, height);
    context.fillRect(to, 0, width - to, height);
    context.globalAlpha = 1;
    context.strokeStyle = color('--accent');
    context.lineWidth = 2;
    context.strokeRect(from, 1, Math.max(2, to - from), height - 2);
  });
  const momentOf = (event: PointerEvent<HTMLElement>) => {
    const box = event.currentTarget.getBoundingClientRect();
    return (Math.max(0, Math.min(box.width, event.clientX - box.left)) / box.width) * trace.extent;
  };
  return (
    <canvas
      ref={canvas}
      className="trace-overview"
      aria-hidden="true"
      onPointerDown={(event) => {
        event.currentTarget.setPointerCapture(event.pointerId);
        drag.current = momentOf(event);
      }}
      onPointerMove={(event) => {
        if (drag.current === null) return;
        const moment = momentOf(event);
        const [from, to] = [Math.min(drag.current, moment), Math.max(drag.current, moment)];
        if (to - from > trace.extent / 400) timeline.setRange({ from, to });
      }}
      onPointerUp={(event) => {
        const moment = momentOf(event);
        if (drag.current !== null && Math.abs(moment - drag.current) <= trace.extent / 400) {
          const span = range.to - range.from;
          timeline.setRange(within({ from: moment - span / 2, to: moment + span / 2 }, trace.extent));
        }
        drag.current = null;
      }}
    />
  );
}
