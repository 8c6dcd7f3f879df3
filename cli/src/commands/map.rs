//! `faultloom map`: which process depends on which.

use crate::args::{Map as MapArgs, Range};
use crate::commands::map_source::{self, Known};
use crate::context::Context;
use crate::render::map as draw;
use app::text::plural;
use app::text::quoted;
use app::time_arg::now_ms;
use flows::{Graph, Losses, Slice};
use map::{By, Direction, Map, around, changes, dot, mermaid};
use model::{Exit, Failure, RunKind, Verdict};
use serde_json::json;

/// The range if none is asked for.
const LAST_MS: i64 = 3_600_000;

pub async fn map(context: &Context, args: &MapArgs) -> Result<Exit, Failure> {
    if context.common.json && (args.dot || args.mermaid) {
        return Err(
            Failure::request("--json, --dot and --mermaid are three forms of one map").next("choose one of them")
        );
    }
    let (from_ms, to_ms) = range(&args.range, now_ms())?;
    let known = map_source::known(context, &args.origin, from_ms, to_ms).await?;
    if let Some(then) = args.range.changed_since {
        let then = then.ms(now_ms());
        let before = map_source::known(context, &args.origin, then - (to_ms - from_ms), then).await?;
        return changed(context, args, &before, &known);
    }
    let mut whole = Map::of(&known.slice, args.by.by());
    whole.graph.remarks.extend(known.remarks.iter().cloned());
    if let Some(run) = &args.beside {
        return crate::commands::beside::beside(context, args, &known.slice, run).await;
    }
    let mut graph = asked(&whole, args)?;
    if args.resolve {
        app::external_names::resolve(&mut graph).await;
    }
    let run = if args.save { Some(save(context, args, &known.slice, &graph).await?) } else { None };
    if args.dot {
        print!("{}", dot(&graph));
    } else if args.mermaid {
        print!("{}", mermaid(&graph));
    } else if context.common.json {
        println!(
            "{}",
            json!({"from_ms": known.slice.from_ms, "to_ms": known.slice.to_ms, "by": args.by.by(), "of": args.of,
                "hosts": known.slice.hosts.len(), "graph": graph, "run": run})
        );
    } else {
        print!("{}", draw::table(&graph, if args.all { usize::MAX } else { draw::ROWS_MAX }));
        println!("{}", foot(context, args, &known.slice, &graph, run.as_deref()));
    }
    Ok(Exit::Pass)
}

/// From and to, in milliseconds since the epoch.
fn range(range: &Range, now_ms: i64) -> Result<(i64, i64), Failure> {
    let (from, to) = match (range.at, range.since) {
        (Some(at), _) => (at.ms(now_ms), at.ms(now_ms)),
        (None, Some(since)) => (since.ms(now_ms), range.until.map_or(now_ms, |to| to.ms(now_ms))),
        (None, None) => (now_ms - range.last.map_or(LAST_MS, |span| span.ms), now_ms),
    };
    if from > to {
        return Err(
            Failure::request("the range ends before it begins").next("--from is the earlier one, --to the later")
        );
    }
    Ok((from, to))
}

/// The part of the graph that was asked for.
fn asked(map: &Map, args: &MapArgs) -> Result<Graph, Failure> {
    let Some(of) = &args.of else { return Ok(map.graph.clone()) };
    let direction = match (args.depends_on, args.depended_by) {
        (true, _) => Direction::DependsOn,
        (_, true) => Direction::DependedBy,
        _ => Direction::Both,
    };
    Ok(around(&map.graph, &map.find(of)?, direction, args.hops as usize))
}

fn changed(context: &Context, args: &MapArgs, before: &Known, after: &Known) -> Result<Exit, Failure> {
    let (old, new) = (Map::of(&before.slice, args.by.by()), Map::of(&after.slice, args.by.by()));
    // what is asked about may be there at one time only
    let (old, new) = match (asked(&old, args), asked(&new, args)) {
        (Err(failure), Err(_)) => return Err(failure),
        (old, new) => (old.unwrap_or_default(), new.unwrap_or_default()),
    };
    let changes = changes(&old, &new);
    if context.common.json {
        println!("{}", json!({"before": times(&before.slice), "after": times(&after.slice), "changes": changes}));
        return Ok(Exit::Pass);
    }
    print!("{}", draw::differences(&old, &new, &changes));
    println!(
        "{} between {} and {}",
        plural(changes.len() as u64, "difference"),
        span(&before.slice),
        span(&after.slice)
    );
    for remark in new.remarks.iter().chain(&before.remarks).chain(&after.remarks) {
        println!("! {}", app::text::printable(remark));
    }
    Ok(Exit::Pass)
}

fn times(slice: &Slice) -> serde_json::Value {
    json!({"from_ms": slice.from_ms, "to_ms": slice.to_ms})
}

/// `2026-11-21 19:00:00Z … 20:00:00Z`.
fn span(slice: &Slice) -> String {
    let [from, to] = [slice.from_ms, slice.to_ms].map(app::text::time);
    let to = if from[..10] == to[..10] { to[11..].to_owned() } else { to };
    format!("{from} … {to}")
}

/// What the table covers, and what can be asked next.
fn foot(context: &Context, args: &MapArgs, slice: &Slice, graph: &Graph, run: Option<&str>) -> String {
    let hosts = plural(slice.hosts.len() as u64, "host");
    let mut text = format!("{} · {hosts} · {}", draw::sizes(graph), span(slice));
    if let Some(run) = run {
        text += &format!("\nrun {run}   next: {} {run}", context.command("report"));
        return text;
    }
    let busiest = graph.nodes.iter().filter(|n| !n.listens.is_empty()).max_by_key(|n| {
        (graph.edges.iter().filter(|e| e.to == n.id || e.from == n.id).count(), std::cmp::Reverse(&n.id))
    });
    let next = match (&args.of, busiest) {
        (None, Some(node)) => format!("{} {} --hops 2", context.command("map"), quoted(&node.label)),
        _ => format!("{} --save", context.command("map")),
    };
    text + &format!("\nnext: {next}")
}

/// What a map that is kept consists of.
#[derive(serde::Serialize, serde::Deserialize)]
pub struct Question {
    pub by: By,
    pub of: Option<String>,
    pub from_ms: i64,
    pub to_ms: i64,
}

async fn save(context: &Context, args: &MapArgs, slice: &Slice, graph: &Graph) -> Result<String, Failure> {
    let store = context.store().await?;
    let by = args.by.by();
    let question = Question { by, of: args.of.clone(), from_ms: slice.from_ms, to_ms: slice.to_ms };
    let what = args.of.as_deref().map_or(String::new(), |of| format!(" of {}", app::text::printable(of)));
    let title = format!("map{what}, {}", span(slice));
    let (mut run, dir) = store.begin(RunKind::Map, &title, json!(question), 0).await?;
    dir.write_json("slice.json", slice)?;
    dir.write_json("graph.json", graph)?;
    let mut losses = Losses::default();
    slice.hosts.iter().for_each(|host| losses.add(&host.losses));
    // what was lost may have been anything
    let verdict = if losses.flows_missing() { Verdict::Unknown } else { Verdict::Pass };
    let summary = json!({"nodes": graph.nodes.len(), "edges": graph.edges.len(), "hosts": slice.hosts.len()});
    store.finish(&mut run, verdict, summary).await?;
    Ok(run.id.short())
}
