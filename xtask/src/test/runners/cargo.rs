//! Rust's test harness: `test MODULE::NAME ... ok`.
//!
//! The harness has no skips. A test that skips prints `skipped: MODULE::NAME: REASON`, where the name is that of its
//! thread, past the capture of its output, and returns.

use super::Named;
use crate::cargo::TestBinary;
use crate::shell::root;
use crate::test::results::TestOutcome::{self, Failed, Passed, Skipped};
use std::path::{Path, PathBuf};

/// The tests of one binary. Ignored tests did not run.
pub fn named(output: &str, binary: &TestBinary) -> Named {
    let source = binary.source.strip_prefix(root()).unwrap_or(&binary.source);
    let is_file = |path: &Path| root().join(path).is_file();
    let outcomes = outcomes(output);
    outcomes.into_iter().map(|(name, outcome)| (id(source, name, is_file), outcome)).collect()
}

/// A result may be on the next line, after what the test printed past the capture.
fn outcomes(output: &str) -> Vec<(&str, TestOutcome)> {
    let (mut outcomes, mut pending) = (Vec::new(), None);
    for line in output.lines() {
        let (name, rest) = match line.strip_prefix("test ").and_then(|line| line.split_once(" ... ")) {
            Some((name, rest)) => (Some(name.trim_end_matches(" - should panic")), rest),
            None => (pending, line),
        };
        if let Some(reason) = rest.strip_prefix("skipped: ") {
            // a harness without threads runs tests in the thread `main`
            let (skipped, _) = reason.split_once(": ").unwrap_or((reason, ""));
            let skipped = if skipped == "main" { name } else { Some(skipped) };
            outcomes.extend(skipped.map(|skipped| (skipped, Skipped)));
        }
        pending = name;
        let outcome = match rest {
            "ok" => Passed,
            "FAILED" => Failed,
            _ => continue,
        };
        outcomes.extend(pending.take().map(|name| (name, outcome)));
    }
    outcomes
}

/// `FILE::NAME` of a test in the module `a::b` of a target: the module's file is `a/b.rs` or `a/b/mod.rs` beside the
/// target's source, or that of the nearest outer module with a file.
fn id(source: &Path, test: &str, is_file: impl Fn(&Path) -> bool) -> String {
    let (module, name) = test.rsplit_once("::").unwrap_or(("", test));
    let folder = source.parent().unwrap_or(Path::new(""));
    let mut parts: Vec<&str> = module.split("::").filter(|part| !part.is_empty()).collect();
    while !parts.is_empty() {
        let base = folder.join(parts.iter().collect::<PathBuf>());
        let found = [base.with_extension("rs"), base.join("mod.rs")].into_iter().find(|file| is_file(file));
        if let Some(file) = found {
            return format!("{}::{name}", file.display());
        }
        parts.pop();
    }
    format!("{}::{name}", source.display())
}

#[cfg(test)]
mod tests {
    use super::{Failed, Passed, Skipped, id, outcomes};
    use std::path::Path;

    #[test]
    fn results_and_skips_are_attributed_to_their_tests() {
        let output = "running 5 tests\ntest a::b ... ok\nskipped: c::d: no helm: install it\ntest c::d ... ok\n\
            test e - should panic ... ok\ntest f ... ignored\ntest g ... skipped: h: no root\nok\n\
            test i ... skipped: main: no gdb\nok\ntest j ... FAILED\nskipped: packages: no apt\n";
        let expected = [
            ("a::b", Passed),
            ("c::d", Skipped),
            ("c::d", Passed),
            ("e", Passed),
            ("h", Skipped),
            ("g", Passed),
            ("i", Skipped),
            ("i", Passed),
            ("j", Failed),
            ("packages", Skipped),
        ];
        assert_eq!(outcomes(output), expected);
    }

    #[test]
    fn a_test_is_in_the_file_of_its_nearest_module() {
        let files = ["cli/tests/https.rs", "cli/tests/kills/verbs.rs", "base/a/src/b/mod.rs"];
        let is_file = |path: &Path| files.iter().any(|file| Path::new(file) == path);
        let id = |source: &str, test: &str| id(Path::new(source), test, is_file);
        assert_eq!(id("cli/tests/main.rs", "https::a"), "cli/tests/https.rs::a");
        assert_eq!(id("cli/tests/main.rs", "kills::verbs::a"), "cli/tests/kills/verbs.rs::a");
        assert_eq!(id("base/a/src/lib.rs", "b::tests::a"), "base/a/src/b/mod.rs::a");
        assert_eq!(id("base/a/src/lib.rs", "tests::a"), "base/a/src/lib.rs::a");
        assert_eq!(id("observe/requests/tests/tls.rs", "a"), "observe/requests/tests/tls.rs::a");
    }
}
