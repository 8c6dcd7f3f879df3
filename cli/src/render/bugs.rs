//! The bugs of a sweep.

use app::text::{plural, printable};
use model::sweep::Bug;
use std::fmt::Write;

pub fn draw(bugs: &[Bug]) -> String {
    let mut out = String::new();
    if bugs.is_empty() {
        return out;
    }
    let _ = writeln!(out, " {}", plural(bugs.len() as u64, "bug"));
    for (i, bug) in bugs.iter().enumerate() {
        let _ = writeln!(out, "\n {}  {:<12} {}", i + 1, bug.name, printable(&bug.title));
        for sentence in &bug.story {
            for line in wrapped(&printable(sentence), 90) {
                let _ = writeln!(out, "      {line}");
            }
        }
        // a wrong status is a part of the title
        if !bug.violation.is_empty() && !bug.violation.starts_with("status ") {
            for line in wrapped(&printable(&format!("Wrong: {}.", bug.violation)), 90) {
                let _ = writeln!(out, "      {line}");
            }
        }
        if let Some(real) = &bug.real_stop {
            for line in wrapped(&printable(&format!("{}.", real.describe())), 90) {
                let _ = writeln!(out, "      {line}");
            }
        }
        let _ = writeln!(
            out,
            "      Kind: {}. Fails in {} ({}).",
            bug.mistake,
            plural(bug.failing_cases, "case"),
            bug.spaces.join(", ")
        );
        let _ = writeln!(out, "      again:  {}", printable(&bug.again));
    }
    out
}

fn wrapped(text: &str, width: usize) -> Vec<String> {
    let mut lines = vec![String::new()];
    for word in text.split(' ') {
        let line = lines.last_mut().expect("begins with one line");
        if !line.is_empty() && line.chars().count() + 1 + word.chars().count() > width {
            lines.push(word.to_owned());
        } else {
            if !line.is_empty() {
                line.push(' ');
            }
            line.push_str(word);
        }
    }
    lines
}
