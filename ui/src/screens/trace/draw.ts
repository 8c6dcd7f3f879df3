import { hueOf } from '../../parts/marks.tsx';
import type { ColorOf } from '../../parts/canvas.ts';
import { NONE } from '../../model/columns.ts';
import { firstFrom } from '../../model/timeline.ts';
import { duration, status } from '../../model/text.ts';
import { labelAt, serviceAt, type Trace } from '../../model/trace.ts';
import { ROW_PX, type Timeline } from './timeline.ts';

/** Draws the visible part of a timeline: as many rectangles as there are lines or pixels, whatever the trace's size. */

export const nameWidth = (width: number): number => Math.round(Math.min(340, Math.max(120, width * 0.3)));

const FONT = '13px system-ui, sans-serif';
const SMALL = '12px system-ui, sans-serif';
// bits of the flags
const GAP = 1;
const HTTP = 8;

interface Drawing {
  context: CanvasRenderingContext2D;
  width: number;
  height: number;
  color: ColorOf;
  timeline: Timeline;
  /** Where the bars begin. */
  left: number;
  x: (ticks: number) => number;
  hovered: number | null;
  /** One byte per row; empty without a search. */
  found: Uint8Array;
  hues: number[];
}

export interface Look {
  hovered: number | null;
  /** One byte per row; empty without a search. */
  found: Uint8Array;
}

export function drawTimeline(
  context: CanvasRenderingContext2D,
  width: number,
  height: number,
  color: ColorOf,
  timeline: Timeline,
  look: Look,
): void {
  const left = timeline.mode === 'rows' ? nameWidth(width) : 0;
  const { range } = timeline;
  const scale = (width - left) / (range.to - range.from || 1);
  const x = (ticks: number) => left + (ticks - range.from) * scale;
  const hues = timeline.trace.services.map(hueOf);
  const drawing = { context, width, height, color, timeline, left, x, hues, ...look };
  context.textBaseline = 'middle';
  drawBands(drawing);
  if (timeline.mode === 'rows') drawRows(drawing);
  else drawFlame(drawing);
}

/** The time of each fault, over all lines. */
function drawBands({ context, height, width, color, timeline, left, x }: Drawing): void {
  const { trace } = timeline;
  context.fillStyle = color('--fired-fill');
  context.globalAlpha = 0.3;
  for (const { row } of trace.faults) {
    const from = Math.max(left, x(trace.start[row] ?? 0));
    const to = Math.min(width, x(trace.end[row] ?? 0));
    if (to >= left && from <= width) context.fillRect(from, 0, Math.max(2, to - from), height);
  }
  context.globalAlpha = 1;
}

function drawRows(drawing: Drawing): void {
  const { context, width, height, color, timeline, left } = drawing;
  const { trace, rows, top } = timeline;
  const faults = new Set(trace.faults.map((fault) => fault.row));
  const first = Math.floor(top);
  for (let line = first; line < rows.length; line += 1) {
    const y = (line - top) * ROW_PX;
    if (y > height) break;
    const row = rows[line] ?? 0;
    const isSelected = row === timeline.selected;
    if (isSelected || row === drawing.hovered) {
      context.fillStyle = color(isSelected ? '--accent-wash' : '--wash');
      context.globalAlpha = isSelected ? 1 : 0.7;
      context.fillRect(0, y, width, ROW_PX);
      context.globalAlpha = 1;
    }
    drawBar(drawing, row, y, faults.has(row));
    drawName(drawing, row, y, faults.has(row));
  }
  context.fillStyle = color('--line');
  context.fillRect(left - 1, 0, 1, height);
}

const barColor = (trace: Trace, row: number, hues: number[]): string => {
  const outcome = trace.outcome[row] ?? 0;
  if (outcome === 1 || outcome === 2) return '--fail-fill';
  return outcome === 3 ? '--warn-fill' : `--s${hues[trace.service[row] ?? 0] ?? 0}`;
};

function drawBar(drawing: Drawing, row: number, y: number, isFault: boolean): void {
  const { context, width, color, timeline, left, x, hues } = drawing;
  const { trace, critical } = timeline;
  const [start, end] = [trace.start[row] ?? 0, trace.end[row] ?? 0];
  const from = Math.max(left, x(start));
  const to = Math.min(width, x(end));
  if (to < left || from > width) {
    // it is earlier or later than what is shown
    context.font = SMALL;
    context.fillStyle = color('--faint');
    context.textAlign = to < left ? 'left' : 'right';
    context.fillText(to < left ? '◂' : '▸', to < left ? left + 4 : width - 4, y + ROW_PX / 2);
    return;
  }
  context.fillStyle = color(barColor(trace, row, hues));
  const isDim = critical !== null && critical[row] === 0;
  context.globalAlpha = isDim ? 0.22 : 0.55;
  const barTop = y + 5;
  context.fillRect(from, barTop, Math.max(2, to - from), ROW_PX - 10);
  const [calleeStart, calleeEnd] = [trace.calleeStart[row] ?? NONE, trace.calleeEnd[row] ?? NONE];
  if (calleeStart !== NONE && calleeEnd !== NONE) {
    const [a, b] = [Math.max(left, x(calleeStart)), Math.min(width, x(calleeEnd))];
    context.globalAlpha = isDim ? 0.25 : 1;
    if (b > a) context.fillRect(a, barTop + 3, Math.max(1, b - a), ROW_PX - 16);
  }
  context.globalAlpha = 1;
  if (critical !== null && !isDim) {
    context.fillStyle = color('--ink');
    context.fillRect(from, y + ROW_PX - 4, Math.max(2, to - from), 2);
  }
  const outcome = trace.outcome[row] ?? 0;
  const took = duration((end - start) * trace.usPerTick);
  const code = trace.status[row] ?? NONE;
  const isWrong = outcome === 1 || outcome === 2;
  const result = isWrong
    ? `✕ ${status(code === NONE ? null : code, ((trace.flags[row] ?? 0) & HTTP) !== 0)} `
    : outcome === 3
      ? 'open '
      : '';
  const isGap = ((trace.flags[row] ?? 0) & GAP) !== 0;
  const text = `${isFault ? '↯ ' : ''}${result}${took}${isGap ? ' ◌ gap' : ''}`;
  context.font = SMALL;
  context.fillStyle = color(isWrong ? '--fail' : '--soft');
  const textWidth = context.measureText(text).width;
  if (to + 8 + textWidth < width) {
    context.textAlign = 'left';
    context.fillText(text, to + 6, y + ROW_PX / 2);
  } else if (from - 8 - textWidth > left) {
    context.textAlign = 'right';
    context.fillText(text, from - 6, y + ROW_PX / 2);
  } else {
    // on the bar itself, which is wide
    const end = Math.min(to, width) - 6;
    context.textAlign = 'right';
    context.fillStyle = color('--sheet');
    context.fillRect(end - textWidth - 4, y + 3, textWidth + 8, ROW_PX - 6);
    context.fillStyle = color(isWrong ? '--fail' : '--ink');
    context.fillText(text, end, y + ROW_PX / 2);
  }
}

export const indent = (depth: number): number => 8 + Math.min(depth, 14) * 11;

function drawName(drawing: Drawing, row: number, y: number, isFault: boolean): void {
  const { context, color, timeline, left, hues, found } = drawing;
  const { trace, ends, closed } = timeline;
  const x = indent(trace.depth[row] ?? 0);
  const middle = y + ROW_PX / 2;
  context.save();
  context.beginPath();
  context.rect(0, y, left - 6, ROW_PX);
  context.clip();
  context.textAlign = 'left';
  if ((ends[row] ?? 0) > row + 1) {
    context.fillStyle = color('--soft');
    context.beginPath();
    if (closed.has(row)) (context.moveTo(x, middle - 4), context.lineTo(x + 5, middle), context.lineTo(x, middle + 4));
    else (context.moveTo(x - 1, middle - 2), context.lineTo(x + 7, middle - 2), context.lineTo(x + 3, middle + 3));
    context.fill();
  }
  context.fillStyle = color(`--s${hues[trace.service[row] ?? 0] ?? 0}`);
  context.fillRect(x + 11, middle - 4, 8, 8);
  const label = labelAt(trace, row);
  if (found[row] === 1) {
    context.fillStyle = color('--warn-wash');
    context.fillRect(x + 22, y + 2, left, ROW_PX - 4);
  }
  context.font = `600 ${FONT}`;
  context.fillStyle = color(isFault ? '--fired' : '--ink');
  context.fillText(label, x + 24, middle);
  const used = context.measureText(label).width;
  context.font = SMALL;
  context.fillStyle = color('--soft');
  const hidden = closed.has(row) ? ` +${(ends[row] ?? 0) - row - 1}` : '';
  context.fillText(`${serviceAt(trace, row)}${hidden}`, x + 30 + used, middle);
  context.restore();
}

/** Depth downward, time across. Calls narrower than a pixel share one rectangle. */
function drawFlame(drawing: Drawing): void {
  const { context, width, height, color, timeline, x, hues, found } = drawing;
  const { trace, levels, top, range, critical } = timeline;
  const pixel = (range.to - range.from) / width;
  context.font = SMALL;
  context.textAlign = 'left';
  for (let depth = Math.floor(top); depth < levels.length; depth += 1) {
    const y = (depth - top) * ROW_PX;
    if (y > height) break;
    const level = levels[depth] ?? new Uint32Array(0);
    let at = firstFrom(trace, level, range.from);
    // the call before may reach into the range
    if (at > 0) at -= 1;
    let last = -1;
    while (at < level.length) {
      const row = level[at] ?? 0;
      const start = trace.start[row] ?? 0;
      if (start > range.to) break;
      const from = Math.max(0, x(start));
      const to = Math.min(width, x(trace.end[row] ?? 0));
      if (to >= 0 && to > last) {
        const isOutside = critical !== null && critical[row] === 0;
        context.globalAlpha = isOutside ? 0.25 : 0.85;
        context.fillStyle = color(barColor(trace, row, hues));
        context.fillRect(from, y + 1, Math.max(1, to - from - 0.5), ROW_PX - 2);
        if (found[row] === 1 || row === timeline.selected || row === drawing.hovered) {
          context.globalAlpha = 1;
          context.strokeStyle = color('--ink');
          context.lineWidth = row === timeline.selected ? 2 : 1;
          context.strokeRect(from + 1, y + 2, Math.max(1, to - from - 2), ROW_PX - 4);
        }
        if (to - from > 36) drawFlameText(drawing, row, from, to, y);
        last = Math.max(to, from + 1);
      }
      // the next one that begins a pixel later, or after this one
      const next = to - from < 1 ? firstFrom(trace, level, start + Math.max(1, pixel), at + 1) : at + 1;
      at = Math.max(at + 1, next);
    }
  }
  context.globalAlpha = 1;
}

function drawFlameText({ context, color, timeline }: Drawing, row: number, from: number, to: number, y: number): void {
  context.save();
  context.beginPath();
  context.rect(from + 3, y, to - from - 6, ROW_PX);
  context.clip();
  context.globalAlpha = 1;
  context.fillStyle = color('--sheet');
  const { trace } = timeline;
  context.fillText(`${labelAt(trace, row)} · ${serviceAt(trace, row)}`, from + 5, y + ROW_PX / 2 + 0.5);
  context.restore();
}

/** The row below a point of the canvas. */
export function rowAt(timeline: Timeline, width: number, px: number, py: number): number | null {
  const line = Math.floor(timeline.top + py / ROW_PX);
  if (timeline.mode === 'rows') return timeline.rows[line] ?? null;
  const { trace, range, levels } = timeline;
  const level = levels[line];
  if (level === undefined) return null;
  const moment = range.from + (px / width) * (range.to - range.from);
  for (let at = firstFrom(trace, level, moment + 1) - 1, tries = 0; at >= 0 && tries < 64; at -= 1, tries += 1) {
    const row = level[at] ?? 0;
    if ((trace.end[row] ?? 0) >= moment) return row;
  }
  return null;
}
