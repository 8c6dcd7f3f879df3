//! Draws a map from what hosts observed.

use super::part::{MapBy, MapDirection, Part, one};
use super::source::{HostQuery, Range, Source, observe, range_text};
use super::{GRAPH, NAME};
use crate::spec::Version;
use crate::text::printable;
use crate::{Context, Event, external_names, register_schema};
use flows::{Graph, Losses, Slice};
use map::{By, Map};
use model::{Failure, Run, Verdict};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;

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

/// A map, and its run if it was saved.
pub struct DrawnMap {
    pub slice: Slice,
    pub graph: Graph,
    pub run: Option<Run>,
}

/// The map that `spec` describes. A canceled one is not saved.
///
/// # Errors
/// Environment if the source cannot be read, unknown if it has no data for this range, request if `of` names nothing or
/// several nodes, aborted if canceled.
pub async fn draw(context: &Context, spec: &MapSpec, hosts: &dyn HostQuery) -> Result<DrawnMap, Failure> {
    let observed = observe(context, &spec.source, spec.range, hosts).await?;
    let mut whole = Map::of(&observed.slice, spec.by);
    whole.graph.remarks.extend(observed.remarks);
    let mut graph = Part { of: spec.of.as_deref(), direction: spec.direction, hops: spec.hops }.select(&whole)?;
    if spec.resolve {
        let resolving = async {
            external_names::resolve(&mut graph).await;
            Ok(())
        };
        context.unless_canceled("the map", resolving).await?;
    }
    let run = if spec.save { Some(save(context, spec, &observed.slice, &graph).await?) } else { None };
    Ok(DrawnMap { slice: observed.slice, graph, run })
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
