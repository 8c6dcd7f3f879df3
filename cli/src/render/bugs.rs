//! The bugs of a sweep, the most harmful first; hard dependencies in one line; failing cases that belong to no bug.

use app::text::{plural, printable};
use model::sweep::{Bug, Ending, Harm, Unexplained};
use std::fmt::Write;

const WIDTH: usize = 90;
/// Unexplained cases that are printed with their command. `--json` and the report list all.
const UNEXPLAINED_MAX: usize = 5;

pub fn draw(bugs: &[Bug], unexplained: &[Unexplained]) -> String {
    let mut out = String::new();
    let (needed, found): (Vec<&Bug>, Vec<&Bug>) = bugs.iter().partition(|bug| bug.is_hard_dependency());
    if !bugs.is_empty() {
        let dependencies = match needed.len() {
            0 => String::new(),
            1 => ", 1 hard dependency".to_owned(),
            n => format!(", {n} hard dependencies"),
        };
        let _ = writeln!(out, " {}{dependencies}", plural(found.len() as u64, "bug"));
    }
    let mut harm = None;
    for (i, bug) in found.iter().enumerate() {
        if bug.harm.is_some() && bug.harm != harm {
            harm = bug.harm;
            let _ = writeln!(out, "\n {}", bug.harm.map_or("", heading));
        }
        one(&mut out, i, bug);
    }
    if !needed.is_empty() {
        dependencies(&mut out, &needed);
    }
    not_explained(&mut out, unexplained);
    out
}

/// Above the bugs that do this harm.
fn heading(harm: Harm) -> &'static str {
    match harm {
        Harm::StateChanged => "STATE CHANGED, AND THE USER STILL GOT AN ERROR",
        Harm::Crash => "CRASH",
        Harm::WrongContent => "WRONG OR MISSING CONTENT",
        Harm::Avoidable => "AVOIDABLE FAILURE",
        Harm::HardDependency => "HARD DEPENDENCY",
    }
}

fn one(out: &mut String, index: usize, bug: &Bug) {
    let title = printable(&bug.title);
    for (i, line) in wrapped(&title, WIDTH).into_iter().enumerate() {
        let number = if i == 0 { (index + 1).to_string() } else { String::new() };
        let _ = writeln!(out, " {number:<2} {line}");
    }
    for sentence in &bug.story {
        lines(out, sentence);
    }
    // a wrong status is a part of the title
    if !bug.violation.is_empty() && !bug.violation.starts_with("status ") {
        lines(out, &format!("Wrong: {}.", bug.violation));
    }
    if let Some(real) = &bug.real_stop {
        lines(out, &format!("{}.", real.describe()));
    }
    if let Some(log) = &bug.log {
        match &log.unreadable {
            Some(why) => lines(out, &format!("Log of {}: {why}.", log.service)),
            None => lines(out, &format!("Log of {} at that time:", log.service)),
        }
        for line in &log.lines {
            let _ = writeln!(out, "      │ {}", printable(line));
        }
    }
    let mistake = if bug.mistake.is_empty() { String::new() } else { format!("{}, ", bug.mistake) };
    let cases = plural(bug.failing_cases, "case");
    lines(out, &format!("Kind: {mistake}{}. Fails in {cases} ({}).", bug.name, bug.spaces.join(", ")));
    let _ = writeln!(out, "      again:  {}", printable(&bug.again));
}

fn lines(out: &mut String, sentence: &str) {
    for line in wrapped(&printable(sentence), WIDTH) {
        let _ = writeln!(out, "      {line}");
    }
}

/// One line, or a few: the calls whose errors are passed on, and what the user gets.
fn dependencies(out: &mut String, needed: &[&Bug]) {
    let cases: u64 = needed.iter().map(|bug| bug.failing_cases).sum();
    let names: Vec<String> = needed.iter().map(|bug| dependency(bug)).collect();
    let _ = writeln!(
        out,
        "\n HARD DEPENDENCIES (errors are passed on, nothing had happened yet; {})",
        plural(cases, "case")
    );
    lines(out, &names.join(" · "));
    for bug in needed {
        if let Some(real) = &bug.real_stop {
            lines(out, &format!("{}: {}.", dependency(bug), real.describe()));
        }
    }
    let _ = writeln!(out, "      again:  {}", printable(&needed[0].again));
}

/// `checkout → payment/Charge: 503`
fn dependency(bug: &Bug) -> String {
    let failed = &bug.failed;
    let status = match bug.trace.entry.outcome {
        model::trace::Outcome::Replied { status } if bug.ending == Some(Ending::ReturnedError) => format!(": {status}"),
        _ => String::new(),
    };
    format!("{} → {}/{}{status}", failed.caller, failed.callee, failed.call)
}

fn not_explained(out: &mut String, unexplained: &[Unexplained]) {
    if unexplained.is_empty() {
        return;
    }
    let cases: u64 = unexplained.iter().map(|one| one.failing_cases).sum();
    let _ = writeln!(out, "\n NOT EXPLAINED ({})", plural(cases, "failing case"));
    for one in unexplained.iter().take(UNEXPLAINED_MAX) {
        lines(out, &format!("{} ({}): {}.", plural(one.failing_cases, "case"), one.spaces.join(", "), one.reason));
        let _ = writeln!(out, "      again:  {}", printable(&one.again));
    }
    if unexplained.len() > UNEXPLAINED_MAX {
        let more = (unexplained.len() - UNEXPLAINED_MAX) as u64;
        let _ = writeln!(out, "      {} in the report and in --json", plural(more, "more group"));
    }
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
