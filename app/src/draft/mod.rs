//! Drafts a target file from files and processes that exist already, with a reason for every line.
//!
//! Each source (a compose file, Kubernetes manifests, a Procfile, a folder of start scripts, the listeners of this
//! machine) becomes a [`Draft`]: guesses, each with its source and a confidence. A value that only the user can supply
//! is a text that begins with TODO; `faultloom up` refuses it by name. Nothing is started and nothing is changed.

mod build;
mod checks;
pub mod compose;
mod compose_environment;
mod compose_ports;
mod compose_service;
mod dockerfile;
pub mod init;
pub mod kubernetes;
mod language;
pub mod listeners;
mod local_command;
mod maven;
mod node;
mod port_text;
pub mod procfile;
pub mod scripts;
pub mod yaml;

pub use build::Build;
pub use checks::ProposedCheck;
pub use local_command::go_package;

use serde_json::{Value, json};
use target::{Sdk, UNKNOWN};

/// The JSON Schema of target files, for editors.
pub const SCHEMA: &str = include_str!("../../../spec/target.schema.json");

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Confidence {
    /// It is in the source.
    Stated,
    /// It follows from a convention that is rarely broken.
    Likely,
    /// The user should check it.
    Guess,
    /// Only the user can supply it.
    Open,
}

impl Confidence {
    pub fn name(self) -> &'static str {
        match self {
            Confidence::Stated => "stated",
            Confidence::Likely => "likely",
            Confidence::Guess => "guess",
            Confidence::Open => "TODO",
        }
    }
}

#[derive(Clone, Debug)]
pub struct Guess<T> {
    pub value: T,
    pub from: String,
    pub confidence: Confidence,
}

pub fn stated<T>(value: T, from: impl Into<String>) -> Guess<T> {
    Guess { value, from: from.into(), confidence: Confidence::Stated }
}

pub fn likely<T>(value: T, from: impl Into<String>) -> Guess<T> {
    Guess { value, from: from.into(), confidence: Confidence::Likely }
}

pub fn guess<T>(value: T, from: impl Into<String>) -> Guess<T> {
    Guess { value, from: from.into(), confidence: Confidence::Guess }
}

/// A value that only the user can supply. The file and `up` show `question`.
pub fn open(question: &str, from: impl Into<String>) -> Guess<String> {
    Guess { value: format!("{UNKNOWN}: {question}"), from: from.into(), confidence: Confidence::Open }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Command {
    Words(Vec<String>),
    Shell(String),
}

impl Command {
    pub fn json(&self) -> Value {
        match self {
            Command::Words(words) => json!(words),
            Command::Shell(text) => json!(text),
        }
    }
}

#[derive(Debug)]
pub struct Service {
    pub name: String,
    /// `None`: attached, something else starts it.
    pub command: Option<Guess<Command>>,
    /// Why it is attached, and what starts it.
    pub attached: Option<String>,
    pub directory: Option<Guess<String>>,
    pub sdk: Guess<Sdk>,
    pub environment: Vec<(String, Guess<String>)>,
    pub listens: Vec<Guess<String>>,
    /// `http`, `tcp` or `grpc`, and its address.
    pub health: Option<Guess<(&'static str, String)>>,
    pub support: Option<Guess<bool>>,
    pub start_timeout_s: Option<Guess<u64>>,
    /// The command to run before its first start.
    pub build: Option<Build>,
}

impl Service {
    pub fn new(name: impl Into<String>, sdk: Guess<Sdk>) -> Service {
        Service {
            name: name.into(),
            command: None,
            attached: None,
            directory: None,
            sdk,
            environment: Vec::new(),
            listens: Vec::new(),
            health: None,
            support: None,
            start_timeout_s: None,
            build: None,
        }
    }

    /// Everything but the environment, in the order of the file.
    pub fn fields(&self) -> Vec<(&'static str, Value, &str, Confidence)> {
        let mut fields: Vec<(&'static str, Value, &str, Confidence)> = Vec::new();
        let mut add = |key, value, from, confidence| fields.push((key, value, from, confidence));
        if let Some(guess) = &self.command {
            add("command", guess.value.json(), guess.from.as_str(), guess.confidence);
        }
        if let Some(guess) = &self.directory {
            add("directory", json!(guess.value), guess.from.as_str(), guess.confidence);
        }
        add("sdk", json!(self.sdk.value.name()), self.sdk.from.as_str(), self.sdk.confidence);
        if let Some(first) = self.listens.first() {
            let values: Vec<&str> = self.listens.iter().map(|listen| listen.value.as_str()).collect();
            let worst = self.listens.iter().find(|listen| listen.confidence == Confidence::Open).unwrap_or(first);
            add("listens", json!(values), worst.from.as_str(), worst.confidence);
        }
        if let Some(guess) = &self.health {
            add("health", json!({guess.value.0: guess.value.1}), guess.from.as_str(), guess.confidence);
        }
        if let Some(guess) = &self.start_timeout_s {
            add("start_timeout_s", json!(guess.value), guess.from.as_str(), guess.confidence);
        }
        if let Some(guess) = &self.support {
            add("support", json!(guess.value), guess.from.as_str(), guess.confidence);
        }
        fields
    }
}

#[derive(Debug)]
pub struct Draft {
    /// The source, as the user names it.
    pub source: String,
    pub name: Guess<String>,
    pub entry: Option<Guess<String>>,
    pub services: Vec<Service>,
    /// Commands that start attached services.
    pub starts: Vec<String>,
    /// Values of Secrets, so that only the owner of the file may read it.
    pub contains_secrets: bool,
    /// Proposed as comments, since only the user knows whether they must always hold.
    pub checks: Vec<ProposedCheck>,
    /// Parts of the source that were ignored, and other remarks.
    pub notes: Vec<String>,
}

impl Draft {
    pub fn new(source: impl Into<String>, name: Guess<String>) -> Draft {
        Draft {
            source: source.into(),
            name,
            entry: None,
            services: Vec::new(),
            starts: Vec::new(),
            contains_secrets: false,
            checks: Vec::new(),
            notes: Vec::new(),
        }
    }

    /// Values that the user has to supply before the target can be used: each with its key and the question.
    pub fn todos(&self) -> Vec<String> {
        let mut todos = Vec::new();
        let mut add = |at: String, value: &Value| {
            let texts = value.as_array().cloned().unwrap_or_else(|| vec![value.clone()]);
            for text in texts.iter().filter_map(Value::as_str).filter(|text| text.starts_with(UNKNOWN)) {
                todos.push(format!("{at}: {}", text[UNKNOWN.len()..].trim_start_matches([':', ' '])));
            }
        };
        for service in &self.services {
            for (key, value, ..) in service.fields() {
                add(format!("{key} of service '{}'", service.name), &value);
            }
            for (name, guess) in &service.environment {
                add(format!("environment {name} of service '{}'", service.name), &json!(guess.value));
            }
        }
        todos
    }

    /// Languages with an SDK, and how many services are in each.
    pub fn languages(&self) -> Vec<(Sdk, usize)> {
        let count = |sdk: Sdk| self.services.iter().filter(|service| service.sdk.value == sdk).count();
        let all = [Sdk::Go, Sdk::Java, Sdk::Python, Sdk::Node];
        all.into_iter().map(|sdk| (sdk, count(sdk))).filter(|(_, count)| *count > 0).collect()
    }

    /// Makes names unique and replaces characters that a target file does not allow.
    pub fn normalize_names(&mut self) {
        self.name.value = allowed(&self.name.value, "app");
        let mut used: Vec<String> = Vec::new();
        for service in &mut self.services {
            let plain = allowed(&service.name, "service");
            let mut name = plain.clone();
            let mut number = 2;
            while used.contains(&name) {
                name = format!("{plain}-{number}");
                number += 1;
            }
            used.push(name.clone());
            service.name = name;
        }
    }
}

fn allowed(name: &str, fallback: &str) -> String {
    let fits = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-');
    let name: String = name.chars().map(|c| if fits(c) { c } else { '-' }).take(48).collect();
    let name = name.trim_matches(['-', '.']);
    if name.is_empty() { fallback.to_owned() } else { name.to_owned() }
}

/// The folder's name as the name of the application.
pub fn folder_name(folder: &std::path::Path) -> Guess<String> {
    let folder = folder.canonicalize().unwrap_or_else(|_| folder.to_owned());
    let name = folder.file_name().map_or("app".to_owned(), |name| name.to_string_lossy().into_owned());
    likely(name, "the folder's name")
}

/// Whether the value of this environment variable should not be written into another file.
pub fn is_secret(name: &str) -> bool {
    let name = name.to_ascii_uppercase();
    ["PASSWORD", "PASSWD", "SECRET", "TOKEN", "CREDENTIAL", "PRIVATE", "API_KEY", "APIKEY", "ACCESS_KEY"]
        .iter()
        .any(|word| name.contains(word))
}
