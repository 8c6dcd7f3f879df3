//! The page of a recording: each request as a timeline, the planned faults and whether they fired, the services.

use crate::escape::{put, text};
use crate::notes::{self, Note};
use crate::page::{self, Page, Section};
use crate::services::Services;
use crate::words::{self, count, counted, duration};
use crate::{RecordingReport, graph, map, timeline};
use model::trace::Trace;

const ROWS: usize = 800;
const ROWS_LATER: usize = 60;
const TRACES: usize = 100;

pub(crate) fn html(report: &RecordingReport) -> String {
    let RecordingReport { run, traces, faults, sockets, .. } = *report;
    let services = Services::of(traces.iter());
    let remarks = notes(report);
    let warnings = remarks.iter().filter(|n| n.warns).count() as u64;
    let calls: u64 = traces.iter().map(|t| t.walk().len() as u64).sum();
    let failed: u64 = traces.iter().map(|t| t.walk().into_iter().filter(|c| words::failed(c)).count() as u64).sum();
    let messages: u64 = traces.iter().map(|t| t.messages() as u64).sum();
    let mut lead = String::from("<p class=lead>");
    if run.verdict.is_some() {
        lead.push_str(&page::verdict(run.verdict));
    }
    put!(
        lead,
        "<strong>{}</strong> {}, {} failed, {} messages</p>",
        counted(traces.len() as u64, "request"),
        counted(calls, "call"),
        count(failed),
        count(messages)
    );
    if warnings > 0 {
        put!(lead, "<p class=caution><a href=#notes>! {} before you rely on this</a></p>", counted(warnings, "note"));
    }

    let mut body = String::from(
        "<p class=sum>Light bars: the call as recorded by its caller; dark inside: the callee's own part.</p>",
    );
    if traces.is_empty() {
        body = "<p class=none>No request was recorded.</p>".to_owned();
    }
    for (i, trace) in traces.iter().enumerate().take(TRACES) {
        let rows = if i < 4 { ROWS } else { ROWS_LATER };
        put!(
            body,
            "<details class=trace{}><summary>{}</summary>{}</details>",
            if i < 4 { " open" } else { "" },
            heading(trace),
            timeline::single(trace, &services, rows)
        );
    }
    if traces.len() > TRACES {
        put!(body, "<p class=note>{} not drawn.</p>", counted((traces.len() - TRACES) as u64, "further request"));
    }
    let mut sections = vec![Section {
        id: "requests",
        title: if traces.len() == 1 { "The request" } else { "Requests" },
        figure: count(traces.len() as u64),
        body,
    }];
    if !faults.is_empty() {
        let mut list = String::from("<ul class=\"faults planned\">");
        for (i, fault) in faults.iter().enumerate() {
            let n = times_fired(traces, i);
            let words = if n == 0 {
                "<b class=never>never fired</b>".to_owned()
            } else {
                format!(
                    "<b class=ko>fired {}</b>",
                    if n == 1 { "once".to_owned() } else { format!("{} times", count(n)) }
                )
            };
            put!(list, "<li><span class=fx>↯{}</span> <code>{}</code> {words}", i + 1, text(&fault.to_string()));
        }
        list.push_str("</ul>");
        sections.push(Section { id: "faults", title: "Faults", figure: count(faults.len() as u64), body: list });
    }
    if !traces.is_empty() {
        let all: Vec<&Trace> = traces.iter().collect();
        sections.push(Section {
            id: "services",
            title: "Services",
            figure: String::new(),
            body: graph::svg(&all, &[], &services),
        });
    }
    if let Some(sockets) = sockets {
        sections.push(map::compared(&sockets));
    }
    sections.push(Section {
        id: "notes",
        title: "Before you rely on this",
        figure: if warnings > 0 { format!("! {warnings}") } else { String::new() },
        body: notes::list(&remarks),
    });
    page::render(&Page {
        run,
        kind: "recording",
        title: &run.title,
        lead,
        facts: page::run_facts(run),
        sections,
        data: serde_json::json!({ "spaces": [] }),
    })
}

/// What limits the meaning of the figures.
pub(crate) fn notes(report: &RecordingReport) -> Vec<Note> {
    let RecordingReport { run, traces, left_out, faults, .. } = *report;
    let mut remarks = notes::of_run(run);
    for (i, trace) in traces.iter().enumerate().take(TRACES) {
        let name = if traces.len() == 1 { "the request".to_owned() } else { format!("request {}", i + 1) };
        remarks.extend(notes::of_trace(trace, &name));
    }
    if left_out > 0 {
        let words = format!(
            "{} of this run are not part of this page, which would be too large; the figures here are those of the first {}.",
            counted(left_out, "further request"),
            counted(traces.len() as u64, "request")
        );
        remarks.push(Note { warns: true, words });
    }
    let status = if traces.iter().any(Trace::is_truncated) {
        "is not recorded as fired; a history was truncated, so it may have."
    } else {
        "never fired: no call matched it, or its condition never held."
    };
    for (i, fault) in faults.iter().enumerate().filter(|(i, _)| times_fired(traces, *i) == 0) {
        remarks.push(Note { warns: true, words: format!("Fault ↯{} {fault} {status}", i + 1) });
    }
    remarks.push(Note {
        warns: false,
        words:
            "Clocks of different services are never compared: a callee's part of a bar is centered in its caller's bar."
                .to_owned(),
    });
    remarks
}

/// How often a fault fired in all requests.
pub(crate) fn times_fired(traces: &[Trace], fault: usize) -> u64 {
    let calls = traces.iter().flat_map(|trace| std::iter::once(&trace.entry).chain(trace.walk()));
    calls.filter(|call| call.fault == Some(fault)).count() as u64
}

fn heading(trace: &Trace) -> String {
    let entry = &trace.entry;
    let class = if entry.is_ok() { "ok" } else { "ko" };
    format!(
        "<b>{}</b> <b class={class}>{}</b> {} · {} · trace <code>{}</code>",
        text(entry.label()),
        text(&words::outcome(entry)),
        entry.duration_us().map_or(String::new(), duration),
        counted(trace.walk().len() as u64, "call"),
        text(&trace.trace_id)
    )
}
