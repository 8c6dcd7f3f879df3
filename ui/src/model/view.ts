/**
 * The view model as the API returns it. Mirrors the structures of study/report/src/view, whose JSON Schemas
 * `faultloom schema run-view` prints; keep the two alike. Numbers have their units in their names.
 *
 * A `Column` is the base64 text of little-endian numbers, see columns.ts.
 */

export type U32Column = string;
export type U8Column = string;

/** The newest version that this page can show. */
export const VERSION = 1;

export interface About {
  version: number;
  tool_version: string;
  allows_runs: boolean;
}

export interface RunHead {
  id: string;
  /** What people type: the last eight digits of the id. */
  short_id: string;
  kind: string;
  title: string;
  /** None while the run is in progress, or if it was interrupted. */
  verdict: 'pass' | 'fail' | 'unknown' | null;
  begin_ms: number;
  end_ms: number | null;
  seed: number;
  summary: string;
  tool_version: string;
  kernel: string;
  cpus: number;
}

export interface RunList {
  version: number;
  runs: RunHead[];
  has_more: boolean;
}

export interface Note {
  is_warning: boolean;
  text: string;
}

export type Content =
  | ({ kind: 'recording' } & RecordingView)
  | ({ kind: 'sweep' } & SweepView)
  | ({ kind: 'map' } & MapView)
  | ({ kind: 'flip' } & FlipView);

export interface RunView {
  version: number;
  run: RunHead;
  content: Content;
  notes: Note[];
}

export interface PlannedFault {
  fault: string;
  fired: number;
}

export interface RecordingView {
  traces: TraceView[];
  left_out: number;
  faults: PlannedFault[];
  sockets: SocketsView | null;
}

export type Outcome = 'fail' | 'unknown' | 'pass' | 'unaffected';

/** A fault of one or several spaces: a column of the table. */
export interface SiteColumn {
  service: string;
  /** Short: `Convert#3`. */
  label: string;
  /** In the notation of `--fault`. */
  fault: string;
  kind: string;
  spaces: number[];
  planned: number;
  fired: number;
  failed_when_fired: number;
}

export interface Latency {
  min_us: number;
  p50_us: number;
  p95_us: number;
  max_us: number;
}

export interface SpaceCount {
  space: number;
  cases: number;
}

export interface Behavior {
  id: string;
  fingerprint: string;
  outcome: Outcome;
  ending: string | null;
  status: number | null;
  reason: string;
  bugs: number[];
  cases: number;
  spaces: SpaceCount[];
  /** One character per column: `.` never planned, `o` planned and never reached, `x` fired. */
  cells: string;
  latency: Latency;
  example_space: number;
  example_case: number;
  example_faults: string[];
  has_trace: boolean;
}

export interface BugView {
  number: number;
  name: string;
  title: string;
  mistake: string;
  harm: string | null;
  harm_text: string;
  faults: string[];
  story: string[];
  violation: string;
  real_stop: string;
  failed_caller: string;
  failed_callee: string;
  failed_call: string;
  log: string[];
  log_path: string | null;
  failing_cases: number;
  spaces: string[];
  again: string;
}

export interface UnexplainedView {
  reason: string;
  faults: string[];
  again: string;
  failing_cases: number;
  spaces: string[];
}

export interface SpaceView {
  name: string;
  about: string;
  cases: number;
  failures: number;
  passes: number;
  unaffected: number;
  unknown: number;
  behaviors: number;
  duration_s: number;
  minimal: number[][];
  minimal_left_out: number;
}

export interface SweepView {
  request: string;
  oracle: string;
  protocol: 'grpc' | 'http';
  good_calls: number;
  good_services: number;
  good_us: number | null;
  bugs: BugView[];
  hard_dependencies: BugView[];
  unexplained: UnexplainedView[];
  spaces: SpaceView[];
  columns: SiteColumn[];
  behaviors: Behavior[];
  repeated: number;
  sockets: SocketsView | null;
}

export interface CaseColumns {
  space: number;
  rows: number;
  case: U32Column;
  behavior: U32Column;
  latency_us: U32Column;
  words: number;
  planned: U32Column;
  fired: U32Column;
  columns: number[];
}

export interface RowText {
  row: number;
  text: string;
}

export interface RowNumber {
  row: number;
  value: number;
}

export interface TraceView {
  trace_id: string;
  rows: number;
  us_per_tick: number;
  extent_ticks: number;
  services: string[];
  labels: string[];
  names: string[];
  peers: string[];
  parent: U32Column;
  depth: U32Column;
  service: U32Column;
  label: U32Column;
  name: U32Column;
  peer: U32Column;
  start_ticks: U32Column;
  end_ticks: U32Column;
  callee_start_ticks: U32Column;
  callee_end_ticks: U32Column;
  outcome: U8Column;
  status: U32Column;
  flags: U8Column;
  faults: RowText[];
  gaps: RowText[];
  connect_us: RowNumber[];
}

export interface ComparisonView {
  first: TraceView;
  other: TraceView;
  rows: number;
  depth: U32Column;
  first_row: U32Column;
  other_row: U32Column;
  change: U8Column;
}

export interface MapNode {
  id: string;
  kind: string;
  label: string;
  hosts: string[];
  listens: string[];
  processes: number;
  column: number | null;
  row: number | null;
}

export interface MapEdge {
  from: number;
  to: number;
  protocol: string;
  at: string;
  opened: number;
  established: number;
  failed: number;
  closed: number;
  open_at_end: number;
  sent_bytes: number;
  received_bytes: number;
  paired: boolean;
  source: string;
  translated: boolean;
}

export interface MapView {
  nodes: MapNode[];
  edges: MapEdge[];
}

export interface SocketRow {
  from: string;
  to: string;
  observed_by: 'both' | 'sockets' | 'messages';
  calls: number;
  connections: number;
  reason: string;
}

export interface SocketsView {
  map: MapView;
  rows: SocketRow[];
  remarks: string[];
}

export interface TallyView {
  no_effect: number;
  undetected: number;
  detected_by_hardening: number;
  detected_otherwise: number;
  not_flipped: number;
  not_judged: number;
}

export interface ShareView {
  share: number;
  low: number;
  high: number;
}

export interface FlipRow {
  name: string;
  about: string;
  is_within: boolean;
  tally: TallyView;
  undetected: ShareView | null;
  detected_by_hardening: ShareView | null;
  detected_otherwise: ShareView | null;
}

export interface FlipSlice {
  group: string;
  key: string;
  tally: TallyView;
}

export interface WrongOutput {
  connection: string;
  reply: number;
  replies: number;
  byte: number;
  expected: string;
  actual: string;
  connections: number;
  replies_since: number | null;
}

export interface FlipStory {
  id: number;
  variant: number;
  outcome: string;
  kind: string;
  instruction: string;
  class: string;
  module: string;
  offset: number;
  function: string;
  source: string;
  bit: number | null;
  position: number | null;
  hit: string;
  end: string;
  wrong_output: WrongOutput | null;
  replay: string;
  replay_gdb: string;
}

export interface VariantView {
  name: string;
  command: string;
  instructions: number;
  distinct_instructions: number;
  replies: number;
  golden_bytes: number;
  controls_run: number;
  controls_deviating: number;
  wall_s: number;
  cpu_s: number;
  tally: TallyView;
  rows: FlipRow[];
  by_class: FlipSlice[];
  by_function: FlipSlice[];
  by_bit: FlipSlice[];
}

export interface FlipView {
  protocol: string;
  seed: number;
  variants: VariantView[];
  stories: FlipStory[];
  stories_left_out: number;
}
