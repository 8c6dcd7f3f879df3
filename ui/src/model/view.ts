/**
 * The view model as the API returns it. Written by `npm run types:write` from `spec/schemas`; do not edit it.
 * Numbers have their units in their names. Columns are base64 text of little-endian numbers, see columns.ts.
 */

/** The newest version that this page can show. */
export const VERSION = 1;

export interface About {
  version: number;
  tool_version: string;
  /** Whether runs may be deleted. */
  allows_runs: boolean;
}

/** Cases whose requests made the same calls with the same outcomes and were judged alike. */
export interface Behavior {
  /** Numbers of the bugs that its cases belong to. */
  bugs: number[];
  cases: number;
  /** One character per column: `.` never planned, `o` planned and never reached, `x` fired. */
  cells: string;
  /** How failing cases ended: `returned-error`, `crashed`, `no-reply`, `wrong-content`, `too-slow`. */
  ending: string | null;
  example_case: number;
  /** Faults of that case, in the notation of `--fault`. */
  example_faults: string[];
  /** The simplest case: the fewest faults, then the lowest number. */
  example_space: number;
  /** 16 hexadecimal digits; behaviors with the same one differ only in how they were judged. */
  fingerprint: string;
  /** Whether a request of this behavior is stored, so that it can be compared. */
  has_trace: boolean;
  /** The same in every view of the run for one audience: fingerprint, outcome, status, ending and reason. */
  id: string;
  latency: Latency;
  outcome: Outcome;
  /** Why the outcome is fail or unknown. */
  reason: string;
  spaces: SpaceCount[];
  /** HTTP status or gRPC code; none without a reply. */
  status: number | null;
}

/** A bug, or a call that the request needs. */
export interface BugView {
  /** The command that shows it again. */
  again: string;
  failed_call: string;
  failed_callee: string;
  failed_caller: string;
  failing_cases: number;
  /** The smallest set of faults that shows it, in the notation of `--fault`. */
  faults: string[];
  /** `state-changed`, `crash`, `wrong-content`, `avoidable`, `hard-dependency`; none in old runs. */
  harm: string | null;
  /** The harm in words. */
  harm_text: string;
  /** The last lines of the log of the service that crashed. */
  log: string[];
  /** Where the whole log is. */
  log_path: string | null;
  mistake: string;
  /** By the taxonomy of 3MileBeach: `SimpleTFI`. */
  name: string;
  /** From 1, in the order of harm, as commands name it. */
  number: number;
  /** The result of repeating it with real stops of services; empty if that was not wanted. */
  real_stop: string;
  spaces: string[];
  /** What happened, one sentence a step. */
  story: string[];
  title: string;
  /** Which condition the reply violated, and how. */
  violation: string;
}

/** One row per case that was run, in ascending order of its number. */
export interface CaseColumns {
  /** Index into the behaviors of the view. */
  behavior: U32Column;
  /** Number of the case within its space. */
  case: U32Column;
  /** Columns of the behavior table, one per site of the space. */
  columns: number[];
  /** Likewise, if its fault fired. */
  fired: U32Column;
  latency_us: U32Column;
  planned: U32Column;
  rows: number;
  /** Index of the space. */
  space: number;
  /** Words of 32 sites per case: bit i of word i / 32 is set if site i was planned. */
  words: number;
}

/** One merged tree. Rows are in display order, each before those below it. */
export interface ComparisonView {
  /** 0 same, 1 failed, 2 ended differently, 3 missing, 4 extra. */
  change: U8Column;
  depth: U32Column;
  first: TraceView;
  /** The row in `first`; none if the call is extra. */
  first_row: U32Column;
  other: TraceView;
  /** The row in `other`; none if the call is missing. */
  other_row: U32Column;
  rows: number;
}

/** What a kind of run shows. */
export type Content =
  | ({
      kind: 'recording';
    } & RecordingView)
  | ({
      kind: 'sweep';
    } & SweepView)
  | ({
      kind: 'map';
    } & MapView)
  | ({
      kind: 'flip';
    } & FlipView)
  | ({
      kind: 'plain';
    } & PlainView);

/** A group of flips, or a type within the group above it. */
export interface FlipRow {
  /** What the name stands for. */
  about: string;
  detected_by_hardening: ShareView | null;
  detected_otherwise: ShareView | null;
  is_within: boolean;
  name: string;
  tally: TallyView;
  /** None without an error. */
  undetected: ShareView | null;
}

/** Outcomes by a property of the flipped part. */
export interface FlipSlice {
  group: string;
  key: string;
  tally: TallyView;
}

/** One flip. */
export interface FlipStory {
  bit: number | null;
  class: string;
  end: string;
  /** The function; empty if the module has no symbols. */
  function: string;
  /** What was flipped: `rax: 0x1 → 0x3`. */
  hit: string;
  id: number;
  instruction: string;
  kind: string;
  module: string;
  offset: number;
  outcome: string;
  /** Instructions that ran before. */
  position: number | null;
  /** The commands that repeat it alone, and under gdb; empty if it cannot be repeated. */
  replay: string;
  replay_gdb: string;
  source: string;
  /** Index of the variant. */
  variant: number;
  wrong_output: WrongOutput | null;
}

export interface FlipView {
  protocol: string;
  seed: number;
  /** Undetected flips; of a running process, the first flips. */
  stories: FlipStory[];
  /** Undetected flips that are not in `stories`, because there are too many. */
  stories_left_out: number;
  variants: VariantView[];
}

/** Response times of cases. */
export interface Latency {
  max_us: number;
  min_us: number;
  p50_us: number;
  p95_us: number;
}

/** `from` depends on `to`; both are indices of nodes. */
export interface MapEdge {
  /** Listen address of `to`: `:8080` or a path. */
  at: string;
  closed: number;
  established: number;
  /** Never established: refused, timed out, unreachable. */
  failed: number;
  from: number;
  open_at_end: number;
  opened: number;
  /** Both ends were observed. */
  paired: boolean;
  protocol: string;
  received_bytes: number;
  sent_bytes: number;
  /** `ebpf`, `polling`, `tuples`. */
  source: string;
  to: number;
  /** Passes an address translation or a proxy that is not shown. */
  translated: boolean;
}

export interface MapNode {
  /** Column and row of a layout that changes little when nodes come and go; none for nodes without edges. */
  column: number | null;
  hosts: string[];
  /** The same in every map of the same node. */
  id: string;
  /** `host`, `container`, `unit`, `program`, `process`, `external`. */
  kind: string;
  label: string;
  /** Ports and paths it listens on. */
  listens: string[];
  processes: number;
  row: number | null;
}

export interface MapView {
  edges: MapEdge[];
  nodes: MapNode[];
}

/** A note for readers. A warning limits what the figures of the run mean. */
export interface Note {
  is_warning: boolean;
  text: string;
}

/** How a case ended, as it is counted. */
export type Outcome = 'fail' | 'unknown' | 'pass' | 'unaffected';

export type PlainBlock =
  | {
      block: 'line';
      text: string;
    }
  | {
      block: 'table';
      columns: string[];
      rows: string[][];
    };

export interface PlainView {
  blocks: PlainBlock[];
}

/** A fault of the plan. */
export interface PlannedFault {
  /** In the notation of `--fault`. */
  fault: string;
  /** How often it fired in all requests. */
  fired: number;
}

export interface RecordingView {
  /** The command that records it again; empty if a command line cannot hold the request. */
  again: string;
  faults: PlannedFault[];
  /** Requests of the run that are not in `traces`, because it has too many. */
  left_out: number;
  /** The kernel's sockets during the recording; none if they were not recorded. */
  sockets: SocketsView | null;
  traces: TraceView[];
}

/** A number about one row. */
export interface RowNumber {
  row: number;
  value: number;
}

/** A text about one row. */
export interface RowText {
  row: number;
  text: string;
}

/** Metadata of a run. Times are milliseconds since the unix epoch. */
export interface RunHead {
  begin_ms: number;
  cpus: number;
  end_ms: number | null;
  id: string;
  kernel: string;
  kind: string;
  seed: number;
  /** What people type: the last eight digits of the id. */
  short_id: string;
  /** The result in a few words; empty if there is none yet. */
  summary: string;
  title: string;
  tool_version: string;
  /** `pass`, `fail` or `unknown`; none while the run is in progress, or if it was interrupted. */
  verdict: string | null;
}

/** Runs of the store, newest first. */
export interface RunList {
  /** Whether the store has more. */
  has_more: boolean;
  runs: RunHead[];
  /** Version of this format. */
  version: number;
}

/** How far an unfinished run is. */
export interface RunProgress {
  /** Completed cases or flips. */
  done: number;
  /** Failing cases, or undetected flips. */
  failed: number;
  run: string;
}

/** The whole view of a run. */
export interface RunView {
  content: Content;
  notes: Note[];
  run: RunHead;
  /** Version of this format. */
  version: number;
}

/** A share of the errors from 0 to 1, with its 95 % interval. */
export interface ShareView {
  high: number;
  low: number;
  share: number;
}

/** A fault of one or several spaces: a column of the table. Equal faults of different spaces share it. */
export interface SiteColumn {
  failed_when_fired: number;
  /** In the notation of `--fault`. */
  fault: string;
  fired: number;
  kind: string;
  /** Short: `Convert#3`. */
  label: string;
  /** Cases in which it was planned, in which it fired, and of those the failing ones. */
  planned: number;
  /** The service whose calls are faulted. */
  service: string;
  /** Indices of spaces that plan it. */
  spaces: number[];
}

/** One dependency as messages and sockets show it. */
export interface SocketRow {
  calls: number;
  connections: number;
  from: string;
  /** `both`, `sockets`, `messages`. */
  observed_by: string;
  /** Why only one of them contains it. */
  reason: string;
  to: string;
}

/** Connections during a run, compared with its recorded calls. */
export interface SocketsView {
  map: MapView;
  remarks: string[];
  rows: SocketRow[];
}

/** The number of cases of a behavior in one space. */
export interface SpaceCount {
  cases: number;
  /** Index of the space. */
  space: number;
}

/** A fault space and its counts. */
export interface SpaceView {
  /** What its cases are, in words. */
  about: string;
  behaviors: number;
  cases: number;
  duration_s: number;
  failures: number;
  /** The smallest failing combinations tested, each as columns of the behavior table. */
  minimal: number[][];
  /** Smallest combinations that are not in `minimal`, because there are too many. */
  minimal_left_out: number;
  name: string;
  passes: number;
  /** Passes in which no fault was reached. */
  unaffected: number;
  unknown: number;
}

export interface SweepView {
  behaviors: Behavior[];
  /** The most harmful first; without the hard dependencies. */
  bugs: BugView[];
  columns: SiteColumn[];
  /** Calls and duration of the request without faults. */
  good_calls: number;
  good_services: number;
  good_us: number | null;
  hard_dependencies: BugView[];
  /** When a reply is correct. */
  oracle: string;
  /** gRPC codes or HTTP statuses: `grpc` or `http`. */
  protocol: string;
  /** Cases that were sent again because a service crashed. */
  repeated: number;
  request: string;
  /** The kernel's sockets during the sweep; none if they were not recorded. */
  sockets: SocketsView | null;
  spaces: SpaceView[];
  unexplained: UnexplainedView[];
}

/** Counts of outcomes. */
export interface TallyView {
  detected_by_hardening: number;
  /** Crash, hang or error. */
  detected_otherwise: number;
  no_effect: number;
  /** Nothing could be flipped. */
  not_flipped: number;
  not_judged: number;
  /** Corrupt output that a client would accept. */
  undetected: number;
}

/** Times are ticks since the request was sent. */
export interface TraceView {
  callee_end_ticks: U32Column;
  /** The callee's own part; none without a history. */
  callee_start_ticks: U32Column;
  /** µs that a call spent on a connection of its own. */
  connect_us: RowNumber[];
  depth: U32Column;
  end_ticks: U32Column;
  /** The last moment of any row. */
  extent_ticks: number;
  /** Faults that fired, in the notation of `--fault`. */
  faults: RowText[];
  /** Bits: 1 gap, 2 inherited, 4 faults off at the callee, 8 HTTP, 16 the callee's history is recorded. */
  flags: U8Column;
  /** Why something may be missing at a row. */
  gaps: RowText[];
  /** Index into `labels`. */
  label: U32Column;
  /** For display: routes, or names of methods. */
  labels: string[];
  /** Index into `names`. */
  name: U32Column;
  /** The callers' names for the calls, which fault selectors match. */
  names: string[];
  /** 0 ok, 1 error status, 2 failed without a reply, 3 open. */
  outcome: U8Column;
  /** The row of the call that caused this one; none for row 0. */
  parent: U32Column;
  /** Index into `peers`. */
  peer: U32Column;
  peers: string[];
  /** Number of rows. Row 0 is the request itself. */
  rows: number;
  /** The callee: index into `services`. */
  service: U32Column;
  services: string[];
  start_ticks: U32Column;
  /** HTTP status or gRPC code; none if open. */
  status: U32Column;
  trace_id: string;
  /** µs per tick: 1, unless the request took longer than 71 minutes. */
  us_per_tick: number;
}

/** Unsigned 32-bit numbers, little-endian, in base64; 4294967295 stands for no value. */
export type U32Column = string;

/** Unsigned bytes in base64. */
export type U8Column = string;

/** Failing cases that belong to no bug. */
export interface UnexplainedView {
  again: string;
  failing_cases: number;
  faults: string[];
  reason: string;
  spaces: string[];
}

/** One program of the campaign. */
export interface VariantView {
  by_bit: FlipSlice[];
  by_class: FlipSlice[];
  by_function: FlipSlice[];
  command: string;
  controls_deviating: number;
  controls_run: number;
  cpu_s: number;
  distinct_instructions: number;
  golden_bytes: number;
  instructions: number;
  name: string;
  replies: number;
  rows: FlipRow[];
  tally: TallyView;
  wall_s: number;
}

/** The first wrong output of a flip, as text with escapes. */
export interface WrongOutput {
  actual: string;
  /** The first byte of it that differs. */
  byte: number;
  connection: string;
  connections: number;
  expected: string;
  replies: number;
  /** Messages between the flip and this one; none if unknown. */
  replies_since: number | null;
  /** Index of the message, from 0, and the number of messages on that connection. */
  reply: number;
}
