//! Compares the sockets of a target with the calls that a run recorded.

use super::source::{HostQuery, Range, Source, observe};
use crate::kind::{self, Selection, StoredRun};
use crate::socket_comparison::{self, SocketComparison};
use crate::spec::Version;
use crate::{Context, register_schema};
use map::{By, Map, RecordedCalls};
use model::trace::{Call, Trace};
use model::{Failure, RunId};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};
use target::{Sdk, Target};

/// A run to compare with the sockets of its target.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct BesideSpec {
    pub version: Version<1>,
    /// Its id (any unambiguous beginning or end), or `last`.
    pub run: String,
    pub range: Range,
    pub source: Source,
}

register_schema!("map-beside", BesideSpec);

pub struct ComparedRun {
    pub run: RunId,
    pub comparison: SocketComparison,
}

/// Compares the calls of a run with the sockets, and stores the comparison with the run, for its report.
///
/// # Errors
/// Environment if the source cannot be read, unknown if it has no data for this range, request if there is no target
/// file or the run recorded no requests, aborted if canceled.
pub async fn beside(context: &Context, spec: &BesideSpec, hosts: &dyn HostQuery) -> Result<ComparedRun, Failure> {
    let observed = observe(context, &spec.source, spec.range, hosts).await?;
    let store = context.store().await?;
    let run = store.find(&spec.run).await?;
    let stored = StoredRun { dir: store.dir(run.id).lock()?, run };
    let target = target(context)?;
    let traces = kind::of(&stored.run)?.traces(context, &stored, Selection::All)?.traces;
    let mut map = Map::of(&observed.slice, By::Service);
    map.graph.remarks.extend(observed.remarks);
    let compared = map::compare(&map, &recorded_calls(&target, &traces));
    let comparison = SocketComparison { graph: compared.graph, rows: compared.rows };
    stored.dir.write_json(socket_comparison::FILE, &comparison)?;
    Ok(ComparedRun { run: stored.run.id, comparison })
}

fn target(context: &Context) -> Result<Target, Failure> {
    let file = context.target_file().ok_or_else(|| {
        Failure::request("a comparison needs the target file, which contains the ports of the services")
            .next("name it (-t FILE)")
    })?;
    Target::load(file)
}

fn recorded_calls(target: &Target, traces: &[Trace]) -> RecordedCalls {
    let every = || traces.iter().flat_map(|t| std::iter::once(&t.entry).chain(t.walk()));
    // a call that did not reach its callee has only the caller's name for the callee; other calls map it to a service
    let names: BTreeMap<&str, &str> =
        every().filter(|c| c.scope.is_some()).map(|c| (c.peer.as_str(), c.callee.as_str())).collect();
    let callee = |call: &Call| match &call.scope {
        Some(_) => call.callee.clone(),
        None => names.get(call.peer.as_str()).map_or_else(|| call.callee.clone(), |name| (*name).to_owned()),
    };
    let mut calls: BTreeMap<(String, String), u64> = BTreeMap::new();
    let mut sent: BTreeSet<(String, String)> = BTreeSet::new();
    for call in every() {
        let from = if call.number == 0 { String::new() } else { call.caller.clone() };
        let pair = (from, callee(call));
        if call.fault.is_none() {
            sent.insert(pair.clone());
        }
        *calls.entry(pair).or_default() += 1;
    }
    RecordedCalls {
        services: target
            .services()
            .iter()
            .map(|s| (s.name.clone(), s.listens.iter().map(|address| address.port).collect()))
            .collect(),
        uninstrumented: target.services().iter().filter(|s| s.sdk == Sdk::None).map(|s| s.name.clone()).collect(),
        withheld: calls.keys().filter(|pair| !sent.contains(*pair)).cloned().collect(),
        calls,
        tool: std::env::current_exe()
            .ok()
            .and_then(|path| Some(path.file_name()?.to_string_lossy().into_owned()))
            .unwrap_or_default(),
    }
}
