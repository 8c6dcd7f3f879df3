import { useRef } from 'react';
import { NONE } from '../model/columns.ts';
import { CHANGE, type Comparison, type TreeLine } from '../model/comparison.ts';
import { tickText } from '../model/text.ts';
import { ticks } from '../model/axis.ts';
import { useCanvas } from './canvas.ts';

/** The whole tree in a few lines of pixels below the time axis. A click goes to the call below the pointer. */
export function Overview(props: {
  comparison: Comparison;
  lines: TreeLine[];
  extentUs: number;
  onPick: (line: number) => void;
}) {
  const { comparison, lines, extentUs } = props;
  const height = Math.min(72, Math.max(18, lines.length * 2));
  const canvas = useRef<HTMLCanvasElement>(null);
  useCanvas(canvas, (context, width, _, color) => {
    lines.forEach((line, i) => {
      const y = (i / lines.length) * height;
      const thick = Math.max(1, height / lines.length - 1);
      const change = comparison.change[line.row] ?? 0;
      const isMissing = change === CHANGE.missing;
      const row = isMissing ? comparison.firstRow[line.row] : comparison.otherRow[line.row];
      if (row === undefined || row === NONE) return;
      const trace = isMissing ? comparison.first : comparison.other;
      const x = (us: number) => (us / extentUs) * width;
      const start = (trace.start[row] ?? 0) * trace.usPerTick;
      const end = (trace.end[row + line.count - 1] ?? trace.end[row] ?? 0) * trace.usPerTick;
      context.fillStyle =
        change === CHANGE.failed ? color('--fail-fill') : change === CHANGE.extra ? color('--extra') : color('--faint');
      context.globalAlpha = isMissing ? 0.35 : 0.85;
      context.fillRect(x(start), y, Math.max(1.5, x(end) - x(start)), thick);
    });
  });
  const marks = ticks(0, extentUs, 4);
  return (
    <div className="overview">
      <div className="overview-axis" aria-hidden="true">
        {marks.map((us) => (
          <span key={us} style={{ left: `${(100 * us) / extentUs}%` }}>
            {tickText(us, (marks[1] ?? us) - (marks[0] ?? 0))}
          </span>
        ))}
      </div>
      <canvas
        ref={canvas}
        style={{ height }}
        aria-hidden="true"
        onClick={(event) => {
          const box = event.currentTarget.getBoundingClientRect();
          props.onPick(Math.min(lines.length - 1, Math.floor(((event.clientY - box.top) / box.height) * lines.length)));
        }}
      />
    </div>
  );
}
