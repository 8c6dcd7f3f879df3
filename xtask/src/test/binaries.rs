//! Rust test binaries. They are built once; areas run those that they select, one at a time.

use super::counts::{Counts, counted_by_name};
use super::runners;
use crate::cargo::{TestBinary, build_tests};
use std::sync::OnceLock;

static BUILT: OnceLock<Result<Vec<TestBinary>, String>> = OnceLock::new();

/// Builds the binaries on the first call. An area that runs without the set-up builds them as well.
fn built() -> Result<&'static [TestBinary], String> {
    match BUILT.get_or_init(build_tests) {
        Ok(list) => Ok(list),
        Err(e) => Err(e.clone()),
    }
}

pub fn build_rust() -> Result<String, String> {
    Ok(format!("{} test binaries", built()?.len()))
}

/// Runs all selected binaries, even after a failure, and sums up their counts.
pub fn binaries(
    select: impl Fn(&TestBinary) -> bool,
    arguments: &[&str],
    variables: &[(&str, &str)],
) -> Result<String, String> {
    let (mut sum, mut errors) = (Counts::default(), Vec::new());
    for test in built()?.iter().filter(|test| select(test)) {
        let mut command = test.command(arguments);
        command.envs(variables.iter().copied());
        match counted_by_name(&mut command, |output| Ok(runners::cargo::named(output, test))) {
            Ok(counts) => sum = sum + counts,
            Err(e) => errors.push(format!("{}: {e}", test.name())),
        }
    }
    if errors.is_empty() { Ok(sum.to_string()) } else { Err(errors.join("\n")) }
}
