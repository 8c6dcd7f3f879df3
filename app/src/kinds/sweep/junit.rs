//! A sweep as a JUnit file, for CI systems that draw test results.

use crate::text::printable;
use model::sweep::{Case, Sweep};
use model::{Failure, Verdict};
use quick_junit::{NonSuccessKind, Report, TestCase, TestCaseStatus, TestSuite};
use std::path::Path;
use std::time::Duration;

/// In spaces of at most this many cases, each case is a test.
const EACH_MAX: u64 = 1024;

/// One test per case of a small space; for a large one, a test per minimal failing set, or one for the space.
/// Redacted like a page, because CI systems show it to many people.
pub fn write(path: &Path, sweep: &Sweep, cases: &[Case]) -> Result<(), Failure> {
    let sweep = model::redact::sweep(sweep);
    let mut report = Report::new("faultloom sweep");
    for (index, space) in sweep.spaces.iter().enumerate() {
        let mut suite = TestSuite::new(space.name.as_str());
        let label = |sites: &[u32]| {
            if sites.is_empty() {
                "no fault".to_owned()
            } else {
                printable(
                    &sites.iter().map(|s| space.sites[*s as usize].label.as_str()).collect::<Vec<_>>().join(" + "),
                )
            }
        };
        let status = |verdict: Verdict, reason: &str| match verdict {
            Verdict::Pass => TestCaseStatus::success(),
            Verdict::Fail => {
                let mut s = TestCaseStatus::non_success(NonSuccessKind::Failure);
                s.set_message(printable(reason));
                s
            }
            Verdict::Unknown => {
                let mut s = TestCaseStatus::non_success(NonSuccessKind::Error);
                s.set_message(printable(reason));
                s
            }
        };
        if space.cases <= EACH_MAX {
            for case in cases.iter().filter(|c| c.space == index) {
                let mut test = TestCase::new(
                    label(&case.sites),
                    status(
                        case.verdict,
                        &case.reason.as_deref().map_or_else(String::new, report::reason_without_values),
                    ),
                );
                test.set_time(Duration::from_micros(case.latency_us));
                suite.add_test_case(test);
            }
        } else {
            for set in &space.minimal {
                suite.add_test_case(TestCase::new(
                    label(set),
                    status(Verdict::Fail, "smallest failing combination tested"),
                ));
            }
            if space.minimal.is_empty() {
                suite.add_test_case(TestCase::new(
                    format!("{} cases", space.cases),
                    status(if space.unknown > 0 { Verdict::Unknown } else { Verdict::Pass }, "some cases are unknown"),
                ));
            }
        }
        report.add_test_suite(suite);
    }
    let text =
        report.to_string().map_err(|e| Failure::environment(format!("the JUnit file cannot be written: {e}")))?;
    std::fs::write(path, text).map_err(|e| Failure::environment(format!("{} cannot be written: {e}", path.display())))
}

/// Checks before a sweep that its JUnit file can be written. An existing file is not changed yet.
pub fn check_writable(path: &Path) -> Result<(), Failure> {
    let parent = path.parent().filter(|p| !p.as_os_str().is_empty()).map_or(Ok(()), std::fs::create_dir_all);
    parent.and_then(|()| std::fs::File::options().create(true).append(true).open(path)).map(drop).map_err(|e| {
        Failure::environment(format!("{} cannot be written: {e}", path.display()))
            .next("choose another file with --junit FILE")
    })
}
