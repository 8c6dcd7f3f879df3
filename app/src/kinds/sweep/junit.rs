//! A sweep as a JUnit file, for CI systems that draw test results.
//!
//! ```text
//! suite bugs     a failing test per bug, with its story and its command; one for all hard dependencies; one per group
//!                of failing cases that belong to no bug
//! suite SPACE    one test: an error if cases have no verdict, else a success. Its failures are in the suite of bugs
//! ```

use crate::text::{plural, printable};
use model::sweep::{Bug, Case, Harm, Space, Sweep, Unexplained};
use model::{Failure, Verdict};
use quick_junit::{NonSuccessKind, Report, TestCase, TestCaseStatus, TestSuite};
use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

/// Different reasons of cases without a verdict, in the message of a space.
const REASONS_MAX: usize = 5;

/// Redacted like a page, because CI systems show it to many people.
pub fn write(path: &Path, sweep: &Sweep, cases: &[Case]) -> Result<(), Failure> {
    let sweep = model::redact::sweep(sweep);
    let mut report = Report::new("faultloom sweep");
    report.add_test_suite(bugs(&sweep));
    for (index, space) in sweep.spaces.iter().enumerate() {
        let mut suite = TestSuite::new(space.name.as_str());
        suite.add_test_case(of_space(space, cases.iter().filter(|case| case.space == index)));
        report.add_test_suite(suite);
    }
    let text =
        report.to_string().map_err(|e| Failure::environment(format!("the JUnit file cannot be written: {e}")))?;
    std::fs::write(path, text).map_err(|e| Failure::environment(format!("{} cannot be written: {e}", path.display())))
}

fn bugs(sweep: &Sweep) -> TestSuite {
    let mut suite = TestSuite::new("bugs");
    let (needed, found): (Vec<&Bug>, Vec<&Bug>) = sweep.bugs.iter().partition(|bug| bug.is_hard_dependency());
    for (i, bug) in found.iter().enumerate() {
        suite.add_test_case(failing(
            format!("{}. {}", i + 1, bug.title),
            format!("{}: {}", bug.harm.map_or("bug", Harm::describe), bug.title),
            story(bug),
        ));
    }
    if !needed.is_empty() {
        let names: Vec<String> =
            needed.iter().map(|bug| format!("{}/{}", bug.failed.callee, bug.failed.call)).collect();
        let commands: Vec<String> =
            needed.iter().map(|bug| format!("{}\n    {}", bug.title, again(&bug.again))).collect();
        suite.add_test_case(failing(
            "hard dependencies".to_owned(),
            format!("their errors are passed on to the user: {}", names.join(", ")),
            commands.join("\n"),
        ));
    }
    for (i, one) in sweep.unexplained.iter().enumerate() {
        let Unexplained { reason, again: command, failing_cases, spaces, .. } = one;
        suite.add_test_case(failing(
            format!("not explained {}", i + 1),
            format!("{} ({}): {reason}", plural(*failing_cases, "failing case"), spaces.join(", ")),
            format!("See it again:\n    {}", again(command)),
        ));
    }
    if suite.test_cases.is_empty() {
        suite.add_test_case(TestCase::new("no bug found", TestCaseStatus::success()));
    }
    suite
}

fn failing(name: String, message: String, text: String) -> TestCase {
    let mut status = TestCaseStatus::non_success(NonSuccessKind::Failure);
    status.set_message(printable(&message));
    status.set_description(text.lines().map(printable).collect::<Vec<_>>().join("\n"));
    TestCase::new(printable(&name), status)
}

fn story(bug: &Bug) -> String {
    let mut lines = bug.story.clone();
    if let Some(log) = &bug.log {
        lines.push(match &log.unreadable {
            Some(why) => format!("Log of {}: {why}.", log.service),
            None => format!("The log of {} shows the crash; `faultloom show` prints its lines.", log.service),
        });
    }
    if let Some(real) = &bug.real_stop {
        lines.push(format!("{}.", report::real_stop_without_values(real).trim_end_matches('.')));
    }
    lines.push(format!("Fails in {} ({}).", plural(bug.failing_cases, "case"), bug.spaces.join(", ")));
    lines.push("See it again:".to_owned());
    lines.push(format!("    {}", again(&bug.again)));
    lines.join("\n")
}

fn again(command: &str) -> String {
    report::command_without_secrets(command)
}

fn of_space<'a>(space: &Space, cases: impl Iterator<Item = &'a Case>) -> TestCase {
    let mut reasons: BTreeMap<String, u64> = BTreeMap::new();
    for case in cases.filter(|case| case.verdict == Verdict::Unknown) {
        let reason = case.reason.as_deref().map_or("no reason given".to_owned(), report::reason_without_values);
        *reasons.entry(reason).or_default() += 1;
    }
    let status = if space.unknown == 0 {
        TestCaseStatus::success()
    } else {
        let mut reasons: Vec<(String, u64)> = reasons.into_iter().collect();
        reasons.sort_by_key(|(_, n)| std::cmp::Reverse(*n));
        let words: Vec<String> =
            reasons.iter().take(REASONS_MAX).map(|(reason, n)| format!("{reason} ({n})")).collect();
        let mut status = TestCaseStatus::non_success(NonSuccessKind::Error);
        status.set_message(printable(&format!(
            "{} without a verdict: {}",
            plural(space.unknown, "case"),
            words.join("; ")
        )));
        status
    };
    let mut test =
        TestCase::new(format!("{}, {}", plural(space.cases, "case"), plural(space.failures, "failure")), status);
    test.set_time(Duration::from_secs_f64(space.seconds.max(0.0)));
    test
}

/// Checks before a sweep that its JUnit file can be written. An existing file is not changed yet.
pub fn check_writable(path: &Path) -> Result<(), Failure> {
    let parent = path.parent().filter(|p| !p.as_os_str().is_empty()).map_or(Ok(()), std::fs::create_dir_all);
    parent.and_then(|()| std::fs::File::options().create(true).append(true).open(path)).map(drop).map_err(|e| {
        Failure::environment(format!("{} cannot be written: {e}", path.display()))
            .next("choose another file with --junit FILE")
    })
}
