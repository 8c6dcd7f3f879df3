import { placed, type Placed } from '../../model/graph.ts';
import { count } from '../../model/text.ts';
import type { MapEdge, MapNode, MapView } from '../../model/view.ts';

const NODE = { width: 168, height: 34 };
const STEP = { x: 264, y: 50 };
const MARGIN = 24;
const LABEL_MAX = 22;

interface DrawingProps {
  map: MapView;
  edges: MapEdge[];
  isShown: (node: number) => boolean;
  found: ReadonlySet<number>;
  selected: number;
  onSelect: (node: number) => void;
}

/** Dependencies from left to right. The width of an edge is its number of connections, dashed red are failures. */
export function Drawing({ map, edges, isShown, found, selected, onSelect }: DrawingProps) {
  const places = placed(map, isShown);
  const at = new Map(places.map((place) => [place.node, place]));
  const width = 2 * MARGIN + Math.max(0, ...places.map((place) => place.column)) * STEP.x + NODE.width;
  const height = 2 * MARGIN + Math.max(0, ...places.map((place) => place.row)) * STEP.y + NODE.height;
  const alone = map.nodes.filter((node, i) => node.column === null && isShown(i)).length;
  const most = Math.max(1, ...edges.map((edge) => edge.opened));
  return (
    <div className="map-scroll" role="region" aria-label="Drawing of the map" tabIndex={0}>
      <svg
        width={width}
        height={height}
        viewBox={`0 0 ${width} ${height}`}
        role="group"
        aria-label="Services and connections"
      >
        {edges.map((edge, i) => {
          const [from, to] = [at.get(edge.from), at.get(edge.to)];
          return (
            from && to && <Edge key={i} map={map} edge={edge} from={from} to={to} most={most} selected={selected} />
          );
        })}
        {places.map((place) => (
          <Node
            key={place.node}
            node={map.nodes[place.node] as MapNode}
            place={place}
            isFound={found.has(place.node)}
            isSelected={place.node === selected}
            onSelect={() => onSelect(place.node)}
          />
        ))}
      </svg>
      {alone > 0 && (
        <p className="soft">
          {alone} without connections {alone === 1 ? 'is' : 'are'} not drawn.
        </p>
      )}
    </div>
  );
}

const left = (place: Placed) => MARGIN + place.column * STEP.x;
const middle = (place: Placed) => MARGIN + place.row * STEP.y + NODE.height / 2;

function Edge(props: { map: MapView; edge: MapEdge; from: Placed; to: Placed; most: number; selected: number }) {
  const { map, edge, from, to, most, selected } = props;
  const isForward = to.column > from.column;
  const x1 = left(from) + (isForward ? NODE.width : to.column === from.column ? NODE.width : 0);
  const x2 = left(to) + (isForward ? 0 : NODE.width);
  const [y1, y2] = [middle(from), middle(to)];
  const bend = isForward ? (x2 - x1) / 2 : 44;
  const c1 = x1 + (to.column < from.column ? -bend : bend);
  const c2 = x2 + (isForward ? -bend : bend);
  // an edge that passes a column goes around the node in between
  const lift = Math.abs(to.column - from.column) > 1 ? -1.2 * NODE.height : 0;
  const curve = `M${x1} ${y1}C${c1} ${y1 + lift} ${c2} ${y2 + lift} ${x2} ${y2}`;
  const isOf = selected >= 0 && (edge.from === selected || edge.to === selected);
  const weight = 0.8 + (2.4 * Math.log1p(edge.opened)) / Math.log1p(most);
  const name = (node: number) => map.nodes[node]?.label ?? '';
  const failed = edge.failed > 0 ? `, ${count(edge.failed)} failed` : '';
  const text = `${name(edge.from)} → ${name(edge.to)} ${edge.at} ${edge.protocol}: ${count(edge.opened)} opened${failed}`;
  return (
    <g className={`edge${edge.failed > 0 ? ' failed' : ''}${isOf ? ' of' : ''}${edge.paired ? '' : ' one'}`}>
      <title>{text}</title>
      <path d={curve} strokeWidth={weight} />
      <path className="hit" d={curve} />
      <circle cx={x2} cy={y2} r={2.4 + weight / 3} />
      {edge.failed > 0 && (
        <text x={(x1 + x2) / 2} y={(y1 + y2) / 2 + lift * 0.75 - 4}>
          ✕ {count(edge.failed)} failed
        </text>
      )}
    </g>
  );
}

function Node(props: { node: MapNode; place: Placed; isFound: boolean; isSelected: boolean; onSelect: () => void }) {
  const { node, place, isFound, isSelected, onSelect } = props;
  const label = node.label.length > LABEL_MAX ? `${node.label.slice(0, LABEL_MAX - 1)}…` : node.label;
  const host = node.hosts[0] ?? '';
  return (
    <g
      className={`node k-${node.kind}${isFound ? ' found' : ''}${isSelected ? ' selected' : ''}`}
      transform={`translate(${left(place)} ${middle(place) - NODE.height / 2})`}
      role="button"
      tabIndex={0}
      aria-pressed={isSelected}
      onClick={onSelect}
      onKeyDown={(event) => {
        if (event.key !== 'Enter' && event.key !== ' ') return;
        event.preventDefault();
        onSelect();
      }}
    >
      <rect width={NODE.width} height={NODE.height} rx="7" />
      <text x="10" y={host === '' ? 22 : 15}>
        {label}
      </text>
      {host !== '' && (
        <text x="10" y="28" className="host">
          {host.slice(0, LABEL_MAX)}
        </text>
      )}
    </g>
  );
}
