//! The XML reports of JUnit, which pytest and Maven's Surefire write: one `<testcase classname="…" name="…">` per test,
//! with a child `<skipped>`, `<failure>` or `<error>` if it did not pass.

use super::Named;
use crate::shell::root;
use crate::test::results::TestOutcome::{self, Failed, Passed, Skipped};
use regex::Regex;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

/// A test as the report names it.
#[derive(Debug, PartialEq, Eq)]
struct TestCase {
    class: String,
    name: String,
    outcome: TestOutcome,
}

/// The tests of pytest's report, with `folder` as the root of pytest.
pub fn python(report: &Path, folder: &Path) -> Result<Named, String> {
    let text = std::fs::read_to_string(report).map_err(|e| format!("{}: {e}", report.display()))?;
    let is_file = |path: &Path| root().join(folder).join(path).is_file();
    let cases = cases(&text).into_iter();
    Ok(cases
        .filter_map(|case| {
            let file = python_file(&case.class, is_file)?;
            Some((format!("{}::{}", folder.join(file).display(), case.name), case.outcome))
        })
        .collect())
}

/// `tests.test_a` or, for the methods of a class, `tests.test_a.TestClass`.
fn python_file(class: &str, is_file: impl Fn(&Path) -> bool) -> Option<PathBuf> {
    let mut parts: Vec<&str> = class.split('.').collect();
    while !parts.is_empty() {
        let file = parts.iter().collect::<PathBuf>().with_extension("py");
        if is_file(&file) {
            return Some(file);
        }
        parts.pop();
    }
    None
}

/// Tests of all reports below `folder` that were written since `begin`, with the paths of `sources` for their classes.
pub fn java(folder: &Path, begin: SystemTime, sources: &[String]) -> Result<Named, String> {
    let mut named = Vec::new();
    for report in reports(&root().join(folder))? {
        let written = report.metadata().and_then(|data| data.modified()).map_err(|e| e.to_string())?;
        if written < begin {
            continue;
        }
        let text = std::fs::read_to_string(&report).map_err(|e| format!("{}: {e}", report.display()))?;
        for case in cases(&text) {
            let class = case.class.split('$').next().unwrap_or_default().replace('.', "/");
            let file = sources.iter().find(|path| path.ends_with(&format!("/{class}.java")));
            let id = |file: &String| (format!("{file}::{}", java_name(&case.name)), case.outcome);
            named.extend(file.map(id));
        }
    }
    Ok(named)
}

/// `method(String)[1]`, `method{String}[1]` and `method[1]` are parameters of `method`.
fn java_name(name: &str) -> String {
    let method = name.split(['(', '{', '[']).next().unwrap_or_default().trim();
    match name.rfind('[') {
        Some(parameter) => format!("{method}{}", &name[parameter..]),
        None => method.to_owned(),
    }
}

/// `TEST-*.xml` in every folder `surefire-reports`.
fn reports(folder: &Path) -> Result<Vec<PathBuf>, String> {
    let mut found = Vec::new();
    let entries = std::fs::read_dir(folder).map_err(|e| format!("{}: {e}", folder.display()))?;
    for entry in entries.filter_map(Result::ok) {
        let name = entry.file_name().to_string_lossy().into_owned();
        if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            found.extend(reports(&entry.path())?);
        } else if folder.ends_with("surefire-reports") && name.starts_with("TEST-") && name.ends_with(".xml") {
            found.push(entry.path());
        }
    }
    found.sort();
    Ok(found)
}

/// The test cases of a report. What a test printed is in elements of its own, and escaped or in CDATA.
fn cases(report: &str) -> Vec<TestCase> {
    let Ok(opening) = Regex::new(r#"<testcase((?:\s+[\w-]+="[^"]*")*)\s*(/?)>"#) else { return Vec::new() };
    let attribute = |attributes: &str, name: &str| {
        let value = attributes.split_once(&format!(" {name}=\"")).and_then(|(_, rest)| rest.split_once('"'));
        value.map_or_else(String::new, |(value, _)| unescape(value))
    };
    opening
        .captures_iter(report)
        .map(|found| {
            let whole = found.get(0).map_or(0, |all| all.end());
            let body = if found[2].is_empty() { report[whole..].split("</testcase>").next() } else { None };
            let has = |child: &str| body.is_some_and(|body| is_child(body, child));
            let outcome = match () {
                () if has("failure") || has("error") => Failed,
                () if has("skipped") => Skipped,
                () => Passed,
            };
            TestCase { class: attribute(&found[1], "classname"), name: attribute(&found[1], "name"), outcome }
        })
        .collect()
}

/// Whether an element begins outside of CDATA sections.
fn is_child(body: &str, name: &str) -> bool {
    let mut outside = String::new();
    for (index, part) in body.split("<![CDATA[").enumerate() {
        outside += if index == 0 { part } else { part.split_once("]]>").map_or("", |(_, rest)| rest) };
    }
    let begins = |end: char| outside.contains(&format!("<{name}{end}"));
    [' ', '/', '>', '\n'].into_iter().any(begins)
}

fn unescape(text: &str) -> String {
    let text = text.replace("&lt;", "<").replace("&gt;", ">").replace("&quot;", "\"").replace("&apos;", "'");
    text.replace("&#10;", "\n").replace("&amp;", "&")
}

#[cfg(test)]
mod tests {
    use super::{Failed, Passed, Skipped, cases, java_name, python_file};
    use std::path::Path;

    #[test]
    fn cases_have_the_outcome_of_their_children() {
        let report = r#"<testsuite name="x" tests="4">
            <testcase classname="tests.test_a" name="test_a[&lt;b&gt;]" time="0.1" />
            <testcase name="c" classname="x.C" time="0.1"><system-out><![CDATA[<skipped>]]></system-out></testcase>
            <testcase name="d" classname="x.C"><skipped message="no helm"/></testcase>
            <testcase name="e" classname="x.C"><error type="a">&lt;testcase/&gt;</error></testcase></testsuite>"#;
        let found: Vec<_> = cases(report).into_iter().map(|case| (case.class, case.name, case.outcome)).collect();
        let expected = [
            ("tests.test_a", "test_a[<b>]", Passed),
            ("x.C", "c", Passed),
            ("x.C", "d", Skipped),
            ("x.C", "e", Failed),
        ];
        assert_eq!(found, expected.map(|(class, name, outcome)| (class.to_owned(), name.to_owned(), outcome)));
    }

    #[test]
    fn classes_of_python_are_in_the_file_of_their_module() {
        let is_file = |path: &Path| path == Path::new("tests/test_a.py");
        assert_eq!(python_file("tests.test_a", is_file).as_deref(), Some(Path::new("tests/test_a.py")));
        assert_eq!(python_file("tests.test_a.TestB", is_file).as_deref(), Some(Path::new("tests/test_a.py")));
        assert_eq!(python_file("tests.test_c", is_file), None);
    }

    #[test]
    fn parameters_of_java_are_at_the_end() {
        assert_eq!(java_name("delay"), "delay");
        assert_eq!(java_name("nameOf(String, int)[2]"), "nameOf[2]");
        assert_eq!(java_name("nameOf{String}[1]"), "nameOf[1]");
        assert_eq!(java_name("delay()"), "delay");
    }
}
