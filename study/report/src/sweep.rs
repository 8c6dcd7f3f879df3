//! The page of a sweep: bugs first, then the good request, the services, the fault spaces.

use crate::cases::Cases;
use crate::escape::{put, text};
use crate::notes;
use crate::page::{self, Page, Section};
use crate::redact;
use crate::services::Services;
use crate::words::{count, counted, duration, percent};
use crate::{SweepReport, bugs, graph, grid, map, tables, timeline};
use model::Verdict;
use model::sweep::{Space, Sweep};
use model::trace::Trace;

const ROWS: usize = 500;

pub(crate) fn html(report: &SweepReport) -> String {
    let SweepReport { run, sweep, cases, sockets } = *report;
    let failing: Vec<&Trace> = sweep.bugs.iter().map(|b| &b.trace).collect();
    let services = Services::of(std::iter::once(&sweep.good).chain(failing.iter().copied()));
    let notes = notes::of_sweep(run, sweep, cases);
    let warnings = notes.iter().filter(|n| n.warns).count() as u64;

    let mut cards = String::new();
    if sweep.bugs.is_empty() {
        put!(cards, "<p class=none>{}</p>", none_found(sweep));
    }
    for (i, bug) in sweep.bugs.iter().enumerate().filter(|(_, bug)| !bug.is_hard_dependency()) {
        cards.push_str(&bugs::card(i, bug, sweep, &services, run));
    }
    cards.push_str(&bugs::hard_dependencies(sweep, run));
    cards.push_str(&bugs::unexplained(&sweep.unexplained, run));
    let good = &sweep.good;
    let mut good_body = format!(
        "<p class=sum>{} to {}, answered in {}. Light bars: the call as recorded by its caller; dark inside: the callee's own part.</p>",
        counted(good.walk().len() as u64, "call"),
        counted(good.services().len() as u64 - 1, "other service"),
        good.entry.duration_us().map_or("unknown time".to_owned(), duration)
    );
    good_body.push_str(&timeline::single(good, &services, ROWS));

    let mut spaces = String::new();
    let mut data = Vec::new();
    for (index, space) in sweep.spaces.iter().enumerate() {
        let of = Cases::of(space, cases.iter().filter(|c| c.space == index).collect());
        spaces.push_str(&space_head(space));
        spaces.push_str(&tables::minimal_sets(space));
        spaces.push_str(&grid::space(index, &of));
        spaces.push_str(&tables::twin(&of, good.entry.protocol));
        spaces.push_str("</article>");
        data.push(of.packed());
    }
    if sweep.spaces.is_empty() {
        spaces.push_str("<p class=none>No fault space was run.</p>");
    }
    let total: u64 = sweep.spaces.iter().map(|s| s.cases).sum();
    let mut sections = vec![
        Section { id: "bugs", title: "Bugs", figure: count(found(sweep)), body: cards },
        Section {
            id: "good",
            title: "The good request",
            figure: good.entry.duration_us().map_or(String::new(), duration),
            body: good_body,
        },
        Section {
            id: "services",
            title: "Services",
            figure: count(good.services().len() as u64),
            body: graph::svg(&[good], &failing, &services) + &untouched(sweep, &services),
        },
        Section { id: "spaces", title: "Fault spaces", figure: count(total), body: spaces },
        Section {
            id: "notes",
            title: "Before you rely on this",
            figure: if warnings > 0 { format!("! {warnings}") } else { String::new() },
            body: notes::list(&notes),
        },
    ];
    if let Some(sockets) = sockets {
        // after the services, because it compares their calls with sockets
        sections.insert(3, map::compared(&sockets));
    }
    let request = redact::request(&sweep.request);
    page::render(&Page {
        run,
        kind: "sweep",
        title: &request,
        lead: lead(report, total, warnings),
        facts: page::run_facts(run),
        sections,
        data: serde_json::json!({ "request": request, "spaces": data }),
    })
}

/// Bugs, without the hard dependencies.
fn found(sweep: &Sweep) -> u64 {
    sweep.bugs.iter().filter(|bug| !bug.is_hard_dependency()).count() as u64
}

fn lead(report: &SweepReport, total: u64, warnings: u64) -> String {
    let SweepReport { run, sweep, .. } = *report;
    let sum = |of: fn(&Space) -> u64| sweep.spaces.iter().map(of).sum::<u64>();
    let (failures, unknown, unaffected, passes) =
        (sum(|s| s.failures), sum(|s| s.unknown), sum(|s| s.unaffected), sum(|s| s.passes));
    let judged = run.verdict.or(if failures > 0 {
        Some(Verdict::Fail)
    } else if unknown > 0 || total == 0 {
        Some(Verdict::Unknown)
    } else {
        Some(Verdict::Pass)
    });
    let mut out = format!("<p class=lead>{}<strong>{}</strong> ", page::verdict(judged), counted(found(sweep), "bug"));
    put!(
        out,
        "{} of {} with injected faults failed <span class=oracle>expected: {}</span></p>",
        count(failures),
        counted(total, "request"),
        text(&redact::oracle(&sweep.oracle))
    );
    if found(sweep) > 0 {
        out.push_str("<ol class=found>");
        for (i, bug) in sweep.bugs.iter().enumerate().filter(|(_, bug)| !bug.is_hard_dependency()).take(12) {
            put!(
                out,
                "<li><a href=#{}>{}</a> <span>{}</span>",
                bugs::anchor(i),
                text(&bug.title),
                text(bug.harm.map_or(bug.name.as_str(), |harm| harm.describe()))
            );
        }
        out.push_str("</ol>");
        if found(sweep) > 12 {
            put!(out, "<p class=note>and {} more below</p>", found(sweep) - 12);
        }
    }
    out.push_str(&meter(failures, unknown, unaffected, passes));
    put!(
        out,
        "<ul class=tally><li class=f><b>{}</b> ✗ fail<li class=p><b>{}</b> ✓ pass",
        count(failures),
        count(passes.saturating_sub(unaffected))
    );
    put!(
        out,
        "<li class=n><b>{}</b> · pass, no fault reached<li class=u><b>{}</b> ? unknown</ul>",
        count(unaffected),
        count(unknown)
    );
    if warnings > 0 {
        put!(out, "<p class=caution><a href=#notes>! {} before you rely on this</a></p>", counted(warnings, "note"));
    }
    out
}

/// Outcomes as one stacked bar; `passes` includes the unaffected.
fn meter(failures: u64, unknown: u64, unaffected: u64, passes: u64) -> String {
    let mut out = String::from("<div class=meter aria-hidden=true>");
    for (class, n) in [("f", failures), ("u", unknown), ("p", passes.saturating_sub(unaffected)), ("n", unaffected)] {
        if n > 0 {
            put!(out, "<i class={class} style=\"flex-grow:{n}\"></i>");
        }
    }
    out.push_str("</div>");
    out
}

fn none_found(sweep: &Sweep) -> String {
    let sum = |of: fn(&Space) -> u64| sweep.spaces.iter().map(of).sum::<u64>();
    match (sum(|s| s.cases), sum(|s| s.failures), sum(|s| s.unknown)) {
        (0, ..) => "No case was run.".to_owned(),
        (_, 0, 0) => "✓ No bug found: every request was answered as expected, despite the injected faults.".to_owned(),
        (_, 0, unknown) => format!(
            "No bug found, but {} without a verdict.",
            if unknown == 1 { "1 case is".to_owned() } else { format!("{} cases are", count(unknown)) }
        ),
        (_, failures, _) => {
            format!(
                "The {} could not be reduced to a bug; see the fault spaces below.",
                counted(failures, "failing case")
            )
        }
    }
}

/// What the cases of a space are.
pub(crate) fn about(space: &str) -> &'static str {
    match space {
        "services" => "every subset of the services that this request uses",
        "all-services" => "every subset of all services of the target",
        "temporal" => "every subset of the calls of the good request",
        "crash-points" => "one service that fails from one moment on",
        "guided" => "only cases that can show a new behavior",
        _ => "",
    }
}

fn space_head(space: &Space) -> String {
    let about = about(&space.name);
    let mut out = String::new();
    put!(out, "<article class=space><header><h3>{}</h3><p>{about}</p></header>", text(&space.name));
    out.push_str(&meter(space.failures, space.unknown, space.unaffected, space.passes));
    put!(
        out,
        "<p class=sum><b>{}</b> in {} · ",
        counted(space.cases, "case"),
        duration((space.seconds.max(0.0) * 1e6) as u64)
    );
    put!(
        out,
        "<b class=ko>{} fail</b> ({} %) · {} passed; in {} no fault was reached · {} unknown · {}</p>",
        count(space.failures),
        percent(space.failures, space.cases),
        count(space.passes),
        count(space.unaffected),
        count(space.unknown),
        counted(space.behaviors, "distinct behavior")
    );
    out
}

/// Callees with planned faults that are not part of the request.
fn untouched(sweep: &Sweep, services: &Services) -> String {
    let mut names: Vec<&str> = sweep
        .spaces
        .iter()
        .flat_map(|s| &s.sites)
        .map(|s| s.fault.selector.callee.as_str())
        .filter(|n| !n.is_empty() && !services.takes_part(n))
        .collect();
    names.sort_unstable();
    names.dedup();
    if names.is_empty() {
        return String::new();
    }
    let shown: Vec<String> = names.iter().take(40).map(|n| text(n).to_string()).collect();
    format!(
        "<p class=note>Faulted, but not part of this request: {}{}.</p>",
        shown.join(", "),
        if names.len() > 40 { " and more" } else { "" }
    )
}
