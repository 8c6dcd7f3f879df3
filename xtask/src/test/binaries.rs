//! Rust's test binaries: built once, run one after the other by those areas that select them.

use super::counts::{Counts, counted};
use crate::cargo::{TestBinary, build_tests};
use std::sync::OnceLock;

static BUILT: OnceLock<Result<Vec<TestBinary>, String>> = OnceLock::new();

/// Building is free if it was done before, so an area that is run by itself does it, too.
fn built() -> Result<&'static [TestBinary], String> {
    match BUILT.get_or_init(build_tests) {
        Ok(list) => Ok(list),
        Err(e) => Err(e.clone()),
    }
}

pub fn build_rust() -> Result<String, String> {
    Ok(format!("{} test binaries", built()?.len()))
}

/// Runs the selected binaries, all of them even if one fails, and sums up what they counted.
pub fn binaries(
    select: impl Fn(&TestBinary) -> bool,
    arguments: &[&str],
    variables: &[(&str, &str)],
) -> Result<String, String> {
    let (mut sum, mut errors) = (Counts::default(), Vec::new());
    for test in built()?.iter().filter(|test| select(test)) {
        match counted(test.command(arguments).envs(variables.iter().copied())) {
            Ok(counts) => sum = sum + counts,
            Err(e) => errors.push(format!("{}: {e}", test.name())),
        }
    }
    if errors.is_empty() { Ok(sum.to_string()) } else { Err(errors.join("\n")) }
}
