//! `faultloom map`: which process depends on which.

use crate::args::{Map as MapArgs, Origin, Range as RangeArgs};
use crate::commands::agent::state_directory;
use crate::commands::map_hosts::AllowedHosts;
use crate::context::Context;
use crate::render::map as render;
use agent::stores::DATABASE;
use app::kinds::map::{
    self as use_case, BesideSpec, ChangedMap, ChangedSinceSpec, ComparedRun, DrawnMap, MapDirection, MapSpec, Range,
    Source, range_text,
};
use app::spec::Version;
use app::text::{grouped, plural, printable, quoted};
use app::time_arg::now_ms;
use flows::{Losses, ObservedBy, Slice};
use map::{dot, mermaid};
use model::{Exit, Failure};
use serde_json::json;
use std::collections::BTreeMap;

/// The default range.
const LAST_MS: i64 = 3_600_000;

pub async fn map(context: &Context, args: &MapArgs) -> Result<Exit, Failure> {
    if context.common.json && (args.dot || args.mermaid) {
        return Err(Failure::request("--json, --dot and --mermaid exclude each other").next("choose one of them"));
    }
    let now_ms = now_ms();
    let range = range(&args.range, now_ms)?;
    let source = source(context, &args.origin);
    if let Some(then) = args.range.changed_since {
        let before = range.ending_at(then.ms(now_ms));
        let spec = ChangedSinceSpec {
            version: Version,
            of: args.of.clone(),
            direction: direction(args),
            hops: args.hops,
            by: args.by.by(),
            before,
            after: range,
            source,
        };
        print_changed(context, &use_case::changed_since(context, &spec, &AllowedHosts).await?);
    } else if let Some(run) = args.beside.clone() {
        let spec = BesideSpec { version: Version, run, range, source };
        print_compared(context, args, &use_case::beside(context, &spec, &AllowedHosts).await?);
    } else {
        let spec = MapSpec {
            version: Version,
            of: args.of.clone(),
            direction: direction(args),
            hops: args.hops,
            by: args.by.by(),
            range,
            source,
            resolve: args.resolve,
            save: args.save,
        };
        print_drawn(context, args, &use_case::draw(context, &spec, &AllowedHosts).await?);
    }
    Ok(Exit::Pass)
}

fn direction(args: &MapArgs) -> MapDirection {
    match (args.depends_on, args.depended_by) {
        (true, _) => MapDirection::DependsOn,
        (_, true) => MapDirection::DependedBy,
        _ => MapDirection::Both,
    }
}

fn range(range: &RangeArgs, now_ms: i64) -> Result<Range, Failure> {
    let (from_ms, to_ms) = match (range.at, range.since) {
        (Some(at), _) => (at.ms(now_ms), at.ms(now_ms)),
        (None, Some(since)) => (since.ms(now_ms), range.until.map_or(now_ms, |to| to.ms(now_ms))),
        (None, None) => (now_ms - range.last.map_or(LAST_MS, |span| span.ms), now_ms),
    };
    if from_ms > to_ms {
        return Err(
            Failure::request("the range ends before it starts").next("--from is the earlier time, --to the later")
        );
    }
    Ok(Range { from_ms, to_ms })
}

fn source(context: &Context, origin: &Origin) -> Source {
    if origin.now {
        return Source::Snapshot;
    }
    match (&origin.database, &origin.hosts) {
        (Some(url), _) => Source::Database { url: url.clone() },
        (None, Some(file)) => Source::Hosts { file: file.clone() },
        (None, None) => Source::Agent { database: state_directory(context, origin.state.as_deref()).join(DATABASE) },
    }
}

fn print_drawn(context: &Context, args: &MapArgs, drawn: &DrawnMap) {
    let (slice, graph) = (&drawn.slice, &drawn.graph);
    if args.dot {
        print!("{}", dot(graph));
    } else if args.mermaid {
        print!("{}", mermaid(graph));
    } else if context.common.json {
        let run = drawn.run.as_ref().map(|run| run.id.short());
        let mut losses = Losses::default();
        slice.hosts.iter().for_each(|host| losses.add(&host.losses));
        println!(
            "{}",
            json!({"from_ms": slice.from_ms, "to_ms": slice.to_ms, "by": args.by.by(), "of": args.of,
                "hosts": slice.hosts.len(), "losses": losses, "graph": graph, "run": run})
        );
    } else {
        print!("{}", render::table(graph, if args.all { usize::MAX } else { render::ROWS_MAX }));
        println!("{}", foot(context, args, drawn));
    }
}

/// What the table covers, and the next command.
fn foot(context: &Context, args: &MapArgs, drawn: &DrawnMap) -> String {
    let (slice, graph) = (&drawn.slice, &drawn.graph);
    let hosts = plural(slice.hosts.len() as u64, "host");
    let covered = format!("{} · {hosts} · {}", render::sizes(graph), range_text(slice));
    if let Some(run) = &drawn.run {
        let id = run.id.short();
        return format!("{covered}\nrun {id}   next: {} {id}", context.command("report"));
    }
    let busiest = graph.nodes.iter().filter(|n| !n.listens.is_empty()).max_by_key(|n| {
        (graph.edges.iter().filter(|e| e.to == n.id || e.from == n.id).count(), std::cmp::Reverse(&n.id))
    });
    let next = match (&args.of, busiest) {
        (None, Some(node)) => format!("{} {} --hops 2", context.command("map"), quoted(&node.label)),
        _ => format!("{} --save", context.command("map")),
    };
    format!("{covered}\nnext: {next}")
}

fn print_changed(context: &Context, changed: &ChangedMap) {
    let (before, after) = (&changed.before_slice, &changed.after_slice);
    if context.common.json {
        let times = |slice: &Slice| json!({"from_ms": slice.from_ms, "to_ms": slice.to_ms});
        println!("{}", json!({"before": times(before), "after": times(after), "changes": changed.changes}));
        return;
    }
    print!("{}", render::differences(&changed.before, &changed.after, &changed.changes));
    println!(
        "{} between {} and {}",
        plural(changed.changes.len() as u64, "difference"),
        range_text(before),
        range_text(after)
    );
    print_remarks(&changed.remarks);
}

fn print_compared(context: &Context, args: &MapArgs, compared: &ComparedRun) {
    let (rows, graph) = (&compared.comparison.rows, &compared.comparison.graph);
    if context.common.json {
        println!("{}", json!({"run": compared.run, "rows": rows, "graph": graph}));
        return;
    }
    let mut counts: BTreeMap<ObservedBy, u64> = BTreeMap::new();
    for row in rows {
        *counts.entry(row.observed_by).or_default() += 1;
        if row.observed_by == ObservedBy::Both && !args.all {
            continue;
        }
        let observed_by = match row.observed_by {
            ObservedBy::Both => "both",
            ObservedBy::Sockets => "sockets",
            ObservedBy::Messages => "messages",
        };
        println!("{observed_by:<9} {} → {}   {}", printable(&row.from), printable(&row.to), printable(&row.reason));
    }
    let count = |observed_by| counts.get(&observed_by).copied().unwrap_or(0);
    println!(
        "{} in both, {} only in the sockets, {} only in the messages",
        plural(count(ObservedBy::Both), "edge"),
        grouped(count(ObservedBy::Sockets)),
        grouped(count(ObservedBy::Messages))
    );
    print_remarks(&graph.remarks);
    println!("next: {} {}", context.command("report"), compared.run.short());
}

fn print_remarks(remarks: &[String]) {
    for remark in remarks {
        println!("! {}", printable(remark));
    }
}
