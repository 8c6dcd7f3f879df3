import { Facts } from '../../parts/facts.tsx';
import { count, size } from '../../model/text.ts';
import type { MapEdge, MapView } from '../../model/view.ts';

/** One node and the nodes that it is connected to. */
export function NodeCard({
  map,
  node: at,
  onSelect,
}: {
  map: MapView;
  node: number;
  onSelect: (node: number) => void;
}) {
  const node = map.nodes[at];
  if (node === undefined) return null;
  const list = (values: string[]) => (values.length === 0 ? '–' : values.join(', '));
  return (
    <aside className="node-card" aria-label="The selected node">
      <h2 className="breaks">{node.label}</h2>
      <Facts
        list={[
          ['Kind', node.kind],
          ['Hosts', list(node.hosts)],
          ['Listens on', list(node.listens)],
          ['Processes', count(node.processes)],
        ]}
      />
      <Edges
        title="Used by"
        map={map}
        edges={map.edges.filter((edge) => edge.to === at)}
        other="from"
        onSelect={onSelect}
      />
      <Edges
        title="Depends on"
        map={map}
        edges={map.edges.filter((edge) => edge.from === at)}
        other="to"
        onSelect={onSelect}
      />
    </aside>
  );
}

function Edges(props: {
  title: string;
  map: MapView;
  edges: MapEdge[];
  other: 'from' | 'to';
  onSelect: (node: number) => void;
}) {
  const { title, map, edges, other, onSelect } = props;
  return (
    <section>
      <h3>
        {title} <span className="soft">({count(edges.length)})</span>
      </h3>
      <ul>
        {edges.map((edge, i) => (
          <li key={i}>
            <button type="button" className="plain" onClick={() => onSelect(edge[other])}>
              {map.nodes[edge[other]]?.label}
            </button>{' '}
            <span className="soft">
              {edge.at} {edge.protocol}, {count(edge.opened)} opened, {count(edge.open_at_end)} open at the end,{' '}
              {size(edge.sent_bytes + edge.received_bytes)}, by {edge.source}
              {!edge.paired && ', observed at one end'}
              {edge.translated && ', through an address translation'}
            </span>
            {edge.failed > 0 && <span className="failing"> ✕ {count(edge.failed)} failed</span>}
          </li>
        ))}
      </ul>
    </section>
  );
}
