//! `go test -v`: `--- PASS: TestName/subtest (0.1s)`, and after the tests of a package a line with its path.

use super::Named;
use crate::shell::root;
use crate::test::results::TestOutcome::{self, Failed, Passed, Skipped};
use std::path::Path;

/// The tests of the module in `folder`, a path from the root.
pub fn named(output: &str, folder: &Path) -> Named {
    let manifest = std::fs::read_to_string(root().join(folder).join("go.mod")).unwrap_or_default();
    let module = manifest.lines().find_map(|line| line.strip_prefix("module ")).unwrap_or_default().trim();
    let mut named = Vec::new();
    for (package, test, outcome) in outcomes(output) {
        let inside = package.strip_prefix(module).unwrap_or(package).trim_start_matches('/');
        let package_folder = folder.join(inside);
        let function = test.split('/').next().unwrap_or(test);
        if let Some(file) = file_of(&package_folder, function) {
            named.push((format!("{}::{test}", package_folder.join(file).display()), outcome));
        }
    }
    named
}

/// Package, test and outcome.
fn outcomes(output: &str) -> Vec<(&str, &str, TestOutcome)> {
    let (mut outcomes, mut of_package) = (Vec::new(), Vec::new());
    for line in output.lines() {
        let mut fields = line.split('\t');
        if matches!(fields.next(), Some("ok  " | "FAIL"))
            && let Some(package) = fields.next()
        {
            outcomes.extend(of_package.drain(..).map(|(test, outcome)| (package, test, outcome)));
            continue;
        }
        let Some((outcome, rest)) = line.trim_start().strip_prefix("--- ").and_then(|line| line.split_once(": "))
        else {
            continue;
        };
        let outcome = match outcome {
            "PASS" => Passed,
            "SKIP" => Skipped,
            "FAIL" => Failed,
            _ => continue,
        };
        of_package.push((rest.rsplit_once(" (").map_or(rest, |(test, _)| test), outcome));
    }
    outcomes
}

/// The name of the file that defines a test function.
fn file_of(package: &Path, function: &str) -> Option<String> {
    let definition = format!("func {function}(");
    let entries = std::fs::read_dir(root().join(package)).ok()?.filter_map(Result::ok);
    let mut tests = entries.filter(|entry| entry.file_name().to_string_lossy().ends_with("_test.go"));
    let found = tests.find(|entry| {
        let text = std::fs::read_to_string(entry.path()).unwrap_or_default();
        text.lines().any(|line| line.starts_with(&definition))
    })?;
    Some(found.file_name().to_string_lossy().into_owned())
}

#[cfg(test)]
mod tests {
    use super::{Failed, Passed, Skipped, named, outcomes};
    use std::path::Path;

    #[test]
    fn tests_belong_to_the_package_that_is_named_after_them() {
        let output = "=== RUN   TestA\n    --- SKIP: TestA/no_gdb (0.00s)\n        a_test.go:3: no gdb\n--- PASS: TestA (0.01s)\n\
            PASS\nok  \texample.org/a\t0.1s\n?   \texample.org/b\t[no test files]\n--- FAIL: TestB (0.00s)\nFAIL\n\
            FAIL\texample.org/c\t0.1s\nFAIL\n";
        let expected = [
            ("example.org/a", "TestA/no_gdb", Skipped),
            ("example.org/a", "TestA", Passed),
            ("example.org/c", "TestB", Failed),
        ];
        assert_eq!(outcomes(output), expected);
    }

    #[test]
    fn an_id_has_the_file_that_defines_the_test() {
        let output = "--- PASS: TestOriginOfCalls (0.00s)\n--- PASS: TestThatDoesNotExist (0.00s)\n\
            ok  \tfaultloom.dev/go/message/scope\t0.1s\n";
        let id = "sdk/go/message/scope/unscoped_test.go::TestOriginOfCalls";
        assert_eq!(named(output, Path::new("sdk/go")), [(id.to_owned(), Passed)]);
    }
}
