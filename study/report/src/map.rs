//! The page of a map, and a map's part of another run's page.

use crate::escape::{put, text};
use crate::notes::{self, Note};
use crate::page::{self, Page, Section};
use crate::words::{count, counted};
use crate::{ComparedSockets, MapReport, net};
use flows::{Graph, ObservedBy};

pub(crate) fn html(report: &MapReport) -> String {
    let MapReport { run, graph } = *report;
    let all = notes(graph);
    let remarks: Vec<&Note> = all.iter().filter(|note| note.warns).collect();
    let one_sided = graph.edges.iter().filter(|e| !e.paired).count() as u64;
    let mut lead = String::from("<p class=lead>");
    put!(
        lead,
        "<strong>{}</strong> {}, {} observed at one end only</p>",
        counted(graph.nodes.len() as u64, "node"),
        counted(graph.edges.len() as u64, "edge"),
        count(one_sided)
    );
    if !remarks.is_empty() {
        put!(
            lead,
            "<p class=caution><a href=#notes>! {} before you rely on this</a></p>",
            counted(remarks.len() as u64, "note")
        );
    }
    let figure = if remarks.is_empty() { String::new() } else { format!("! {}", remarks.len()) };
    let sections = vec![
        Section { id: "map", title: "Dependencies", figure: count(graph.edges.len() as u64), body: net::svg(graph) },
        Section { id: "notes", title: "Before you rely on this", figure, body: notes::list(&all) },
    ];
    page::render(&Page {
        run,
        kind: "map",
        title: &run.title,
        lead,
        facts: page::run_facts(run),
        sections,
        data: serde_json::json!({ "spaces": [] }),
    })
}

/// What limits the meaning of a map.
pub(crate) fn notes(graph: &Graph) -> Vec<Note> {
    let mut notes: Vec<Note> = graph.remarks.iter().map(|words| Note { warns: true, words: words.clone() }).collect();
    let words = "A client depends on the server that accepts its connection. Client ports are ignored: all connections \
                 of a pair of services to one port are one edge.";
    notes.push(Note { warns: false, words: words.to_owned() });
    notes
}

/// The sockets of an application, compared with its recorded calls.
pub(crate) fn compared(sockets: &ComparedSockets) -> Section {
    let with = |seen: ObservedBy| sockets.rows.iter().filter(|row| row.observed_by == seen).count() as u64;
    let (both, only_sockets, only_messages) =
        (with(ObservedBy::Both), with(ObservedBy::Sockets), with(ObservedBy::Messages));
    let mut body = format!(
        "<p class=sum>Connections of the kernel's sockets during the recording, compared with the recorded calls: {} in both, {} only in sockets, {} only in calls.</p>",
        counted(both, "edge"),
        count(only_sockets),
        count(only_messages)
    );
    body.push_str(&net::svg(sockets.graph));
    body.push_str("<div class=scroll><table class=beside><thead><tr><th>Service<th>depends on<th class=num>Recorded calls<th class=num>Connections<th>Found in<th>Reason</tr></thead><tbody>");
    for row in sockets.rows {
        let seen = match row.observed_by {
            ObservedBy::Both => "both",
            ObservedBy::Sockets => "sockets only",
            ObservedBy::Messages => "calls only",
        };
        put!(
            body,
            "<tr{}><td>{}<td>{}<td class=num>{}<td class=num>{}<td>{seen}<td>{}</tr>",
            if row.observed_by == ObservedBy::Both { "" } else { " class=differs" },
            text(&row.from),
            text(&row.to),
            if row.calls == 0 { "–".to_owned() } else { count(row.calls) },
            if row.observed_by == ObservedBy::Messages { "–".to_owned() } else { count(row.connections) },
            text(&row.reason)
        );
    }
    body.push_str("</tbody></table></div>");
    for remark in &sockets.graph.remarks {
        put!(body, "<p class=note>{}</p>", text(remark));
    }
    Section { id: "sockets", title: "Sockets and calls", figure: format!("{both} of {}", sockets.rows.len()), body }
}
