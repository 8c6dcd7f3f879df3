//! Compares two ranges of time.

use super::part::{MapBy, MapDirection, Part, one};
use super::source::{HostQuery, Observed, Range, Source, observe};
use crate::spec::Version;
use crate::{Context, register_schema};
use flows::{Graph, Slice};
use map::{By, Change, Map, changes};
use model::Failure;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;

/// Two ranges of time to compare: their source, and the part of the maps to compare.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ChangedSinceSpec {
    pub version: Version<1>,
    /// Only the neighborhood of this: a service, host, address, `address:port`, `:port`, pid, unit or container. It may
    /// exist in one of the ranges only.
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
    /// The earlier range.
    pub before: Range,
    /// The later range.
    pub after: Range,
    /// Source of both; a snapshot has no earlier range.
    pub source: Source,
}

register_schema!("map-changed-since", ChangedSinceSpec);

/// Two maps and their differences.
pub struct ChangedMap {
    /// Its actual range is in whole minutes or hours.
    pub before_slice: Slice,
    pub after_slice: Slice,
    pub before: Graph,
    pub after: Graph,
    pub changes: Vec<Change>,
    pub remarks: Vec<String>,
}

/// The differences between the ranges of `spec`.
///
/// # Errors
/// Environment if the source cannot be read, unknown if it has no data for one of the ranges, request if `of` names
/// nothing in either of them or the source has no past, aborted if canceled.
pub async fn changed_since(
    context: &Context,
    spec: &ChangedSinceSpec,
    hosts: &dyn HostQuery,
) -> Result<ChangedMap, Failure> {
    if spec.source == Source::Snapshot {
        return Err(Failure::request("a snapshot cannot be compared with an earlier range")
            .why("it observes only the present")
            .next(format!("save maps and compare them: {} --now --save", context.command("map")))
            .field("source"));
    }
    let after = observe(context, &spec.source, spec.after, hosts).await?;
    let before = observe(context, &spec.source, spec.before, hosts).await?;
    compare(spec, before, after)
}

fn compare(spec: &ChangedSinceSpec, before: Observed, after: Observed) -> Result<ChangedMap, Failure> {
    let part = Part { of: spec.of.as_deref(), direction: spec.direction, hops: spec.hops };
    let graph = |observed: &Observed| part.select(&Map::of(&observed.slice, spec.by));
    // the node may exist in one of the ranges only
    let (old, new) = match (graph(&before), graph(&after)) {
        (Err(failure), Err(_)) => return Err(failure),
        (old, new) => (old.unwrap_or_default(), new.unwrap_or_default()),
    };
    let changes = changes(&old, &new);
    let remarks: BTreeSet<&String> = new.remarks.iter().chain(&before.remarks).chain(&after.remarks).collect();
    let remarks = remarks.into_iter().cloned().collect();
    Ok(ChangedMap { before_slice: before.slice, after_slice: after.slice, before: old, after: new, changes, remarks })
}
