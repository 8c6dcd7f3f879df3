//! `faultloom map --beside RUN`: the sockets of the target beside the calls that a run recorded.

use crate::args::Map as MapArgs;
use crate::commands::show::read_sweep;
use crate::context::Context;
use app::text::printable;
use app::text::{grouped, plural};
use flows::{Beside, Graph, SeenBy, Slice};
use map::{Asked, By, Map, beside as compare};
use model::trace::{Call, Trace};
use model::{Exit, Failure, Run, RunKind};
use report::SocketsBeside;
use runs::RunDir;
use serde::{Deserialize, Serialize};
use serde_json::json;
use std::collections::{BTreeMap, BTreeSet};
use target::{Sdk, Target};

const FILE: &str = "sockets.json";

/// What is kept with the run for its report.
#[derive(Serialize, Deserialize)]
pub struct Kept {
    graph: Graph,
    rows: Vec<Beside>,
}

impl Kept {
    pub fn view(&self) -> SocketsBeside<'_> {
        SocketsBeside { graph: &self.graph, rows: &self.rows }
    }
}

/// The comparison that was made for this run, if any.
pub fn kept(dir: &RunDir) -> Result<Option<Kept>, Failure> {
    if dir.file(FILE).exists() { dir.read_json(FILE).map(Some) } else { Ok(None) }
}

pub async fn beside(context: &Context, args: &MapArgs, slice: &Slice, run: &str) -> Result<Exit, Failure> {
    let store = context.store().await?;
    let run = store.find(run).await?;
    let dir = store.dir(run.id).lock()?;
    let target = target(context)?;
    let map = Map::of(slice, By::Service);
    let compared = compare(&map, &asked(&target, &traces(context, &run, &dir)?));
    let kept = Kept { graph: compared.graph, rows: compared.rows };
    dir.write_json(FILE, &kept)?;
    if context.common.json {
        println!("{}", json!({"run": run.id, "rows": kept.rows, "graph": kept.graph}));
        return Ok(Exit::Pass);
    }
    let mut counts: BTreeMap<SeenBy, u64> = BTreeMap::new();
    for row in &kept.rows {
        *counts.entry(row.seen).or_default() += 1;
        if row.seen == SeenBy::Both && !args.all {
            continue;
        }
        let seen = match row.seen {
            SeenBy::Both => "both",
            SeenBy::Sockets => "sockets",
            SeenBy::Messages => "messages",
        };
        println!("{seen:<9} {} → {}   {}", printable(&row.from), printable(&row.to), printable(&row.why));
    }
    let count = |seen| counts.get(&seen).copied().unwrap_or(0);
    println!(
        "{} in both, {} only in the sockets, {} only in the messages",
        plural(count(SeenBy::Both), "edge"),
        grouped(count(SeenBy::Sockets)),
        grouped(count(SeenBy::Messages))
    );
    println!("next: {} {}", context.command("report"), run.id.short());
    Ok(Exit::Pass)
}

fn target(context: &Context) -> Result<Target, Failure> {
    let file = context.target_file().ok_or_else(|| {
        Failure::request("the target file tells which service listens where, and there is none")
            .next("name it with -t FILE")
    })?;
    Target::load(file)
}

/// Every request whose calls are kept: of a sweep the good one and those that show its bugs.
fn traces(context: &Context, run: &Run, dir: &RunDir) -> Result<Vec<Trace>, Failure> {
    match run.kind {
        RunKind::Recording => dir.records("traces.jsonl"),
        RunKind::Sweep => {
            let sweep = read_sweep(context, run, dir)?;
            Ok(std::iter::once(sweep.good).chain(sweep.bugs.into_iter().map(|bug| bug.trace)).collect())
        }
        RunKind::Map => Err(Failure::request(format!("run {} is a map: it recorded no calls", run.id.short()))
            .next("name a recording or a sweep")),
        RunKind::Flip => {
            Err(Failure::request(format!("run {} is a campaign of bit flips: it recorded no calls", run.id.short()))
                .next("name a recording or a sweep"))
        }
    }
}

fn asked(target: &Target, traces: &[Trace]) -> Asked {
    let every = || traces.iter().flat_map(|t| std::iter::once(&t.entry).chain(t.walk()));
    // a call that never reached its callee has the caller's word for it; others tell whom that means
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
    Asked {
        services: target
            .services()
            .iter()
            .map(|s| (s.name.clone(), s.listens.iter().map(|address| address.port).collect()))
            .collect(),
        silent: target.services().iter().filter(|s| s.sdk == Sdk::None).map(|s| s.name.clone()).collect(),
        withheld: calls.keys().filter(|pair| !sent.contains(*pair)).cloned().collect(),
        calls,
        tool: std::env::current_exe()
            .ok()
            .and_then(|path| Some(path.file_name()?.to_string_lossy().into_owned()))
            .unwrap_or_default(),
    }
}
