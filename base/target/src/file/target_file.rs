//! The syntax of the target file: its keys, and messages about errors.
//!
//! Unknown keys and wrong types are refused with their line. The keys here and in `spec/target.schema.json` are
//! the same; a test compares them. `target.rs` interprets the values.

use model::{Failure, edit_distance};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

#[derive(Debug, Default, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct TargetFile {
    pub name: String,
    pub entry: Option<String>,
    pub tls: Option<TlsEntry>,
    pub services: Vec<ServiceEntry>,
    pub checks: Option<Vec<CheckEntry>>,
}

#[derive(Debug, Default, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct TlsEntry {
    pub cacert: Option<String>,
    pub cert: Option<String>,
    pub key: Option<String>,
    pub insecure: Option<bool>,
}

#[derive(Debug, Default, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct CheckEntry {
    pub request: String,
    pub status: Option<String>,
    pub body: Option<String>,
    pub json: Option<Vec<String>>,
    pub max_latency_ms: Option<u64>,
    pub calls: Option<Vec<String>>,
    pub after: Option<Vec<StateEntry>>,
    pub database: Option<String>,
    pub sql: Option<Vec<String>>,
    pub programs: Option<Vec<String>>,
}

#[derive(Debug, Default, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct StateEntry {
    pub request: String,
    pub json: Vec<String>,
}

#[derive(Debug, Default, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct ServiceEntry {
    pub name: String,
    pub command: Option<CommandEntry>,
    pub directory: Option<String>,
    pub sdk: Option<String>,
    pub environment: Option<BTreeMap<String, String>>,
    pub listens: Option<Vec<String>>,
    pub health: Option<HealthEntry>,
    pub start_timeout_s: Option<f64>,
    pub support: Option<bool>,
}

#[derive(Debug, Default, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct HealthEntry {
    pub http: Option<String>,
    pub tcp: Option<String>,
    pub grpc: Option<String>,
}

#[derive(Debug, Serialize)]
#[serde(untagged)]
pub(crate) enum CommandEntry {
    Words(Vec<String>),
    Shell(String),
}

impl<'de> Deserialize<'de> for CommandEntry {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<CommandEntry, D::Error> {
        struct Either;
        impl<'de> serde::de::Visitor<'de> for Either {
            type Value = CommandEntry;
            fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str("a list of words, or a text for `sh -c`")
            }
            fn visit_str<E>(self, text: &str) -> Result<CommandEntry, E> {
                Ok(CommandEntry::Shell(text.to_owned()))
            }
            fn visit_seq<A: serde::de::SeqAccess<'de>>(self, mut seq: A) -> Result<CommandEntry, A::Error> {
                let mut words = Vec::new();
                while let Some(word) = seq.next_element()? {
                    words.push(word);
                }
                Ok(CommandEntry::Words(words))
            }
        }
        deserializer.deserialize_any(Either)
    }
}

/// The value of each key, for messages about wrong types.
const VALUES: [(&str, &str); 30] = [
    ("name", "a text, such as shop"),
    ("entry", "an address for requests, such as http://127.0.0.1:8080/"),
    ("tls", "a mapping with cacert, cert and key, such as {cacert: ca.pem}"),
    ("cacert", "a PEM file of trusted certificates, relative to the target file"),
    ("cert", "a PEM file of the client's certificate, relative to the target file"),
    ("key", "a PEM file of the client's private key, relative to the target file"),
    ("insecure", "true or false"),
    ("services", "a list of services, each beginning with '- name: …'"),
    ("command", "a list of words, such as [\"./server\", \"--port\", \"8080\"], or a text that is run by `sh -c`"),
    ("directory", "a folder, relative to the target file"),
    ("sdk", "go, java, python, node or none"),
    ("environment", "a mapping of names to texts, numbers or booleans, such as {PORT: 8080}"),
    ("listens", "a list of addresses, such as [\"127.0.0.1:8080\"]"),
    ("health", "a mapping with one of http, tcp, grpc, such as {tcp: \"127.0.0.1:7001\"}"),
    ("start_timeout_s", "a number of seconds, such as 20"),
    ("support", "true or false"),
    ("http", "an address, such as http://127.0.0.1:8080/healthz"),
    ("tcp", "an address, such as 127.0.0.1:7001"),
    ("grpc", "an address, such as 127.0.0.1:7001"),
    ("checks", "a list of checks, each beginning with '- request: …'"),
    ("request", "a request, such as POST /orders"),
    ("status", "accepted status codes, such as \"200,302\""),
    ("body", "a regular expression that the body must match"),
    ("json", "a list of values, such as [\"$.size=0\"]"),
    ("max_latency_ms", "a whole number of milliseconds, such as 300"),
    ("calls", "a list of rules, such as [\"at most 1 payment/Charge\"]"),
    ("after", "a list of requests, each beginning with '- request: GET /…'"),
    ("database", "postgres://USER@HOST/NAME, or the file of an SQLite database"),
    ("sql", "a list of queries, such as [\"SELECT count(*) FROM orders => 1\"]"),
    ("programs", "a list of commands, such as [\"python3 check.py\"]"),
];

/// `file`: the path as the user wrote it; messages begin with it.
pub(crate) fn parse(text: &str, file: &str) -> Result<TargetFile, Failure> {
    serde_saphyr::from_str(text).map_err(|error| explain(text, file, error.without_snippet()))
}

fn explain(text: &str, file: &str, error: &serde_saphyr::Error) -> Failure {
    use serde_saphyr::Error;
    let (line, column) = error.location().map_or((1, 1), |at| (at.line() as usize, at.column() as usize));
    let at = format!("{file}, line {line}");
    let source = text.lines().nth(line - 1).unwrap_or_default();
    if text.trim().is_empty() {
        return Failure::request(format!("{file} is empty")).next("give it a name and services; the README shows one");
    }
    match error {
        Error::SerdeUnknownField { field, expected, .. } => {
            let failure = Failure::request(format!("{at}: unknown key '{field}'"))
                .why(format!("keys here: {}", expected.join(", ")));
            match did_you_mean(field, expected.iter().copied()) {
                Some(near) => failure.next(format!("did you mean '{near}'?")),
                None => failure.next("remove it or correct it"),
            }
        }
        Error::SerdeMissingField { field, .. } => Failure::request(format!("{at}: '{field}' is missing"))
            .why(format!("its value is {}", value_of(field).unwrap_or("a value")))
            .next(format!("add '{field}: …' there")),
        Error::DuplicateMappingKey { key, .. } => {
            Failure::request(format!("{at}: '{}' appears twice", key.as_deref().unwrap_or("a key")))
                .next("remove one of the two")
        }
        other => {
            let text = other.to_string();
            let problem = match text.split(" at line ").next().unwrap_or(&text) {
                "expected mapping start" => "a mapping (key: value) is expected here",
                "expected sequence start" => "a list is expected here",
                "expected string scalar" => "a text is expected here",
                other => other,
            };
            let key = key_before(source, column);
            // Other errors concern the YAML itself, not the type of one key.
            let about_type =
                ["a ", "expected", "invalid type", "invalid bool", "invalid float", "invalid int", "cannot des"];
            match key.and_then(|key| Some((key, value_of(key)?))) {
                Some((key, what)) if about_type.iter().any(|start| problem.starts_with(start)) => {
                    Failure::request(format!("{at}: wrong value for '{key}'"))
                        .why(format!("the line is: {}\nit must be {what}", source.trim()))
                        .next("correct the line")
                }
                _ => Failure::request(format!("{at}: {problem}"))
                    .why(format!("the line is: {}", source.trim()))
                    .next("correct the line; long texts and texts with ': ' or '#' need quotes"),
            }
        }
    }
}

/// `faultloom init` writes values that it cannot determine as texts with this prefix. They are refused until replaced.
pub const UNKNOWN: &str = "TODO";

pub(crate) fn refuse_open_values(file: &TargetFile, shown: &str) -> Result<(), Failure> {
    let mut open = Vec::new();
    let mut check = |at: String, text: &str| {
        if let Some(rest) = text.strip_prefix(UNKNOWN) {
            let question = rest.trim_start_matches([':', ' ']);
            open.push(if question.is_empty() { at } else { format!("{at}: {question}") });
        }
    };
    file.entry.iter().for_each(|text| check("entry".into(), text));
    if let Some(tls) = &file.tls {
        let files = [&tls.cacert, &tls.cert, &tls.key];
        files.into_iter().flatten().for_each(|text| check("tls".into(), text));
    }
    for service in &file.services {
        let at = |key: &str| format!("{} of service '{}'", key, service.name);
        match &service.command {
            Some(CommandEntry::Shell(text)) => check(at("command"), text),
            Some(CommandEntry::Words(words)) => words.iter().for_each(|word| check(at("command"), word)),
            None => {}
        }
        service.directory.iter().for_each(|text| check(at("directory"), text));
        service.sdk.iter().for_each(|text| check(at("sdk"), text));
        service.listens.iter().flatten().for_each(|text| check(at("listens"), text));
        for (name, text) in service.environment.iter().flatten() {
            check(at(&format!("environment {name}")), text);
        }
        let health = service.health.iter().flat_map(|health| [&health.http, &health.tcp, &health.grpc]);
        health.flatten().for_each(|text| check(at("health"), text));
    }
    match open.len() {
        0 => Ok(()),
        n => Err(Failure::request(format!("{shown} has {n} TODO{} left", if n == 1 { "" } else { "s" }))
            .why(open.join("\n"))
            .next("replace each TODO by its value, then try again")),
    }
}

fn value_of(key: &str) -> Option<&'static str> {
    VALUES.iter().find(|(name, _)| *name == key).map(|(_, what)| *what)
}

/// The key whose value begins at `column` (1-based), if it is on the same line.
fn key_before(source: &str, column: usize) -> Option<&str> {
    let end = source.char_indices().nth(column.saturating_sub(1)).map_or(source.len(), |(at, _)| at);
    let before = &source[..end];
    let colon = before.rfind(": ").or_else(|| before.trim_end().ends_with(':').then(|| before.trim_end().len() - 1))?;
    let start = before[..colon].rfind([' ', '{', ',', '-']).map_or(0, |at| at + 1);
    Some(before[start..colon].trim_matches(['"', '\'']))
}

/// The candidate that differs in at most a third of its letters, if there is one.
pub(crate) fn did_you_mean<'a>(word: &str, candidates: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    candidates
        .map(|candidate| (edit_distance(word, candidate), candidate))
        .filter(|(distance, candidate)| *distance <= (candidate.len() / 3).max(1))
        .min()
        .map(|(_, candidate)| candidate)
}
