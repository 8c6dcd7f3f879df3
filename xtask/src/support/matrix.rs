//! The source of the support page: `docs/support/*.yaml`.
//!
//! A file is one section of the page, in the order of the names of the files. Its entries are rows of a table
//! (`subject` and `state`) and paragraphs (`text`). A state or a text claims that something is tested with a mark,
//! `{tested}` or `{tested NAME}`, and the entry's `tests` prove it. The word itself cannot be written: only the
//! renderer writes it.

use super::evidence::Evidence;
use crate::check::text_files;
use regex::Regex;
use serde::Deserialize;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::LazyLock;

pub const FOLDER: &str = "docs/support";
/// The mark of a row that has tests and no `state`.
const MARK: &str = "{tested}";

static MARKS: LazyLock<Regex> = LazyLock::new(|| {
    Regex::new(r"\{tested(?: ([a-z0-9-]+))?\}").unwrap_or_else(|e| panic!("the expression of marks: {e}"))
});
static WORD: LazyLock<Regex> =
    LazyLock::new(|| Regex::new(r"(?i)\btested\b").unwrap_or_else(|e| panic!("the expression of the word: {e}")));

/// One section of the page.
#[derive(Debug)]
pub struct Section {
    pub title: String,
    pub entries: Vec<Entry>,
}

/// A row or a paragraph.
#[derive(Debug)]
pub struct Entry {
    /// The left cell of a row. `None`: a paragraph.
    pub subject: Option<String>,
    /// The right cell or the paragraph, with marks.
    pub text: String,
    /// The ids of the tests behind each mark, by the mark's name. It is empty for the mark `{tested}`.
    pub claims: BTreeMap<String, Vec<String>>,
}

/// A section as it is written.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct WrittenSection {
    title: String,
    entries: Vec<WrittenEntry>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct WrittenEntry {
    subject: Option<String>,
    state: Option<String>,
    text: Option<String>,
    #[serde(default)]
    tests: WrittenTests,
}

/// A list if there is one claim, else the lists by the names of the marks.
#[derive(Deserialize)]
#[serde(untagged)]
enum WrittenTests {
    One(Vec<String>),
    Several(BTreeMap<String, Vec<String>>),
}

impl Default for WrittenTests {
    fn default() -> WrittenTests {
        WrittenTests::Several(BTreeMap::new())
    }
}

/// Reads all sections. The error lists everything that is wrong, with the file and the row.
pub fn read() -> Result<Vec<Section>, String> {
    let mut files = text_files(&[&format!("{FOLDER}/*.yaml")])?;
    files.sort();
    let evidence = Evidence::read()?;
    let (mut sections, mut wrong) = (Vec::new(), Vec::new());
    for (file, text) in files {
        match parse(&text, &evidence) {
            Ok(section) => sections.push(section),
            Err(reasons) => wrong.extend(reasons.into_iter().map(|reason| format!("{file}: {reason}"))),
        }
    }
    match (wrong.is_empty(), sections.is_empty()) {
        (false, _) => Err(wrong.join("\n")),
        (true, true) => Err(format!("there is no {FOLDER}/*.yaml")),
        (true, false) => Ok(sections),
    }
}

fn parse(text: &str, evidence: &Evidence) -> Result<Section, Vec<String>> {
    let written: WrittenSection = serde_saphyr::from_str(text).map_err(|e| vec![e.to_string()])?;
    let (mut entries, mut wrong) = (Vec::new(), Vec::new());
    let mut subjects = BTreeSet::new();
    for entry in written.entries {
        let name = entry.subject.clone().or_else(|| entry.text.clone()).unwrap_or_default();
        let name: String = name.chars().take(70).collect();
        if let Some(subject) = &entry.subject
            && !subjects.insert(subject.clone())
        {
            wrong.push(format!("'{name}': there are two rows with this subject"));
        }
        match entry.check(evidence) {
            Ok(entry) => entries.push(entry),
            Err(reasons) => wrong.extend(reasons.into_iter().map(|reason| format!("'{name}': {reason}"))),
        }
    }
    if WORD.is_match(&written.title) {
        wrong.push("the title claims that something is tested".to_owned());
    }
    if wrong.is_empty() { Ok(Section { title: written.title, entries }) } else { Err(wrong) }
}

impl WrittenEntry {
    fn check(self, evidence: &Evidence) -> Result<Entry, Vec<String>> {
        let tests = match self.tests {
            WrittenTests::One(tests) => BTreeMap::from([(String::new(), tests)]),
            WrittenTests::Several(tests) => tests,
        };
        let (subject, text) = match (self.subject, self.state, self.text) {
            (Some(subject), Some(state), None) => (Some(subject), state),
            (Some(subject), None, None) if !tests.is_empty() => (Some(subject), MARK.to_owned()),
            (None, None, Some(text)) => (None, text.trim_end().to_owned()),
            (Some(_), None, None) => return Err(vec!["a row has a `state`, `tests` or both".to_owned()]),
            _ => return Err(vec!["an entry has a `subject` with a `state`, or a `text`".to_owned()]),
        };
        let mut wrong = Vec::new();
        if let Some(subject) = &subject
            && [subject, &text].into_iter().any(|cell| cell.contains(['|', '\n']))
        {
            wrong.push("a cell has neither `|` nor several lines".to_owned());
        }
        let rest = MARKS.replace_all(&text, "");
        if WORD.is_match(&rest) || subject.as_ref().is_some_and(|subject| WORD.is_match(subject)) {
            wrong.push("the word is written for a claim that has tests: write {tested} and name them".to_owned());
        }
        let mut marks: Vec<&str> =
            MARKS.captures_iter(&text).map(|mark| mark.get(1).map_or("", |name| name.as_str())).collect();
        marks.sort_unstable();
        if marks != tests.keys().map(String::as_str).collect::<Vec<_>>() {
            let named: Vec<&String> = tests.keys().collect();
            wrong.push(format!("the marks {marks:?} and the names of tests {named:?} are not the same"));
        }
        let mut claims = BTreeMap::new();
        for (mark, names) in tests {
            if names.is_empty() {
                wrong.push("a claim has no tests".to_owned());
            }
            let mut ids = Vec::new();
            for name in names {
                match evidence.id(&name) {
                    Ok(id) => ids.push(id),
                    Err(reason) => wrong.push(format!("{name}: {reason}")),
                }
            }
            claims.insert(mark, ids);
        }
        if wrong.is_empty() { Ok(Entry { subject, text, claims }) } else { Err(wrong) }
    }
}

impl Entry {
    /// The text with `word` in place of each mark. It gets the tests of the mark.
    pub fn render(&self, word: impl Fn(&[String]) -> &'static str) -> String {
        let name = |mark: &regex::Captures<'_>| mark.get(1).map_or(String::new(), |name| name.as_str().to_owned());
        let replace =
            |mark: &regex::Captures<'_>| word(self.claims.get(&name(mark)).map_or(&[], Vec::as_slice)).to_owned();
        MARKS.replace_all(&self.text, replace).into_owned()
    }
}

#[cfg(test)]
mod tests {
    use super::{Evidence, parse};

    const TEST: &str = "xtask/src/support/matrix.rs::a_row_names_the_tests_of_its_claims";

    fn reasons(entry: &str) -> String {
        let text = format!("title: \"Go\"\nentries:\n{entry}");
        parse(&text, &Evidence::read().unwrap()).expect_err(entry).join("\n")
    }

    #[test]
    fn a_row_names_the_tests_of_its_claims() {
        let text = format!(
            "title: \"Go\"\nentries:\n  - subject: \"a\"\n    tests: [\"{TEST}\"]\n  - subject: \"b\"\n    \
             state: \"{{tested one}} with 1, {{tested two}} with 2; 3 expected\"\n    tests:\n      \
             one: [\"support/matrix.rs::a_row_names_the_tests_of_its_claims\"]\n      two: [\"{TEST}\"]\n  \
             - text: |\n      Calls of `{{id}}`:\n      {{tested}}.\n    tests: [\"{TEST}\"]\n  - subject: \"c\"\n    state: \"no\"\n"
        );
        let section = parse(&text, &Evidence::read().unwrap()).unwrap();
        let texts: Vec<String> =
            section.entries.iter().map(|entry| entry.render(|ids| if ids == [TEST] { "T" } else { "?" })).collect();
        assert_eq!(texts, ["T", "T with 1, T with 2; 3 expected", "Calls of `{id}`:\nT.", "no"]);
    }

    #[test]
    fn the_word_cannot_be_written() {
        for entry in [
            "  - subject: \"a\"\n    state: \"Tested with 1.0\"\n",
            "  - subject: \"a, tested\"\n    state: \"no\"\n",
            "  - text: \"It is tested.\"\n",
        ] {
            assert!(reasons(entry).contains("write {tested} and name them"), "{entry}");
        }
        let text = "title: \"Tested\"\nentries: []\n";
        assert!(parse(text, &Evidence::read().unwrap()).is_err());
    }

    #[test]
    fn a_claim_and_its_tests_belong_together() {
        assert!(reasons("  - subject: \"a\"\n    state: \"{tested}\"\n").contains("not the same"));
        assert!(
            reasons("  - subject: \"a\"\n    state: \"{tested b}\"\n    tests: [\"c.rs::d\"]\n")
                .contains("not the same")
        );
        assert!(
            reasons(&format!("  - subject: \"a\"\n    state: \"no\"\n    tests: [\"{TEST}\"]\n"))
                .contains("not the same")
        );
        assert!(reasons("  - subject: \"a\"\n    tests: []\n").contains("a claim has no tests"));
        let deleted = reasons("  - subject: \"a\"\n    tests: [\"support/matrix.rs::a_deleted_test\"]\n");
        assert_eq!(deleted, "'a': support/matrix.rs::a_deleted_test: xtask/src/support/matrix.rs defines no such test");
    }

    #[test]
    fn the_form_is_checked() {
        assert!(reasons("  - subject: \"a\"\n").contains("a row has a `state`"));
        assert!(reasons("  - state: \"no\"\n").contains("an entry has a `subject`"));
        assert!(reasons("  - subject: \"a | b\"\n    state: \"no\"\n").contains("a cell has"));
        assert!(reasons("  - subject: \"a\"\n    stat: \"no\"\n").contains("stat"));
        let twice = "  - subject: \"a\"\n    state: \"no\"\n  - subject: \"a\"\n    state: \"expected\"\n";
        assert!(reasons(twice).contains("two rows"));
    }
}
