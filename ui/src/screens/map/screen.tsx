import { useMemo } from 'react';
import { focusField, SearchField, SelectField } from '../../parts/fields.tsx';
import { grouped, matching, within, type Grouping } from '../../model/graph.ts';
import { count, counted } from '../../model/text.ts';
import type { MapView, SocketsView } from '../../model/view.ts';
import { useKeys } from '../../state/keys.tsx';
import { useRouter } from '../../state/router.tsx';
import { Drawing } from './drawing.tsx';
import { EdgeList } from './list.tsx';
import { NodeCard } from './node.tsx';
import { SocketTable } from './sockets.tsx';

const SEARCH = 'map-search';

/** More edges than this cannot be read as a drawing. */
const EDGES_MAX = 150;

/** Which process depends on which. */
export default function MapScreen({ map: whole, sockets }: { map: MapView; sockets: SocketsView | null }) {
  const router = useRouter();
  const query = router.address.query;
  const text = query.get('q') ?? '';
  const by = (['host', 'kind'] as const).find((one) => one === query.get('by')) ?? ('' as Grouping);
  const hops = Number(query.get('hops') ?? 1) || 1;
  const map = useMemo(() => grouped(whole, by), [whole, by]);
  const found = useMemo(() => matching(map, text), [map, text]);
  const selected = map.nodes.findIndex((node) => node.id === query.get('at'));
  const shown = useMemo(() => {
    const from = selected >= 0 ? new Set([selected]) : found;
    if (text !== '' && from.size === 0) return new Set<number>();
    return from.size === 0 ? null : within(map, from, hops);
  }, [map, found, selected, hops, text]);
  const isShown = (node: number) => shown === null || shown.has(node);
  const edges = map.edges.filter((edge) => isShown(edge.from) && isShown(edge.to));
  const isLarge = edges.length > EDGES_MAX;
  const view = query.get('view') ?? (isLarge ? 'list' : 'drawing');
  const select = (node: number) => router.set({ at: node === selected ? null : (map.nodes[node]?.id ?? null) }, true);
  useKeys([
    { name: '/', does: 'Search nodes', run: () => focusField(SEARCH) },
    { name: 'v', does: 'Drawing or list', run: () => router.set({ view: view === 'list' ? 'drawing' : 'list' }) },
    { name: '+', does: 'One hop more', run: () => router.set({ hops: Math.min(9, hops + 1) }) },
    { name: '-', does: 'One hop less', run: () => router.set({ hops: Math.max(1, hops - 1) }) },
    { name: 'Escape', does: 'Show the whole map', run: () => router.set({ at: null, q: null }) },
  ]);
  const failed = edges.filter((edge) => edge.failed > 0).length;
  return (
    <div className="map">
      <div className="toolbar">
        <SearchField
          id={SEARCH}
          label="Search nodes ( / )"
          value={text}
          onChange={(q) => router.set({ q, at: null })}
        />
        <SelectField
          label="Hops"
          value={String(hops)}
          options={[1, 2, 3, 4, 9].map((n) => ({ value: String(n), text: String(n) }))}
          onChange={(hops) => router.set({ hops: hops === '1' ? null : hops })}
        />
        <SelectField
          label="Group by"
          value={by}
          options={[
            { value: '', text: 'nothing' },
            { value: 'host', text: 'host' },
            { value: 'kind', text: 'kind' },
          ]}
          onChange={(by) => router.set({ by, at: null })}
        />
        <div className="switch" role="group" aria-label="View">
          {['drawing', 'list'].map((one) => (
            <button key={one} type="button" aria-pressed={view === one} onClick={() => router.set({ view: one })}>
              {one === 'list' ? 'List' : 'Drawing'}
            </button>
          ))}
        </div>
        <span className="soft" role="status">
          {counted(shown?.size ?? map.nodes.length, 'node')}, {counted(edges.length, 'edge')}
          {failed > 0 && `, ${count(failed)} with failures`}
        </span>
        {shown !== null && (
          <button type="button" className="button small" onClick={() => router.set({ at: null, q: null })}>
            Whole map
          </button>
        )}
      </div>
      <div className="map-body">
        <div className="map-main">
          {view === 'list' ? (
            <EdgeList map={map} edges={edges} onSelect={select} />
          ) : (
            <>
              {isLarge && (
                <p className="soft">{counted(edges.length, 'edge')}: search, group or use the list to read it.</p>
              )}
              <Drawing map={map} edges={edges} isShown={isShown} found={found} selected={selected} onSelect={select} />
            </>
          )}
        </div>
        {selected >= 0 && <NodeCard map={map} node={selected} onSelect={select} />}
      </div>
      {sockets !== null && <SocketTable sockets={sockets} />}
    </div>
  );
}
