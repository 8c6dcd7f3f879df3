//! Draws a map from what hosts observed, and compares two ranges of time.

use super::{GRAPH, NAME};
use crate::spec::Version;
use crate::text::{printable, time};
use crate::time_arg::now_ms;
use crate::{Context, Event, external_names, register_schema, snapshot};
use flowdb::FlowDb;
use flows::{Graph, Losses, Slice};
use map::{By, Change, Direction, Map, changes, neighborhood};
use model::{Failure, Run, Verdict};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;
use std::future::Future;
use std::path::{Path, PathBuf};
use std::pin::Pin;

/// A map: its source, its range of time, and the part to show.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct MapSpec {
    pub version: Version<1>,
    /// Only the neighborhood of this: a service, host, address, `address:port`, `:port`, pid, unit or container.
    #[serde(default)]
    pub of: Option<String>,
    #[serde(default)]
    pub direction: MapDirection,
    /// Number of edges to follow from `of`.
    #[serde(default = "one")]
    #[schemars(range(max = 1000))]
    pub hops: u64,
    /// What a node represents.
    #[serde(default)]
    #[schemars(with = "MapBy")]
    pub by: By,
    pub range: Range,
    pub source: Source,
    /// Resolve external addresses to names. Each query leaves the host.
    #[serde(default)]
    pub resolve: bool,
    /// Store the map as a run.
    #[serde(default)]
    pub save: bool,
}

register_schema!("map", MapSpec);

fn one() -> u64 {
    1
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum MapDirection {
    #[default]
    Both,
    DependsOn,
    DependedBy,
}

/// What a node represents.
#[derive(JsonSchema)]
#[serde(rename_all = "lowercase")]
#[allow(dead_code)]
enum MapBy {
    Process,
    Service,
    Host,
}

/// In milliseconds since the epoch, UTC.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Range {
    pub from_ms: i64,
    pub to_ms: i64,
}

/// Source of the observations.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Source {
    /// The sockets of this host as they are now, without an agent.
    Snapshot,
    /// The database of this host's agent.
    Agent { database: PathBuf },
    /// The store of a fleet: `postgres://user@host/name`.
    Database { url: String },
    /// The agents of other hosts; the file lists address, fingerprint and token of each.
    Hosts { file: PathBuf },
}

/// Observations of a range, and warnings about how they were collected.
pub struct Observed {
    pub slice: Slice,
    pub remarks: Vec<String>,
}

pub type Observing<'a> = Pin<Box<dyn Future<Output = Result<Observed, Failure>> + Send + 'a>>;

/// Queries the agents of other hosts. The network protocol belongs to a layer above the use cases.
pub trait HostQuery: Sync {
    fn query<'a>(&'a self, file: &'a Path, range: Range) -> Observing<'a>;
}

/// A map, and its run if it was saved.
pub struct DrawnMap {
    pub slice: Slice,
    pub graph: Graph,
    pub run: Option<Run>,
}

/// Observations for a map.
///
/// # Errors
/// Environment if the source cannot be read, unknown if it has no data for this range.
pub async fn observe(
    context: &Context,
    source: &Source,
    range: Range,
    hosts: &dyn HostQuery,
) -> Result<Observed, Failure> {
    match source {
        Source::Snapshot => {
            let (slice, remarks) = snapshot::collect()?;
            Ok(Observed { slice, remarks })
        }
        Source::Database { url } => read(url, range).await,
        Source::Hosts { file } => hosts.query(file, range).await,
        Source::Agent { database } if !database.exists() => Err(no_agent(context, database)),
        Source::Agent { database } => read(&database.to_string_lossy(), range).await,
    }
}

async fn read(location: &str, range: Range) -> Result<Observed, Failure> {
    let flowdb = FlowDb::read(location).await?;
    let slice = flowdb.slice(range.from_ms, range.to_ms).await?;
    if slice.hosts.is_empty() {
        let hosts = flowdb.hosts().await?;
        let last = hosts.iter().max_by_key(|host| host.last_ms);
        let why = last.map_or("the store has no windows at all".to_owned(), |host| {
            format!("the last window of {} ends at {}", host.name, time(host.last_ms))
        });
        flowdb.close().await;
        return Err(Failure::unknown("there are no observations of that time")
            .why(why)
            .next("choose another time (--last 1d), or check that the agent runs"));
    }
    flowdb.close().await;
    Ok(Observed { slice, remarks: Vec::new() })
}

fn no_agent(context: &Context, database: &Path) -> Failure {
    Failure::environment("no agent has run on this host yet").why(format!("there is no {}", database.display())).next(
        format!(
            "start one: {} (a systemd unit: {} unit); or take a snapshot: {} --now",
            context.command("agent"),
            context.command("agent"),
            context.command("map")
        ),
    )
}

/// The map that `spec` describes, from `observed`.
pub async fn draw(context: &Context, spec: &MapSpec, observed: Observed) -> Result<DrawnMap, Failure> {
    let mut whole = Map::of(&observed.slice, spec.by);
    whole.graph.remarks.extend(observed.remarks.iter().cloned());
    let mut graph = part(&whole, spec)?;
    if spec.resolve {
        external_names::resolve(&mut graph).await;
    }
    let run = if spec.save { Some(save(context, spec, &observed.slice, &graph).await?) } else { None };
    Ok(DrawnMap { slice: observed.slice, graph, run })
}

/// Two maps and their differences.
pub struct ChangedMap {
    pub before: Graph,
    pub after: Graph,
    pub changes: Vec<Change>,
    pub remarks: Vec<String>,
}

pub fn compare_ranges(spec: &MapSpec, before: &Observed, after: &Observed) -> Result<ChangedMap, Failure> {
    let (old, new) = (Map::of(&before.slice, spec.by), Map::of(&after.slice, spec.by));
    // the node may exist in one of the ranges only
    let (old, new) = match (part(&old, spec), part(&new, spec)) {
        (Err(failure), Err(_)) => return Err(failure),
        (old, new) => (old.unwrap_or_default(), new.unwrap_or_default()),
    };
    let changes = changes(&old, &new);
    let remarks = new.remarks.iter().chain(&before.remarks).chain(&after.remarks).cloned().collect();
    Ok(ChangedMap { before: old, after: new, changes, remarks })
}

/// The neighborhood of the node that `spec` names, else everything.
fn part(map: &Map, spec: &MapSpec) -> Result<Graph, Failure> {
    let Some(of) = &spec.of else { return Ok(map.graph.clone()) };
    let direction = match spec.direction {
        MapDirection::DependsOn => Direction::DependsOn,
        MapDirection::DependedBy => Direction::DependedBy,
        MapDirection::Both => Direction::Both,
    };
    Ok(neighborhood(&map.graph, &map.find(of)?, direction, spec.hops as usize))
}

/// What is stored as a map's spec. The JSON names must not change.
#[derive(Serialize)]
struct StoredSpec<'a> {
    by: By,
    of: Option<&'a str>,
    from_ms: i64,
    to_ms: i64,
}

async fn save(context: &Context, spec: &MapSpec, slice: &Slice, graph: &Graph) -> Result<Run, Failure> {
    let store = context.store().await?;
    let of = spec.of.as_deref();
    let stored = StoredSpec { by: spec.by, of, from_ms: slice.from_ms, to_ms: slice.to_ms };
    let what = of.map_or(String::new(), |of| format!(" of {}", printable(of)));
    let title = format!("map{what}, {}", range_text(slice));
    let (mut run, dir) = store.begin(NAME, &title, json!(stored), 0).await?;
    context.emit(Event::Started { run: run.id, kind: run.kind.clone() });
    dir.write_json("slice.json", slice)?;
    dir.write_json(GRAPH, graph)?;
    let mut losses = Losses::default();
    slice.hosts.iter().for_each(|host| losses.add(&host.losses));
    // a lost flow may have been any dependency
    let verdict = if losses.flows_missing() { Verdict::Unknown } else { Verdict::Pass };
    let summary = json!({"nodes": graph.nodes.len(), "edges": graph.edges.len(), "hosts": slice.hosts.len()});
    store.finish(&mut run, verdict, summary).await?;
    context.emit(Event::Done { run: run.id, kind: run.kind.clone(), verdict });
    Ok(run)
}

/// `2026-11-21 19:00:00Z … 20:00:00Z`.
pub fn range_text(slice: &Slice) -> String {
    let [from, to] = [slice.from_ms, slice.to_ms].map(time);
    let to = if from[..10] == to[..10] { to[11..].to_owned() } else { to };
    format!("{from} … {to}")
}

impl Range {
    /// The range of equal length that ends at `end_ms`.
    pub fn ending_at(self, end_ms: i64) -> Range {
        Range { from_ms: end_ms - (self.to_ms - self.from_ms), to_ms: end_ms }
    }

    /// The last `length_ms` until now.
    pub fn last(length_ms: i64) -> Range {
        let to_ms = now_ms();
        Range { from_ms: to_ms - length_ms, to_ms }
    }
}
