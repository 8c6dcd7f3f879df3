//! Notes that limit what the figures of a page mean: cases without a verdict, gaps in traces, passes that prove
//! nothing.

use crate::escape::{put, shorten, text};
use crate::redact;
use crate::words::{count, counted};
use model::sweep::{Case, Sweep};
use model::trace::Trace;
use model::{Run, Verdict};
use std::collections::BTreeMap;

/// A note: whether it limits what the run shows, and its text.
pub(crate) struct Note {
    pub warns: bool,
    pub words: String,
}

fn warning(words: String) -> Note {
    Note { warns: true, words: sentence(words) }
}

fn remark(words: String) -> Note {
    Note { warns: false, words: sentence(words) }
}

/// Begins with a capital letter.
fn sentence(mut words: String) -> String {
    if let Some(first) = words.get(..1).map(str::to_uppercase) {
        words.replace_range(..1, &first);
    }
    words
}

pub(crate) fn of_trace(trace: &Trace, name: &str) -> Vec<Note> {
    let mut notes = Vec::new();
    match trace.gaps() as u64 {
        0 => {}
        gaps => notes.push(warning(format!("{name} has {}, marked ◌: the callee may have done something that is not recorded, and faults behind a gap may have fired.", counted(gaps, "gap")))),
    }
    if trace.faults_off() {
        notes.push(warning(format!(
            "In {name}, a service had fault injection switched off; faults planned at it could not fire."
        )));
    }
    notes
}

pub(crate) fn of_run(run: &Run) -> Vec<Note> {
    if run.end_ms.is_some() {
        Vec::new()
    } else {
        vec![warning("The run was not finished when this page was written; the figures are incomplete.".to_owned())]
    }
}

pub(crate) fn of_sweep(run: &Run, sweep: &Sweep, cases: &[Case]) -> Vec<Note> {
    let mut notes = of_run(run);
    let total: u64 = sweep.spaces.iter().map(|s| s.cases).sum();
    let sum = |of: fn(&model::sweep::Space) -> u64| sweep.spaces.iter().map(of).sum::<u64>();
    let unknown = sum(|s| s.unknown);
    if unknown > 0 {
        let mut reasons: BTreeMap<String, u64> = BTreeMap::new();
        for case in cases.iter().filter(|c| c.verdict == Verdict::Unknown) {
            *reasons.entry(redact::reason(case.reason.as_deref().unwrap_or("no reason given"))).or_default() += 1;
        }
        let mut reasons: Vec<(String, u64)> = reasons.into_iter().collect();
        reasons.sort_by_key(|(_, n)| std::cmp::Reverse(*n));
        let words: Vec<String> =
            reasons.iter().take(5).map(|(reason, n)| format!("{} ({})", shorten(reason, 120), count(*n))).collect();
        notes.push(warning(format!(
            "{} unknown. They count neither as passed nor as failed. {}",
            are(unknown, "case"),
            words.join("; ")
        )));
    }
    if (cases.len() as u64) < total {
        notes.push(warning(format!("{} of {} cases are in this page.", count(cases.len() as u64), count(total))));
    }
    let explained: u64 = sweep.bugs.iter().map(|b| b.failing_cases).sum();
    let failures = sum(|s| s.failures);
    if explained < failures {
        notes.push(warning(format!(
            "{} to none of the bugs above.",
            if failures - explained == 1 {
                "1 failing case belongs".to_owned()
            } else {
                format!("{} failing cases belong", count(failures - explained))
            }
        )));
    }
    notes.extend(of_trace(&sweep.good, "the good request"));
    if !sweep.good.entry.is_ok() {
        notes.push(warning("The good request itself did not succeed.".to_owned()));
    }
    let unaffected = sum(|s| s.unaffected);
    if unaffected > 0 {
        notes.push(remark(format!("In {} no fault was reached: the request does not make the faulted calls, or an earlier fault changed what it did next. They show that the request does not depend on these calls, not that it tolerates their failure.", counted(unaffected, "passing case"))));
    }
    if sweep.repeated > 0 {
        notes.push(remark(format!(
            "{} sent again because a service crashed and was restarted.",
            if sweep.repeated == 1 { "1 case was".to_owned() } else { format!("{} cases were", count(sweep.repeated)) }
        )));
    }
    notes.push(remark(
        "Clocks of different services are never compared: a callee's part of a bar is centered in its caller's bar."
            .to_owned(),
    ));
    notes
}

fn are(n: u64, noun: &str) -> String {
    format!("{} {}", counted(n, noun), if n == 1 { "is" } else { "are" })
}

pub(crate) fn list(notes: &[Note]) -> String {
    let mut out = String::from("<ul class=notes>");
    for note in notes {
        put!(out, "<li class={}>{}", if note.warns { "warn" } else { "info" }, text(&note.words));
    }
    out.push_str("</ul>");
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::shop;

    #[test]
    fn unknown_cases_are_explained_by_reason() {
        let (mut sweep, mut cases) = shop::sweep();
        sweep.spaces[0].unknown = 2;
        for case in &mut cases[..2] {
            case.verdict = Verdict::Unknown;
            case.reason = Some("the <fault> never took effect".into());
        }
        let html = list(&of_sweep(&shop::run(model::KindName::new("sweep"), "x", None), &sweep, &cases));
        assert!(
            html.contains("2 cases are unknown") && html.contains("the &lt;fault&gt; never took effect (2)"),
            "{html}"
        );
    }

    #[test]
    fn failing_cases_without_a_bug_are_noted() {
        let (mut sweep, cases) = shop::sweep();
        sweep.bugs.clear();
        let html = list(&of_sweep(&shop::run(model::KindName::new("sweep"), "x", None), &sweep, &cases));
        assert!(html.contains("10,364 failing cases belong to none"), "{html}");
    }
}
