//! A drafted target file as a table: each value with its confidence and its source.

use app::draft::{Confidence, Draft, Service};
use app::text::{plural, printable};
use serde_json::Value;
use std::fmt::Write;
use target::Sdk;

pub fn table(draft: &Draft) -> String {
    let mut out = String::new();
    let languages: Vec<String> = draft
        .languages()
        .iter()
        .map(|(sdk, count)| {
            let name = match sdk {
                Sdk::Go => "Go",
                Sdk::Java => "Java",
                Sdk::Python => "Python",
                _ => "Node.js",
            };
            format!("{count} {name}")
        })
        .collect();
    let others = draft.services.iter().filter(|service| service.sdk.value == Sdk::None);
    let others: Vec<&str> = others.map(|service| service.name.as_str()).collect();
    let mut parts = languages;
    if !others.is_empty() {
        parts.push(format!("without SDK: {}", others.join(", ")));
    }
    let count = plural(draft.services.len() as u64, "service");
    let _ = writeln!(out, "{}: {count} ({})\n", printable(&draft.source), printable(&parts.join(", ")));
    let _ = writeln!(out, " {:<14} {:<9} {:<34} {:<6} guessed from", "service", "what", "value", "sure");
    let mut row = |name: &str, key: &str, value: &str, from: &str, confidence: Confidence| {
        let (name, value, from) = (cut(name, 14), cut(value, 34), printable(from));
        let _ = writeln!(out, " {name:<14} {key:<9} {value:<34} {:<6} {from}", confidence.name());
    };
    row("", "name", &draft.name.value, &draft.name.from, draft.name.confidence);
    if let Some(entry) = &draft.entry {
        row("", "entry", &entry.value, &entry.from, entry.confidence);
    }
    for service in &draft.services {
        let mut name = service.name.as_str();
        if let Some(attached) = &service.attached {
            row(name, "attached", "", attached, Confidence::Stated);
            name = "";
        }
        for (key, value, from, confidence) in service.fields() {
            // the column has no room for its name in the file
            let key = if key == "start_timeout_s" { "timeout" } else { key };
            row(std::mem::take(&mut name), key, &short(&value), from, confidence);
        }
        if !service.environment.is_empty() {
            row(
                "",
                "variables",
                &plural(service.environment.len() as u64, "variable"),
                &changed(service),
                Confidence::Stated,
            );
        }
    }
    out
}

/// The variables that were changed.
fn changed(service: &Service) -> String {
    let changed = service.environment.iter().filter(|(_, guess)| guess.confidence != Confidence::Stated);
    let names: Vec<&str> = changed.map(|(name, _)| name.as_str()).collect();
    match names.as_slice() {
        [] => "unchanged".to_owned(),
        names => format!("changed for this machine: {}", names.join(", ")),
    }
}

fn short(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Array(items) => items.iter().map(short).collect::<Vec<_>>().join(" "),
        Value::Object(entries) => {
            entries.iter().map(|(key, value)| format!("{key} {}", short(value))).collect::<Vec<_>>().join(" ")
        }
        other => other.to_string(),
    }
}

fn cut(text: &str, width: usize) -> String {
    let text = printable(text);
    match text.chars().count() > width {
        true => text.chars().take(width - 1).chain(['…']).collect(),
        false => text,
    }
}
