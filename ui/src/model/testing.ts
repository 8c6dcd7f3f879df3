import { NONE } from './columns.ts';
import type { Trace } from './trace.ts';

/** A trace whose rows are `depth label`. */
export function trace(rows: [number, string][]): Trace {
  const labels = [...new Set(rows.map(([, label]) => label))];
  const zeros = () => new Uint32Array(rows.length);
  return {
    id: 't',
    rows: rows.length,
    usPerTick: 1,
    extent: 100,
    services: ['s'],
    labels,
    names: labels,
    peers: [''],
    parent: zeros().fill(NONE),
    depth: Uint32Array.from(rows, ([depth]) => depth),
    service: zeros(),
    label: Uint32Array.from(rows, ([, label]) => labels.indexOf(label)),
    name: zeros(),
    peer: zeros(),
    start: Uint32Array.from(rows, (_, i) => i * 10),
    end: Uint32Array.from(rows, (_, i) => i * 10 + 5),
    calleeStart: zeros().fill(NONE),
    calleeEnd: zeros().fill(NONE),
    outcome: new Uint8Array(rows.length),
    status: zeros(),
    flags: new Uint8Array(rows.length),
    faults: [],
    gaps: [],
    connectUs: [],
  };
}
