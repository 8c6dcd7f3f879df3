import { bytes, NONE, numbers } from './columns.ts';
import type { RowNumber, RowText, TraceView } from './view.ts';

/** How a call ended. */
export const OUTCOME = { ok: 0, error: 1, failed: 2, open: 3 } as const;

const FLAG = { gap: 1, inherited: 2, faultsOff: 4, http: 8, recorded: 16 } as const;

/** A decoded trace. Rows are calls in the order of sending, each before the calls that it caused. */
export interface Trace {
  id: string;
  rows: number;
  usPerTick: number;
  extent: number;
  services: string[];
  labels: string[];
  names: string[];
  peers: string[];
  parent: Uint32Array;
  depth: Uint32Array;
  service: Uint32Array;
  label: Uint32Array;
  name: Uint32Array;
  peer: Uint32Array;
  start: Uint32Array;
  end: Uint32Array;
  calleeStart: Uint32Array;
  calleeEnd: Uint32Array;
  outcome: Uint8Array;
  status: Uint32Array;
  flags: Uint8Array;
  faults: RowText[];
  gaps: RowText[];
  connectUs: RowNumber[];
}

export function decodeTrace(reply: unknown): Trace {
  const view = reply as TraceView;
  return {
    id: view.trace_id,
    rows: view.rows,
    usPerTick: view.us_per_tick,
    extent: Math.max(view.extent_ticks, 1),
    services: view.services,
    labels: view.labels,
    names: view.names,
    peers: view.peers,
    parent: numbers(view.parent),
    depth: numbers(view.depth),
    service: numbers(view.service),
    label: numbers(view.label),
    name: numbers(view.name),
    peer: numbers(view.peer),
    start: numbers(view.start_ticks),
    end: numbers(view.end_ticks),
    calleeStart: numbers(view.callee_start_ticks),
    calleeEnd: numbers(view.callee_end_ticks),
    outcome: bytes(view.outcome),
    status: numbers(view.status),
    flags: bytes(view.flags),
    faults: view.faults,
    gaps: view.gaps,
    connectUs: view.connect_us,
  };
}

/** One call of a trace, for display. */
export interface CallDetails {
  row: number;
  service: string;
  caller: string;
  label: string;
  name: string;
  peer: string;
  startUs: number;
  durationUs: number;
  /** The callee's own part; none without a history. */
  calleeUs: number | null;
  connectUs: number | null;
  outcome: number;
  status: number | null;
  isHttp: boolean;
  isRecorded: boolean;
  faultsOff: boolean;
  faults: string[];
  gaps: string[];
}

export function callAt(trace: Trace, row: number): CallDetails {
  const number = (column: Uint32Array) => column[row] ?? 0;
  const parent = number(trace.parent);
  const flags = trace.flags[row] ?? 0;
  const [calleeStart, calleeEnd] = [number(trace.calleeStart), number(trace.calleeEnd)];
  const status = number(trace.status);
  return {
    row,
    service: serviceAt(trace, row),
    caller: parent === NONE ? '' : serviceAt(trace, parent),
    label: labelAt(trace, row),
    name: trace.names[number(trace.name)] ?? '',
    peer: trace.peers[number(trace.peer)] ?? '',
    startUs: number(trace.start) * trace.usPerTick,
    durationUs: (number(trace.end) - number(trace.start)) * trace.usPerTick,
    calleeUs: calleeStart === NONE || calleeEnd === NONE ? null : (calleeEnd - calleeStart) * trace.usPerTick,
    connectUs: trace.connectUs.find((entry) => entry.row === row)?.value ?? null,
    outcome: trace.outcome[row] ?? 0,
    status: status === NONE ? null : status,
    isHttp: (flags & FLAG.http) !== 0,
    isRecorded: (flags & FLAG.recorded) !== 0,
    faultsOff: (flags & FLAG.faultsOff) !== 0,
    faults: trace.faults.filter((fault) => fault.row === row).map((fault) => fault.text),
    gaps: trace.gaps.filter((gap) => gap.row === row).map((gap) => gap.text),
  };
}

export const serviceAt = (trace: Trace, row: number): string => trace.services[trace.service[row] ?? 0] ?? '';
export const labelAt = (trace: Trace, row: number): string => trace.labels[trace.label[row] ?? 0] ?? '';

/** For each row, the row after its last descendant. */
export function subtreeEnds(depth: Uint32Array): Uint32Array {
  const ends = new Uint32Array(depth.length);
  const open: number[] = [];
  const close = (level: number, row: number) => {
    while (open.length > level) ends[open.pop() ?? 0] = row;
  };
  depth.forEach((level, row) => {
    close(level, row);
    open.push(row);
  });
  close(0, depth.length);
  return ends;
}
