//! Findings that were written by hand, compared with those of a sweep.

use serde::Deserialize;
use serde_json::{Value, json};
use std::collections::BTreeMap;

#[derive(Deserialize)]
struct File {
    pages: Vec<Page>,
}

/// A request, how it is swept, and what must be found.
#[derive(Deserialize)]
pub struct Page {
    pub name: String,
    method: String,
    path: String,
    #[serde(default)]
    headers: Vec<String>,
    body: Option<String>,
    /// Requests that prepare each case; `{entry}` stands for the address of the application.
    #[serde(default)]
    before: Vec<String>,
    checks: Vec<String>,
    kinds: Vec<String>,
    pub findings: Vec<Finding>,
    /// Findings of missing checks, which are planted by name.
    #[serde(default)]
    pub planted: Vec<Finding>,
}

#[derive(Clone, Deserialize)]
pub struct Finding {
    pub id: String,
    pub caller: String,
    pub callee: String,
    pub call: String,
    /// The kinds of fault that expose it.
    pub kinds: Vec<String>,
    pub harm: String,
    /// What the explanation must contain, and what it must not.
    #[serde(default)]
    story: Vec<String>,
    #[serde(default)]
    never: Vec<String>,
    /// The call is inherited. No bug rests on such a call alone: its cases may be listed as not explained.
    #[serde(default)]
    lost_context: bool,
    /// Call sites that may be reported beside it.
    #[serde(default)]
    also: Vec<Site>,
    /// By the id of the other finding.
    #[serde(default)]
    beside: BTreeMap<String, Beside>,
}

/// What differs if another check is missing, too.
#[derive(Clone, Deserialize)]
struct Beside {
    harm: String,
    story: Vec<String>,
}

#[derive(Clone, Deserialize)]
struct Site {
    caller: String,
    callee: String,
    call: String,
    harm: String,
}

pub fn pages(text: &str) -> Result<Vec<Page>, serde_json::Error> {
    serde_json::from_str::<File>(text).map(|file| file.pages)
}

impl Page {
    /// Arguments of `sweep`. Spaces that inject one fault at a time and those that follow from it find every call site.
    pub fn arguments(&self, entry: &str) -> Vec<String> {
        let mut all = vec![format!("{entry}{}", self.path), "-X".to_owned(), self.method.clone()];
        let mut add = |name: &str, value: &str| all.extend([name.to_owned(), value.to_owned()]);
        self.headers.iter().for_each(|header| add("-H", header));
        self.body.iter().for_each(|body| add("-d", body));
        self.before.iter().for_each(|before| add("--before", &before.replace("{entry}", entry)));
        self.kinds.iter().for_each(|kind| add("-k", kind));
        ["crash-points", "guided"].iter().for_each(|space| add("-s", space));
        all.extend(self.checks.iter().cloned());
        all
    }
}

/// What was wrong, over all sweeps.
#[derive(Default)]
pub struct Comparison {
    sweeps: u64,
    expected: u64,
    missed: u64,
    false_ones: u64,
    wrongly_explained: u64,
    /// Failing cases that belong to no bug.
    not_explained: u64,
    /// Text of a problem → where it occurred first, and how often.
    problems: BTreeMap<String, (String, u64)>,
}

/// Names of parameters in routes differ between the caller's name and the callee's: `/books/{id}`, `/books/{book}`.
fn plain(route: &str) -> String {
    let mut out = String::new();
    let mut is_inside = false;
    for c in route.chars() {
        is_inside = (is_inside || c == '{') && c != '}';
        if !is_inside || c == '{' {
            out.push(c);
        }
    }
    out
}

fn is_at(bug: &Value, caller: &str, callee: &str, call: &str) -> bool {
    let failed = &bug["failed"];
    failed["caller"] == caller
        && failed["callee"] == callee
        && plain(failed["call"].as_str().unwrap_or_default()) == plain(call)
}

/// The caller of the request itself.
const TOOL: &str = "faultloom";

/// The kinds of its faults: `unavailable`, `lost-reply`.
fn kinds(bug: &Value) -> Vec<String> {
    let faults = bug["faults"].as_array().into_iter().flatten();
    faults.filter_map(|fault| fault["kind"].as_str()).map(|kind| kind.replace('_', "-")).collect()
}

impl Finding {
    /// As it is to be reported if these checks are missing.
    pub fn beside(&self, planted: &[String]) -> Finding {
        let mut finding = self.clone();
        if let Some((_, other)) = self.beside.iter().find(|(id, _)| planted.contains(id)) {
            finding.harm.clone_from(&other.harm);
            finding.story.clone_from(&other.story);
        }
        finding
    }

    fn is_reported_by(&self, bug: &Value) -> bool {
        let is_at_call = is_at(bug, &self.caller, &self.callee, &self.call) || self.is_without_trace(bug);
        is_at_call && kinds(bug).iter().any(|kind| self.kinds.contains(kind))
    }

    /// Whether the bug ended without a reply, and so without a trace, when this call failed.
    fn is_without_trace(&self, bug: &Value) -> bool {
        let has_no_trace = bug["ending"] == "crashed" || bug["ending"] == "no-reply";
        has_no_trace && bug["failed"]["caller"] == TOOL && self.is_hit_by(&bug["faults"])
    }

    /// Whether one fault is injected, at the callee of this call.
    fn is_hit_by(&self, faults: &Value) -> bool {
        let is_call = |fault: &Value| {
            let call = fault["call"].as_str().unwrap_or_default();
            fault["callee"] == self.callee.as_str() && (call.is_empty() || plain(call) == plain(&self.call))
        };
        faults.as_array().is_some_and(|faults| faults.len() == 1 && is_call(&faults[0]))
    }

    /// Whether failing cases are listed as not explained because this call lost its context.
    fn is_listed_by(&self, unexplained: &Value) -> bool {
        let reason = unexplained["reason"].as_str().unwrap_or_default();
        self.lost_context && self.is_hit_by(&unexplained["faults"]) && reason.contains("lost its context")
    }

    fn is_at_same_site(&self, other: &Finding) -> bool {
        self.caller == other.caller && self.callee == other.callee && self.call == other.call
    }

    /// Whether another finding of the same call is reported. A sweep may report one bug per call, with the worst harm.
    fn is_covered(&self, expected: &[&Finding], bugs: &[Value]) -> bool {
        let others = expected.iter().filter(|other| other.id != self.id && other.is_at_same_site(self));
        let is_right =
            |other: &Finding| bugs.iter().any(|bug| other.is_reported_by(bug) && other.objection(bug).is_none());
        others.into_iter().any(|other| is_worse(&other.harm, &self.harm) && is_right(other))
    }

    /// Why the report of this finding is wrong. None: it is right.
    fn objection(&self, bug: &Value) -> Option<String> {
        if bug["harm"] != self.harm.as_str() {
            return Some(format!("harm {} instead of {}", bug["harm"], self.harm));
        }
        let text = explanation(bug);
        let missing = self.story.iter().find(|word| !text.contains(*word));
        let claimed = self.never.iter().find(|word| text.contains(*word));
        missing
            .map(|word| format!("'{word}' is not named"))
            .or_else(|| claimed.map(|word| format!("'{word}' is claimed")))
    }
}

/// From the worst, as in reports.
const HARMS: [&str; 5] = ["state-changed", "crash", "wrong-content", "avoidable", "hard-dependency"];

fn is_worse(harm: &str, than: &str) -> bool {
    let rank = |harm: &str| HARMS.iter().position(|of| *of == harm);
    rank(harm) < rank(than)
}

/// Everything that is printed about a bug.
fn explanation(bug: &Value) -> String {
    let mut lines = vec![bug["title"].as_str().unwrap_or_default(), bug["mistake"].as_str().unwrap_or_default()];
    lines.extend(bug["story"].as_array().into_iter().flatten().filter_map(Value::as_str));
    lines.extend(bug["log"]["lines"].as_array().into_iter().flatten().filter_map(Value::as_str));
    lines.join("\n")
}

impl Comparison {
    pub fn add(&mut self, place: &str, expected: &[&Finding], sweep: &Value) {
        self.sweeps += 1;
        self.expected += expected.len() as u64;
        let bugs = sweep["bugs"].as_array().map_or(&[][..], Vec::as_slice);
        let unexplained = sweep["unexplained"].as_array().map_or(&[][..], Vec::as_slice);
        let mut problems = Vec::new();
        for finding in expected {
            let reported: Vec<&Value> = bugs.iter().filter(|bug| finding.is_reported_by(bug)).collect();
            let is_listed = unexplained.iter().any(|one| finding.is_listed_by(one));
            if reported.is_empty() && !is_listed && !finding.is_covered(expected, bugs) {
                self.missed += 1;
                problems.push(format!("missed: {}", finding.id));
            }
            // one bug per call site: a second one is a duplicate, unless it has another expected kind of harm
            let right = reported.iter().filter(|bug| finding.objection(bug).is_none()).count();
            if let (0, Some(first)) = (right, reported.first()) {
                self.wrongly_explained += 1;
                let why = finding.objection(first).unwrap_or_default();
                problems.push(format!("wrongly explained: {}: {why}", finding.id));
            }
            // two findings of one call, such as a bug of the page and one of its fallback, are two bugs
            let same = expected.iter().filter(|other| other.is_at_same_site(finding) && other.harm == finding.harm);
            if right > same.count() {
                self.false_ones += 1;
                problems.push(format!("reported {right} times: {}", finding.id));
            }
        }
        for bug in bugs {
            let is_expected = expected.iter().any(|finding| finding.is_reported_by(bug) || finding.allows(bug));
            if !is_expected {
                self.false_ones += 1;
                problems.push(format!("false: {} {:?}", bug["title"].as_str().unwrap_or_default(), kinds(bug)));
            }
        }
        for one in unexplained.iter().filter(|one| !expected.iter().any(|finding| finding.is_listed_by(one))) {
            self.not_explained += one["failing_cases"].as_u64().unwrap_or(1);
            problems.push(format!("not explained: {}", one["reason"].as_str().unwrap_or_default()));
        }
        for problem in problems {
            self.problems.entry(problem).or_insert_with(|| (place.to_owned(), 0)).1 += 1;
        }
    }

    pub fn print(&self) {
        println!(
            " {} sweeps, {} findings expected: {} missed, {} false, {} wrongly explained, {} cases not explained",
            self.sweeps, self.expected, self.missed, self.false_ones, self.wrongly_explained, self.not_explained
        );
        for (problem, (place, count)) in &self.problems {
            println!(" {count:>5} {problem}   first: {place}");
        }
    }

    pub fn figures(&self) -> Value {
        json!({
            "sweeps": self.sweeps, "expected": self.expected, "missed": self.missed, "false": self.false_ones,
            "wrongly_explained": self.wrongly_explained, "not_explained": self.not_explained,
        })
    }
}

impl Finding {
    fn allows(&self, bug: &Value) -> bool {
        self.also
            .iter()
            .any(|site| is_at(bug, &site.caller, &site.callee, &site.call) && bug["harm"] == site.harm.as_str())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FILE: &str = r#"{"pages": [{"name": "p", "method": "GET", "path": "/p", "checks": [],
        "kinds": ["unavailable"], "findings": [
            {"id": "p.a", "caller": "web", "callee": "a", "call": "GET /a/{id}", "kinds": ["unavailable"], "harm": "crash",
             "story": ["nil"], "never": ["500"]}]}]}"#;

    fn bug(callee: &str, harm: &str, title: &str) -> Value {
        json!({
            "failed": { "caller": "web", "callee": callee, "call": "GET /a/{item}" }, "harm": harm, "title": title,
            "faults": [{ "kind": "unavailable" }], "story": [],
        })
    }

    /// missed, false, wrongly explained, not explained
    fn compared(bugs: &[Value], unexplained: &[Value]) -> [u64; 4] {
        let pages = pages(FILE).unwrap();
        let mut all = Comparison::default();
        let expected: Vec<&Finding> = pages[0].findings.iter().collect();
        all.add("test", &expected, &json!({ "bugs": bugs, "unexplained": unexplained }));
        [all.missed, all.false_ones, all.wrongly_explained, all.not_explained]
    }

    #[test]
    fn each_way_to_be_wrong_counts() {
        assert_eq!(compared(&[bug("a", "crash", "nil pointer")], &[]), [0, 0, 0, 0]);
        assert_eq!(compared(&[], &[]), [1, 0, 0, 0]);
        assert_eq!(compared(&[bug("b", "crash", "nil")], &[]), [1, 1, 0, 0]);
        assert_eq!(compared(&[bug("a", "avoidable", "nil")], &[]), [0, 0, 1, 0]);
        assert_eq!(compared(&[bug("a", "crash", "it ended")], &[]), [0, 0, 1, 0]);
        assert_eq!(compared(&[bug("a", "crash", "nil, HTTP 500")], &[]), [0, 0, 1, 0]);
        let twice = [bug("a", "crash", "nil"), bug("a", "crash", "nil")];
        assert_eq!(compared(&twice, &[]), [0, 1, 0, 0]);
        let good = [bug("a", "crash", "nil")];
        assert_eq!(compared(&good, &[json!({ "failing_cases": 3, "reason": "" })]), [0, 0, 0, 3]);
    }

    #[test]
    fn a_lost_context_may_be_the_reason_for_no_explanation() {
        let file = FILE.replace("\"story\"", "\"lost_context\": true, \"story\"");
        let listed = |text: &str, callee: &str| {
            let pages = pages(text).unwrap();
            let expected: Vec<&Finding> = pages[0].findings.iter().collect();
            let faults = json!([{ "kind": "unavailable", "callee": callee, "call": "" }]);
            let one =
                json!({ "reason": "it rests on a call that lost its context", "faults": faults, "failing_cases": 2 });
            let mut all = Comparison::default();
            all.add("test", &expected, &json!({ "bugs": [], "unexplained": [one] }));
            [all.missed, all.not_explained]
        };
        assert_eq!(listed(&file, "a"), [0, 0]);
        assert_eq!(listed(&file, "b"), [1, 2]);
        assert_eq!(listed(FILE, "a"), [1, 2], "this call did not lose its context");
    }

    #[test]
    fn a_crash_without_a_trace_belongs_to_the_call_that_failed() {
        let pages = pages(FILE).unwrap();
        let expected: Vec<&Finding> = pages[0].findings.iter().collect();
        let mut one = bug("web", "crash", "nil pointer");
        one["failed"]["caller"] = json!("faultloom");
        one["ending"] = json!("crashed");
        let missed = |callee: &str| {
            let mut one = one.clone();
            one["faults"][0]["callee"] = json!(callee);
            let mut all = Comparison::default();
            all.add("test", &expected, &json!({ "bugs": [one] }));
            [all.missed, all.false_ones]
        };
        assert_eq!(missed("a"), [0, 0]);
        assert_eq!(missed("b"), [1, 1]);
    }

    #[test]
    fn one_bug_per_call_may_be_reported_if_it_is_the_worst() {
        let file = pages(&FILE.replace(
            "\"findings\": [",
            r#""findings": [
            {"id": "p.charge", "caller": "web", "callee": "a", "call": "GET /a/{id}", "kinds": ["lost-reply"],
             "harm": "state-changed", "story": ["charged"], "never": []},"#,
        ));
        let pages = file.unwrap();
        let expected: Vec<&Finding> = pages[0].findings.iter().collect();
        let missed = |kind: &str, harm: &str, title: &str| {
            let mut one = bug("a", harm, title);
            one["faults"][0]["kind"] = json!(kind);
            let mut all = Comparison::default();
            all.add("test", &expected, &json!({ "bugs": [one] }));
            [all.missed, all.false_ones, all.wrongly_explained]
        };
        assert_eq!(missed("lost-reply", "state-changed", "charged"), [0, 0, 0]);
        assert_eq!(missed("unavailable", "crash", "nil"), [1, 0, 0], "the worst one is missing");
    }

    #[test]
    fn the_files_beside_the_applications_are_complete() {
        for path in ["lab/shop/expected.json", "lab/bookstore/expected.json"] {
            let text = std::fs::read_to_string(crate::shell::root().join(path)).unwrap();
            for finding in pages(&text).unwrap().iter().flat_map(|page| page.findings.iter().chain(&page.planted)) {
                let beside = finding.beside.values().map(|beside| &beside.harm);
                for harm in std::iter::once(&finding.harm).chain(beside) {
                    assert!(HARMS.contains(&harm.as_str()), "{}", finding.id);
                }
                assert!(!finding.story.is_empty() && !finding.kinds.is_empty(), "{}", finding.id);
            }
        }
    }
}
