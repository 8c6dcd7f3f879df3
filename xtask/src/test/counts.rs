//! Sums up the test counts that the test runners of all languages print.

use super::runners::{Named, record_all};
use crate::shell::{combined, note, words};
use std::fmt;
use std::ops::Add;
use std::process::Command;
use std::sync::atomic::{AtomicU64, Ordering};

static PASSED: AtomicU64 = AtomicU64::new(0);
static FAILED: AtomicU64 = AtomicU64::new(0);
static SKIPPED: AtomicU64 = AtomicU64::new(0);

/// The totals so far, as the last line of `make test`.
pub fn sums() -> String {
    let [passed, failed, skipped] = [&PASSED, &FAILED, &SKIPPED].map(|sum| sum.load(Ordering::Relaxed));
    format!("{passed} passed, {failed} failed, {skipped} skipped")
}

pub fn failed() -> u64 {
    FAILED.load(Ordering::Relaxed)
}

/// Adds the passed tests of a summary such as `N passed, N failed` to the totals.
pub fn add_passed(sums: &str) {
    let passed = sums.split(' ').next().and_then(|n| n.parse().ok()).unwrap_or(0);
    PASSED.fetch_add(passed, Ordering::Relaxed);
}

/// Counts one failure that no test runner reported.
pub fn record_failure() {
    FAILED.fetch_add(1, Ordering::Relaxed);
}

/// Counts one skip that no test runner reported, and prints its reason.
pub fn record_skip(reason: &str) {
    println!("   skipped: {reason}");
    note(&format!("skipped: {reason}"));
    SKIPPED.fetch_add(1, Ordering::Relaxed);
}

/// Like [`counted_by_name`], for runs that are no evidence for the support page.
pub fn counted(command: &mut Command) -> Result<Counts, String> {
    counted_by_name(command, |_| Ok(Named::new()))
}

/// Runs a test program, adds its counts to the totals, and records the outcomes of its tests, which `named` reads from
/// the output or from files. If the program fails, the error has the full output of the failed tests.
pub fn counted_by_name(
    command: &mut Command,
    named: impl FnOnce(&str) -> Result<Named, String>,
) -> Result<Counts, String> {
    let (is_success, output) = combined(command)?;
    let counts = Counts::of(&output);
    PASSED.fetch_add(counts.passed, Ordering::Relaxed);
    FAILED.fetch_add(counts.failed, Ordering::Relaxed);
    SKIPPED.fetch_add(counts.skipped, Ordering::Relaxed);
    if !is_success {
        return Err(format!("failed: {}\n{}", words(command), failures(&output)));
    }
    record_all(named(&output)?);
    for reason in &counts.reasons {
        println!("   skipped: {reason}");
    }
    Ok(counts)
}

/// The output without the lines of passed tests.
fn failures(output: &str) -> String {
    let is_pass = |line: &str| {
        let line = line.trim_start();
        line.starts_with("=== ")
            || line.starts_with("--- PASS")
            || line.starts_with("✔ ")
            || (line.starts_with("test ") && line.ends_with("... ok"))
    };
    output.lines().filter(|line| !is_pass(line)).collect::<Vec<_>>().join("\n")
}

/// Counts of one run: totals of cargo, pytest, Maven and Node, Go's line per test, and our own `skipped:` lines.
#[derive(Default)]
pub struct Counts {
    passed: u64,
    failed: u64,
    skipped: u64,
    reasons: Vec<String>,
}

impl fmt::Display for Counts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} passed, {} skipped", self.passed, self.skipped)
    }
}

impl Add for Counts {
    type Output = Counts;

    fn add(self, other: Counts) -> Counts {
        Counts {
            passed: self.passed + other.passed,
            failed: self.failed + other.failed,
            skipped: self.skipped + other.skipped,
            reasons: [self.reasons, other.reasons].concat(),
        }
    }
}

impl Counts {
    fn of(output: &str) -> Counts {
        let mut counts = Counts::default();
        let number_before = |line: &str, word: &str| -> u64 {
            let before = line.split(word).next().unwrap_or_default();
            before.rsplit(|c: char| !c.is_ascii_digit()).next().and_then(|n| n.parse().ok()).unwrap_or(0)
        };
        for line in output.lines() {
            let trimmed = line.trim_start();
            let pytest = trimmed.contains(" in ") && (trimmed.contains(" passed") || trimmed.contains(" failed"));
            let pytest = pytest && trimmed.trim_start_matches(['=', ' ']).starts_with(|c: char| c.is_ascii_digit());
            if trimmed.starts_with("test result:") || pytest {
                if trimmed.contains(" passed") {
                    counts.passed += number_before(trimmed, " passed");
                }
                if trimmed.contains(" failed") {
                    counts.failed += number_before(trimmed, " failed");
                }
                let word = if trimmed.contains(" ignored") { " ignored" } else { " skipped" };
                if trimmed.contains(word) {
                    counts.skipped += number_before(trimmed, word);
                }
            } else if let Some(sum) = surefire_sum(line) {
                let [run, failed, skipped] = sum;
                counts.passed += run.saturating_sub(failed + skipped);
                counts.failed += failed;
                counts.skipped += skipped;
            } else if let Some([passed, failed, skipped]) = page_sums(trimmed) {
                counts.passed += passed;
                counts.failed += failed;
                counts.skipped += skipped;
            } else if let Some(n) = node_sum(line, "pass") {
                counts.passed += n;
            } else if let Some(n) = node_sum(line, "fail") {
                counts.failed += n;
            } else if let Some(n) = node_sum(line, "skipped") {
                counts.skipped += n;
            } else if trimmed.starts_with("--- PASS:") {
                counts.passed += 1;
            } else if trimmed.starts_with("--- FAIL:") {
                counts.failed += 1;
            } else if trimmed.starts_with("--- SKIP:") {
                counts.skipped += 1;
                counts.reasons.push(trimmed.trim_start_matches("--- SKIP: ").to_owned());
            } else if let Some(reason) = trimmed.strip_prefix("skipped: ") {
                counts.skipped += 1;
                counts.reasons.push(reason.to_owned());
            } else if let Some((_, reason)) = line.split_once(" # SKIP ") {
                counts.reasons.push(reason.to_owned());
            } else if trimmed.starts_with("SKIPPED [") {
                counts.reasons.push(trimmed.to_owned());
            }
        }
        counts
    }
}

/// Run, failed and skipped tests from the total of a Maven module: `[INFO] Tests run: 11, Failures: 0, Errors: 0,
/// Skipped: 0`. Lines of single classes have more fields.
fn surefire_sum(line: &str) -> Option<[u64; 3]> {
    let rest = line.split_once("] Tests run: ")?.1;
    let numbers: Vec<u64> = rest.split(", ").filter_map(|part| part.rsplit(' ').next()?.parse().ok()).collect();
    match numbers[..] {
        [run, failures, errors, skipped] if rest.split(", ").count() == 4 => Some([run, failures + errors, skipped]),
        _ => None,
    }
}

/// Passed, failed and skipped tests from a total of Vitest, `Tests  1 failed | 53 passed (54)`, or from one line of
/// those of Playwright, such as `50 passed (2.9m)` and `8 failed`.
fn page_sums(line: &str) -> Option<[u64; 3]> {
    let totals = line.strip_prefix("Tests  ").unwrap_or(line);
    let totals = totals.split_once(" (").map_or(totals, |(totals, _)| totals);
    let mut sums = [0; 3];
    for total in totals.split(" | ") {
        let (number, word) = total.split_once(' ')?;
        let at = ["passed", "failed", "skipped"].iter().position(|known| *known == word)?;
        sums[at] += number.parse::<u64>().ok()?;
    }
    Some(sums)
}

/// A total of Node's test runner, such as `# pass 11` or `ℹ pass 11`.
fn node_sum(line: &str, what: &str) -> Option<u64> {
    let rest = line.strip_prefix("# ").or_else(|| line.strip_prefix("ℹ "))?;
    rest.strip_prefix(what)?.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::{Counts, failures};

    #[test]
    fn every_runner_is_counted() {
        let output = "test result: ok. 5 passed; 0 failed; 1 ignored; 0 measured\n--- PASS: TestA (0.00s)\n    --- PASS: TestA/b (0.00s)\n--- SKIP: TestC (0.00s)\nskipped: no memcached\n22 passed, 3 skipped in 5.1s\n\
            [INFO] Tests run: 2, Failures: 0, Errors: 0, Skipped: 0, Time elapsed: 0.1 s -- in A\n\
            [WARNING] Tests run: 12, Failures: 0, Errors: 0, Skipped: 1\n# tests 9\n# pass 7\n# skipped 2\n";
        let counts = Counts::of(output);
        assert_eq!((counts.passed, counts.failed, counts.skipped, counts.reasons.len()), (47, 0, 9, 2));
        let output = "test result: FAILED. 5 passed; 2 failed; 0 ignored; 0 measured\n--- FAIL: TestA (0.00s)\n\
            ===== 1 failed, 22 passed, 3 skipped in 5.1s =====\n4 failed in 1.0s\n\
            [ERROR] Tests run: 12, Failures: 1, Errors: 2, Skipped: 1\n# pass 7\n# fail 3\n";
        let counts = Counts::of(output);
        assert_eq!((counts.passed, counts.failed, counts.skipped), (5 + 22 + 8 + 7, 2 + 1 + 1 + 4 + 3 + 3, 4));
        let output = " Test Files  2 failed | 9 passed (11)\n      Tests  1 failed | 53 passed | 2 skipped (56)\n  \
            8 failed\n    test/runs.spec.ts:1:1 › a test\n  1 skipped\n  50 passed (2.9m)\n";
        let counts = Counts::of(output);
        assert_eq!((counts.passed, counts.failed, counts.skipped), (53 + 50, 1 + 8, 2 + 1));
    }

    #[test]
    fn the_output_of_a_failure_is_complete() {
        let panic = (0..500).map(|n| format!("line {n}")).collect::<Vec<_>>().join("\n");
        let output = format!("test a ... ok\n---- b stdout ----\n{panic}\ntest result: FAILED. 1 passed; 1 failed");
        let kept = failures(&output);
        assert!(kept.starts_with("---- b stdout ----\nline 0\n") && kept.contains("line 499"), "{kept}");
    }
}
