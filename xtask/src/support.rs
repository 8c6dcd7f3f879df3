//! The support page is generated: it says that something is tested only where tests prove it.
//!
//! `docs/support/` has the rows, and for each claim its tests. `docs/support.md` shows a claim as tested if its tests
//! exist ([`check`], without running them). `make test` fails if one of them did not run in an area that ran
//! ([`compare`]). A test that was skipped, because this machine lacks what it needs, proves and refutes nothing: the
//! committed page shows what machines with these tools have tested, and `out/test/support.md` what this machine has.

mod evidence;
mod matrix;
mod page;

use crate::shell::root;
use crate::test::results::{Results, TestOutcome, area_of};
use matrix::Section;

const PAGE: &str = "docs/support.md";
const COMMAND: &str = "cargo run -p xtask -- support";

/// Writes the page, and what the last `make test` of this machine proved to `out/test/support.md`. Fails if a named
/// test does not exist. Prints which ones did not run: they may be newer than the results.
pub fn support() -> Result<(), String> {
    let sections = matrix::read()?;
    let results = Results::load()?;
    let claims = Claims::of(&sections, &results, |_| true);
    write_local(&sections, &results)?;
    println!("{}", claims.summary());
    if !claims.refuted.is_empty() {
        println!("  `make test` must run the tests of these rows:\n   {}", claims.refuted.join("\n   "));
    }
    write(PAGE, &page::render(&sections, |_| true))
}

/// Fails if the committed page differs from its sources, or if they name a test that does not exist.
pub fn check() -> Result<String, String> {
    let sections = matrix::read()?;
    let rendered = page::render(&sections, |_| true);
    let committed = std::fs::read_to_string(root().join(PAGE)).map_err(|e| format!("{PAGE}: {e}"))?;
    match differing_lines(&committed, &rendered) {
        lines if lines.is_empty() && committed == rendered => {
            let claims = sections.iter().flat_map(|section| &section.entries).map(|entry| entry.claims.len());
            Ok(format!("{} claims with tests", claims.sum::<usize>()))
        }
        lines => Err(format!(
            "{PAGE} differs from {}/, from which it is generated:\n{}\n  next: {COMMAND}",
            matrix::FOLDER,
            lines.join("\n")
        )),
    }
}

/// Compares the claims with a run of these areas. Prints which ones were not confirmed here. The rows whose tests did
/// not run are returned.
pub fn compare(results: &Results, areas: &[&str]) -> Result<(), String> {
    let sections = matrix::read()?;
    write_local(&sections, results)?;
    let claims = Claims::of(&sections, results, |area| areas.contains(&area));
    if claims.confirmed + claims.skipped.len() + claims.refuted.len() > 0 {
        println!("\n{}", claims.summary());
    }
    claims.check()
}

/// The page as this machine can confirm it.
fn write_local(sections: &[Section], results: &Results) -> Result<(), String> {
    write("out/test/support.md", &page::render(sections, |id| results.outcome(id) == Some(TestOutcome::Passed)))
}

fn write(path: &str, text: &str) -> Result<(), String> {
    let path = root().join(path);
    let folder = path.parent().unwrap_or(&path);
    std::fs::create_dir_all(folder)
        .and_then(|()| std::fs::write(&path, text))
        .map_err(|e| format!("{}: {e}", path.display()))
}

/// What the results say about the claims.
#[derive(Debug, Default, PartialEq, Eq)]
struct Claims {
    confirmed: usize,
    /// Claims with tests in areas that did not run, or did not succeed.
    unknown: usize,
    /// Rows with tests that were skipped.
    skipped: Vec<String>,
    /// Rows with tests that failed or did not run although their area ran.
    refuted: Vec<String>,
}

impl Claims {
    fn of(sections: &[Section], results: &Results, has_run: impl Fn(&str) -> bool) -> Claims {
        let mut claims = Claims::default();
        for section in sections {
            for entry in &section.entries {
                let row = entry.subject.as_deref().unwrap_or("a paragraph");
                for ids in entry.claims.values() {
                    let is_known = |id: &String| has_run(area_of(id)) && results.has_area(area_of(id));
                    if !ids.iter().all(is_known) {
                        claims.unknown += 1;
                        continue;
                    }
                    let with =
                        |outcome| ids.iter().filter(|id| results.outcome(id) == outcome).cloned().collect::<Vec<_>>();
                    let missing = [with(None), with(Some(TestOutcome::Failed))].concat();
                    let skipped = with(Some(TestOutcome::Skipped));
                    let line = |ids: &[String]| format!("{}: {row}\n     {}", section.title, ids.join("\n     "));
                    if !missing.is_empty() {
                        claims.refuted.push(line(&missing));
                    } else if !skipped.is_empty() {
                        claims.skipped.push(line(&skipped));
                    } else {
                        claims.confirmed += 1;
                    }
                }
            }
        }
        claims
    }

    fn summary(&self) -> String {
        let mut text = format!(
            "support: {} claims confirmed, {} skipped here, {} of areas that did not run; out/test/support.md",
            self.confirmed,
            self.skipped.len(),
            self.unknown
        );
        if !self.skipped.is_empty() {
            text += &format!("\n  {PAGE} keeps these claims of machines that have what is missing here:\n   ");
            text += &self.skipped.join("\n   ");
        }
        text
    }

    fn check(&self) -> Result<(), String> {
        if self.refuted.is_empty() {
            return Ok(());
        }
        Err(format!(
            "{PAGE} has {} claims whose tests did not run or failed:\n   {}\n  next: correct the tests of these rows in {}/, \
             then {COMMAND}",
            self.refuted.len(),
            self.refuted.join("\n   "),
            matrix::FOLDER
        ))
    }
}

/// The lines that only one of the pages has, as in a diff.
fn differing_lines(committed: &str, rendered: &str) -> Vec<String> {
    let only = |one: &str, other: &str, sign: char| -> Vec<String> {
        let others: Vec<&str> = other.lines().collect();
        one.lines().filter(|line| !others.contains(line)).map(|line| format!("{sign} {line}")).collect()
    };
    [only(committed, rendered, '-'), only(rendered, committed, '+')].concat()
}

#[cfg(test)]
mod tests {
    use super::matrix::{Entry, Section};
    use super::{Claims, differing_lines};
    use crate::test::results::Results;

    fn sections(tests: &[&[&str]]) -> Vec<Section> {
        let entries = tests.iter().enumerate().map(|(index, ids)| Entry {
            subject: Some(format!("row {index}")),
            text: "{tested}".to_owned(),
            claims: [(String::new(), ids.iter().map(|id| (*id).to_owned()).collect())].into(),
        });
        vec![Section { title: "Go".to_owned(), entries: entries.collect() }]
    }

    fn results() -> Results {
        let text = r#"{"rust": {"base/a.rs::passes": "passed", "base/a.rs::skips": "skipped"}, "tool": {}}"#;
        serde_json::from_str(text).unwrap()
    }

    #[test]
    fn a_test_that_did_not_run_refutes_its_claim() {
        let sections = sections(&[&["base/a.rs::passes"], &["base/a.rs::passes", "base/a.rs::renamed"]]);
        let claims = Claims::of(&sections, &results(), |_| true);
        assert_eq!(claims.confirmed, 1);
        let error = claims.check().expect_err("one test did not run");
        assert!(error.contains("Go: row 1\n     base/a.rs::renamed\n"), "{error}");
        assert!(error.contains("cargo run -p xtask -- support"), "{error}");
    }

    #[test]
    fn a_skipped_test_is_reported_and_no_error() {
        let sections = sections(&[&["base/a.rs::passes", "base/a.rs::skips"]]);
        let claims = Claims::of(&sections, &results(), |_| true);
        assert_eq!((claims.confirmed, claims.skipped.len()), (0, 1));
        assert!(claims.summary().contains("Go: row 0\n     base/a.rs::skips"), "{}", claims.summary());
        assert_eq!(claims.check(), Ok(()));
    }

    #[test]
    fn claims_of_areas_that_did_not_run_are_not_compared() {
        let sections = sections(&[&["base/a.rs::passes", "cli/tests/a.rs::runs"], &["sdk/go/a_test.go::TestA"]]);
        let claims = Claims::of(&sections, &results(), |area| area != "tool");
        assert_eq!(claims, Claims { unknown: 2, ..Claims::default() });
        let claims = Claims::of(&sections, &results(), |_| true);
        assert_eq!((claims.unknown, claims.refuted.len()), (1, 1));
    }

    #[test]
    fn a_changed_row_is_shown_with_both_forms() {
        assert_eq!(
            differing_lines("# a\n| b | expected |\n", "# a\n| b | tested |\n"),
            ["- | b | expected |", "+ | b | tested |"]
        );
        assert_eq!(differing_lines("# a\n", "# a\n"), Vec::<String>::new());
    }
}
