import { useRef } from 'react';
import { useWindow } from '../../parts/window.ts';
import { count, size } from '../../model/text.ts';
import type { MapEdge, MapView } from '../../model/view.ts';
import { useRouter } from '../../state/router.tsx';

const ROW_PX = 32;

type Key = 'from' | 'to' | 'opened' | 'failed' | 'bytes';

const COLUMNS: [Key, string][] = [
  ['from', 'From'],
  ['to', 'To'],
  ['opened', 'Connections'],
  ['failed', 'Failed'],
  ['bytes', 'Bytes'],
];

/** Edges as a table that can be sorted. */
export function EdgeList(props: { map: MapView; edges: MapEdge[]; onSelect: (node: number) => void }) {
  const { map, edges, onSelect } = props;
  const router = useRouter();
  const sort = COLUMNS.find(([key]) => key === router.address.query.get('sort'))?.[0] ?? 'failed';
  const box = useRef<HTMLDivElement>(null);
  const range = useWindow(box, edges.length, ROW_PX);
  const name = (node: number) => map.nodes[node]?.label ?? '';
  const bytes = (edge: MapEdge) => edge.sent_bytes + edge.received_bytes;
  const compare: Record<Key, (a: MapEdge, b: MapEdge) => number> = {
    from: (a, b) => name(a.from).localeCompare(name(b.from)),
    to: (a, b) => name(a.to).localeCompare(name(b.to)),
    opened: (a, b) => b.opened - a.opened,
    failed: (a, b) => b.failed - a.failed || b.opened - a.opened,
    bytes: (a, b) => bytes(b) - bytes(a),
  };
  const sorted = [...edges].sort(compare[sort]);
  return (
    <div className="edge-list" ref={box} role="table" aria-label="Edges" aria-rowcount={edges.length + 1} tabIndex={0}>
      <div role="rowgroup">
        <div role="row" className="edge-head" aria-rowindex={1}>
          {COLUMNS.map(([key, text]) => (
            <span key={key} role="columnheader" aria-sort={sort === key ? 'other' : 'none'}>
              <button type="button" onClick={() => router.set({ sort: key })}>
                {text}
                {sort === key && <span aria-hidden="true"> ↓</span>}
              </button>
            </span>
          ))}
        </div>
      </div>
      <div role="rowgroup" style={{ height: edges.length * ROW_PX, position: 'relative' }}>
        {sorted.slice(range.first, range.end).map((edge, i) => {
          const row = range.first + i;
          return (
            <div
              key={row}
              role="row"
              aria-rowindex={row + 2}
              className="edge-row"
              style={{ top: row * ROW_PX, height: ROW_PX }}
            >
              <span role="cell">
                <button type="button" className="plain" onClick={() => onSelect(edge.from)}>
                  {name(edge.from)}
                </button>
              </span>
              <span role="cell">
                <button type="button" className="plain" onClick={() => onSelect(edge.to)}>
                  {name(edge.to)}
                </button>{' '}
                <span className="soft">
                  {edge.at} {edge.protocol}
                </span>
              </span>
              <span role="cell" className="number">
                {count(edge.opened)}
              </span>
              <span role="cell" className={edge.failed > 0 ? 'number failing' : 'number soft'}>
                {edge.failed > 0 && <span aria-hidden="true">✕ </span>}
                {count(edge.failed)}
              </span>
              <span role="cell" className="number soft">
                {size(bytes(edge))}
              </span>
            </div>
          );
        })}
      </div>
    </div>
  );
}
