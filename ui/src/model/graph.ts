import type { MapEdge, MapNode, MapView } from './view.ts';

/** Parts and groups of a map. Nodes are named by their index. */

export type Grouping = '' | 'host' | 'kind';

const COUNTS = ['opened', 'established', 'failed', 'closed', 'open_at_end', 'sent_bytes', 'received_bytes'] as const;

function groupOf(node: MapNode, by: Grouping): string {
  return by === 'kind' ? node.kind : (node.hosts[0] ?? node.kind);
}

/** The map with one node for each group, and edges with summed counts. Edges within a group are left out. */
export function grouped(map: MapView, by: Grouping): MapView {
  if (by === '') return map;
  const names = [...new Set(map.nodes.map((node) => groupOf(node, by)))].sort();
  const members = names.map((name) => map.nodes.filter((node) => groupOf(node, by) === name));
  const at = map.nodes.map((node) => names.indexOf(groupOf(node, by)));
  const edges = new Map<string, MapEdge>();
  for (const edge of map.edges) {
    const [from, to] = [at[edge.from] ?? 0, at[edge.to] ?? 0];
    if (from === to) continue;
    const key = `${from} ${to}`;
    const known = edges.get(key);
    if (known === undefined) edges.set(key, { ...edge, from, to, at: '' });
    else for (const count of COUNTS) known[count] += edge[count];
  }
  const nodes = names.map((name, i): MapNode => {
    const list = members[i] ?? [];
    const columns = list.flatMap((node) => node.column ?? []);
    const middle = columns.sort((a, b) => a - b)[columns.length >> 1];
    return {
      id: `group:${name}`,
      kind: by,
      label: `${name} (${list.length})`,
      hosts: by === 'host' ? [name] : [...new Set(list.flatMap((node) => node.hosts))],
      listens: [...new Set(list.flatMap((node) => node.listens))],
      processes: list.reduce((sum, node) => sum + node.processes, 0),
      column: middle ?? null,
      row: i,
    };
  });
  return { nodes, edges: [...edges.values()] };
}

/** Nodes within so many hops of one of `from`, in both directions. */
export function within(map: MapView, from: ReadonlySet<number>, hops: number): Set<number> {
  const found = new Set(from);
  let border = new Set(from);
  for (let hop = 0; hop < hops && border.size > 0; hop += 1) {
    const next = new Set<number>();
    for (const edge of map.edges) {
      if (border.has(edge.from) && !found.has(edge.to)) next.add(edge.to);
      if (border.has(edge.to) && !found.has(edge.from)) next.add(edge.from);
    }
    next.forEach((node) => found.add(node));
    border = next;
  }
  return found;
}

/** Nodes whose label, host or port contains the text. */
export function matching(map: MapView, text: string): Set<number> {
  const wanted = text.trim().toLowerCase();
  const out = new Set<number>();
  map.nodes.forEach((node, i) => {
    const all = [node.label, node.kind, ...node.hosts, ...node.listens].join(' ').toLowerCase();
    if (wanted !== '' && all.includes(wanted)) out.add(i);
  });
  return out;
}

/** Nodes that are drawn, by index, with a column and a row of their own. */
export interface Placed {
  node: number;
  column: number;
  row: number;
}

/** The columns and the order of the map's own layout, without holes. */
export function placed(map: MapView, shown: (node: number) => boolean): Placed[] {
  const columns = new Map<number, number[]>();
  map.nodes.forEach((node, i) => {
    if (node.column === null || !shown(i)) return;
    columns.set(node.column, [...(columns.get(node.column) ?? []), i]);
  });
  const row = (node: number) => map.nodes[node]?.row ?? 0;
  const tallest = Math.max(0, ...[...columns.values()].map((list) => list.length));
  return [...columns.keys()]
    .sort((a, b) => a - b)
    .flatMap((key, column) => {
      const list = (columns.get(key) ?? []).sort((a, b) => row(a) - row(b));
      const gap = list.length < tallest ? (tallest - list.length) / (list.length + 1) : 0;
      return list.map((node, i) => ({ node, column, row: i + gap * (i + 1) }));
    });
}
