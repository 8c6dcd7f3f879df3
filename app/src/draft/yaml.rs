//! A draft as a target file: every line has its source as a comment, and open questions are marked.

use super::{Confidence, Draft, ProposedCheck};
use serde_json::Value;
use std::fmt::Write;

/// `schema`: the path of the schema for editors, relative to the target file.
pub fn render(draft: &Draft, schema: &str) -> String {
    let mut out = String::new();
    let _ = writeln!(out, "# yaml-language-server: $schema={schema}");
    let _ = writeln!(
        out,
        "# Drafted by `faultloom init` from {}. Each comment names the source of its line.",
        draft.source
    );
    line(&mut out, "", "name", &Value::from(draft.name.value.as_str()), &draft.name.from, draft.name.confidence);
    match &draft.entry {
        Some(entry) => line(&mut out, "", "entry", &Value::from(entry.value.as_str()), &entry.from, entry.confidence),
        None => out += "# entry: http://127.0.0.1:8080/   # where requests go if no URL is named; not found here\n",
    }
    out += "services:\n";
    for service in &draft.services {
        let _ = writeln!(out, "  - name: {}", scalar(&service.name));
        if let Some(attached) = &service.attached {
            let _ = writeln!(out, "    # attached, so it has no command: {}", one_line(attached));
        }
        if let Some(build) = &service.build {
            let _ = writeln!(out, "    # before its first start: {}", one_line(&build.to_string()));
        }
        let mut environment_due = !service.environment.is_empty();
        for (key, value, from, confidence) in service.fields() {
            line(&mut out, "    ", key, &value, from, confidence);
            if key == "sdk" && std::mem::take(&mut environment_due) {
                out += "    environment:\n";
                for (name, guess) in &service.environment {
                    let value = Value::from(guess.value.as_str());
                    line(&mut out, "      ", &scalar(name), &value, &guess.from, guess.confidence);
                }
            }
        }
        out.push('\n');
    }
    out += &checks(&draft.checks);
    for note in &draft.notes {
        let _ = writeln!(out, "# note: {}", one_line(note));
    }
    let end = out.trim_end().len();
    out.truncate(end);
    out + "\n"
}

/// As comments: they held in one run, and whether they must always hold is known to the user.
fn checks(proposed: &[ProposedCheck]) -> String {
    let mut out = String::new();
    if proposed.is_empty() {
        out += "# checks:   # what correct replies are (docs/guides/oracles.md); proposed here once a request is recorded\n\n";
        return out;
    }
    out += "# What correct replies are (docs/guides/oracles.md). Each line held in the run that is named there; remove the\n\
            # '# ' of those that must always hold.\n# checks:\n";
    for check in proposed {
        let _ = writeln!(out, "#   - request: {}   # run {}", Value::from(check.request.as_str()), check.run);
        let _ = writeln!(out, "#     status: \"{}\"", check.status);
        if !check.rules.is_empty() {
            out += "#     calls:\n";
        }
        for rule in &check.rules {
            let _ = writeln!(out, "#       - {}", Value::from(rule.to_string()));
        }
    }
    out + "\n"
}

fn line(out: &mut String, indent: &str, key: &str, value: &Value, from: &str, confidence: Confidence) {
    let confidence = match confidence {
        Confidence::Stated => String::new(),
        other => format!(" ({})", other.name()),
    };
    let _ = writeln!(out, "{indent}{key}: {}   # {}{confidence}", flow(value), one_line(from));
}

/// Comments end with their line.
fn one_line(text: &str) -> String {
    text.split(|c: char| c.is_control()).collect::<Vec<_>>().join(" ")
}

/// On one line; JSON's quoting is YAML's.
fn flow(value: &Value) -> String {
    match value {
        Value::String(text) => scalar(text),
        Value::Array(items) => format!("[{}]", items.iter().map(Value::to_string).collect::<Vec<_>>().join(", ")),
        Value::Object(entries) => {
            let entries: Vec<String> = entries.iter().map(|(key, value)| format!("{key}: {value}")).collect();
            format!("{{{}}}", entries.join(", "))
        }
        other => other.to_string(),
    }
}

/// Without quotes if YAML parses it as a string all the same.
pub(crate) fn scalar(text: &str) -> String {
    let starts_plain = text.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_' || c == '/' || c == '.');
    let safe = text.chars().all(|c| c.is_ascii_alphanumeric() || "_./-".contains(c));
    let word = !["true", "false", "null", "yes", "no", "on", "off", "y", "n", ".", "..", ".inf", ".nan"]
        .contains(&text.to_ascii_lowercase().as_str());
    let url =
        text.starts_with("http://") && !text.contains([' ', '#', '\'', '"']) && !text.chars().any(char::is_control);
    if (starts_plain && safe && word) || url { text.to_owned() } else { Value::from(text).to_string() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_stay_texts() {
        for (text, expected) in [
            ("a/b-c.d", "a/b-c.d"),
            ("8080", "\"8080\""),
            ("yes", "\"yes\""),
            ("", "\"\""),
            ("a: b # c", "\"a: b # c\""),
            ("a\nb", "\"a\\nb\""),
            ("http://127.0.0.1:1/", "http://127.0.0.1:1/"),
        ] {
            assert_eq!(scalar(text), expected);
        }
    }
}
