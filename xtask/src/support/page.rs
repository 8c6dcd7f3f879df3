//! Renders the support matrix as Markdown.

use super::matrix::{Entry, Section};

const HEAD: &str = "# Support

| word | meaning |
|---|---|
| **tested** | a test in this repository covers it; [the sources of this page](support/) name the test |
| **expected** | should work; no test covers it |
| **refused** | the SDK or the tool reports by name that it does not support this, and leaves the program unchanged |
| **no** | not supported yet |
";

const TESTED: &str = "tested";
const EXPECTED: &str = "expected";

/// The page, where a claim is tested if `is_proved` holds for every test behind it.
pub fn render(sections: &[Section], is_proved: impl Fn(&str) -> bool) -> String {
    let mut page = HEAD.to_owned();
    for section in sections {
        page += &format!("\n## {}\n", section.title);
        let mut is_table = false;
        for entry in &section.entries {
            let text = cell(entry, &is_proved);
            match &entry.subject {
                Some(subject) => {
                    page += if is_table { "" } else { "\n| | |\n|---|---|\n" };
                    page += &format!("| {subject} | {text} |\n");
                }
                None => page += &format!("\n{text}\n"),
            }
            is_table = entry.subject.is_some();
        }
    }
    page
}

fn cell(entry: &Entry, is_proved: &impl Fn(&str) -> bool) -> String {
    entry.render(|ids| if ids.iter().all(|id| is_proved(id)) { TESTED } else { EXPECTED })
}

#[cfg(test)]
mod tests {
    use super::{HEAD, render};
    use crate::support::matrix::{Entry, Section};

    fn entry(subject: Option<&str>, text: &str, claims: &[(&str, &[&str])]) -> Entry {
        let ids = |ids: &[&str]| ids.iter().map(|id| (*id).to_owned()).collect();
        let claims = claims.iter().map(|(mark, list)| ((*mark).to_owned(), ids(list))).collect();
        Entry { subject: subject.map(str::to_owned), text: text.to_owned(), claims }
    }

    #[test]
    fn a_claim_is_tested_if_all_its_tests_are_proved() {
        let entries = vec![
            entry(Some("a"), "{tested}", &[("", &["t1", "t2"])]),
            entry(Some("b"), "{tested x} with 1, {tested y} with 2", &[("x", &["t1"]), ("y", &["t2"])]),
            entry(None, "Calls of `{id}`: {tested}.", &[("", &["t1"])]),
            entry(Some("c"), "no", &[]),
        ];
        let sections = [Section { title: "Go".to_owned(), entries }];
        let expected = "\n## Go\n\n| | |\n|---|---|\n| a | expected |\n| b | tested with 1, expected with 2 |\n\n\
            Calls of `{id}`: tested.\n\n| | |\n|---|---|\n| c | no |\n";
        assert_eq!(render(&sections, |id| id == "t1").strip_prefix(HEAD), Some(expected));
        let all = render(&sections, |_| true);
        assert!(all.contains("| a | tested |") && all.contains("| b | tested with 1, tested with 2 |"), "{all}");
    }
}
