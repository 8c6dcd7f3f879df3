//! The outcome of every named test of a run, in `out/test/results.json`.
//!
//! An id is `FILE::TEST` with the path of the file from the root of the repository, or `STEP::NAME` for a step that is
//! not a test of a test runner, such as `replies::go/net-http`. Ids of one area are replaced whenever that area runs.
//! The support page is rendered from them, see [`crate::support`].

use super::runtimes;
use crate::shell::root;
use regex::Regex;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::{Mutex, PoisonError};

/// In the order of precedence: of several runs or parameters of one test, the last of these counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TestOutcome {
    Passed,
    Skipped,
    Failed,
}

/// What ran in this process.
static RECORDED: Mutex<BTreeMap<String, TestOutcome>> = Mutex::new(BTreeMap::new());

/// Records a test or step. Repeated ids keep the worst outcome.
pub fn record(id: String, outcome: TestOutcome) {
    let mut recorded = RECORDED.lock().unwrap_or_else(PoisonError::into_inner);
    let worst = recorded.get(&id).map_or(outcome, |before| outcome.max(*before));
    recorded.insert(id, worst);
}

/// The step of a version, see [`runtimes`].
const RUNTIME: &str = "runtime::";

/// Outcomes by area and id.
#[derive(Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Results(BTreeMap<String, BTreeMap<String, TestOutcome>>);

fn path() -> PathBuf {
    root().join("out/test/results.json")
}

impl Results {
    /// The results of earlier runs. Empty if there was none.
    pub fn load() -> Result<Results, String> {
        let path = path();
        match std::fs::read_to_string(&path) {
            Ok(text) => serde_json::from_str(&text).map_err(|e| format!("{}: {e}", path.display())),
            Err(e) if e.kind() == std::io::ErrorKind::NotFound => Ok(Results::default()),
            Err(e) => Err(format!("{}: {e}", path.display())),
        }
    }

    /// Replaces the results of these areas by those of this process, and writes the file. Areas that did not succeed
    /// have no results: a test that did not run there would count as renamed.
    pub fn update(ended: &[&str], succeeded: &[&str]) -> Result<Results, String> {
        let recorded = RECORDED.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let mut results = Results::load()?;
        results.replace(ended, succeeded, recorded);
        let text = serde_json::to_string_pretty(&results).map_err(|e| e.to_string())?;
        std::fs::write(path(), text + "\n").map_err(|e| format!("{}: {e}", path().display()))?;
        Ok(results)
    }

    fn replace(&mut self, ended: &[&str], succeeded: &[&str], recorded: BTreeMap<String, TestOutcome>) {
        self.0.retain(|area, _| !ended.contains(&area.as_str()));
        self.0.extend(succeeded.iter().map(|area| ((*area).to_owned(), BTreeMap::new())));
        for (id, outcome) in recorded {
            if let Some(area) = self.0.get_mut(area_of(&id)).filter(|_| succeeded.contains(&area_of(&id))) {
                area.insert(id, outcome);
            }
        }
    }

    /// Whether an area has run.
    pub fn has_area(&self, area: &str) -> bool {
        self.0.contains_key(area)
    }

    /// The worst outcome of a test with its subtests (`id/…`) and parameters (`id[…]`). A name of Node.js may be a
    /// template: `${library}: …` stands for every test whose name has this form. A version with which nothing ran is
    /// skipped. `None` if nothing of this ran.
    pub fn outcome(&self, id: &str) -> Option<TestOutcome> {
        let ran = self.0.get(area_of(id))?;
        if id.contains("${") {
            let form = template(id)?;
            return ran.iter().filter(|(id, _)| form.is_match(id)).map(|(_, outcome)| *outcome).max();
        }
        let is_part =
            |other: &str| other.strip_prefix(id).is_some_and(|rest| rest.is_empty() || rest.starts_with(['/', '[']));
        let worst = ran
            .range(id.to_owned()..)
            .take_while(|(other, _)| other.starts_with(id))
            .filter(|(other, _)| is_part(other))
            .map(|(_, outcome)| *outcome)
            .max();
        worst.or(id.starts_with(RUNTIME).then_some(TestOutcome::Skipped))
    }
}

/// A template literal as a regular expression.
fn template(id: &str) -> Option<Regex> {
    let mut pattern = "^".to_owned();
    let mut rest = id;
    while let Some((before, after)) = rest.split_once("${") {
        pattern += &regex::escape(before);
        pattern += "(?s:.+)";
        rest = after.split_once('}')?.1;
    }
    Regex::new(&(pattern + &regex::escape(rest) + "$")).ok()
}

/// The area of `make test` that runs a test or step.
pub fn area_of(id: &str) -> &'static str {
    const FOLDERS: [(&str, &str); 7] = [
        ("sdk/go/", "sdk-go"),
        ("sdk/java/", "sdk-java"),
        ("sdk/python/", "sdk-python"),
        ("sdk/typescript/", "sdk-node"),
        ("lab/shop/", "shop"),
        ("cli/tests/", "tool"),
        ("observe/sockets/", "sockets"),
    ];
    const STEPS: [(&str, &str); 11] = [
        ("replies::go", "sdk-go"),
        ("replies::java", "sdk-java"),
        ("replies::python", "sdk-python"),
        ("replies::node", "sdk-node"),
        ("java-11::", "sdk-java"),
        ("vectors::", "vectors"),
        ("install::", "install"),
        ("bench::flips", "flips"),
        ("bench::sockets", "map"),
        ("bench::", "benches"),
        ("papers::sei", "flips"),
    ];
    if let Some(area) = id.strip_prefix(RUNTIME).and_then(runtimes::area_of) {
        return area;
    }
    let known = FOLDERS.iter().chain(&STEPS).find(|(begin, _)| id.starts_with(begin));
    known.map_or(if id.starts_with("papers::") { "map" } else { "rust" }, |(_, area)| area)
}

#[cfg(test)]
mod tests {
    use super::TestOutcome::{Failed, Passed, Skipped};
    use super::{Results, TestOutcome, area_of};
    use std::collections::BTreeMap;

    fn recorded(list: &[(&str, TestOutcome)]) -> BTreeMap<String, TestOutcome> {
        list.iter().map(|(id, outcome)| ((*id).to_owned(), *outcome)).collect()
    }

    #[test]
    fn the_worst_part_of_a_test_counts() {
        let mut results = Results::default();
        results.replace(
            &[],
            &["sdk-go", "sdk-python", "sdk-node"],
            recorded(&[
                ("sdk/go/a_test.go::TestA", Passed),
                ("sdk/go/a_test.go::TestA/b", Skipped),
                ("sdk/go/a_test.go::TestAll", Failed),
                ("sdk/python/tests/test_a.py::test_a[x]", Passed),
                ("sdk/python/tests/test_a.py::test_a[y]", Failed),
                ("sdk/typescript/test/a.test.js::http: a call of fetch", Passed),
                ("sdk/typescript/test/a.test.js::grpc: a call of fetch", Passed),
                ("replies::go/grpc", Passed),
                ("runtime::go-1.26", Passed),
            ]),
        );
        assert_eq!(results.outcome("sdk/go/a_test.go::TestA"), Some(Skipped));
        assert_eq!(results.outcome("sdk/go/a_test.go::TestA/b"), Some(Skipped));
        assert_eq!(results.outcome("sdk/go/a_test.go::TestB"), None);
        assert_eq!(results.outcome("sdk/python/tests/test_a.py::test_a"), Some(Failed));
        assert_eq!(results.outcome("sdk/python/tests/test_a.py::test_a[x]"), Some(Passed));
        assert_eq!(results.outcome("sdk/typescript/test/a.test.js::${name}: a call of ${client}"), Some(Passed));
        assert_eq!(results.outcome("sdk/typescript/test/a.test.js::${name}: another call"), None);
        assert_eq!(results.outcome("replies::go"), Some(Passed));
        assert_eq!(results.outcome("replies::java"), None);
        assert_eq!(results.outcome("runtime::go-1.26"), Some(Passed));
        assert_eq!(results.outcome("runtime::go-1.27"), Some(Skipped));
        assert_eq!(results.outcome("runtime::java-17"), None);
    }

    #[test]
    fn an_area_that_runs_again_loses_its_old_results() {
        let mut results = Results::default();
        let first = recorded(&[("sdk/go/a_test.go::TestA", Passed), ("base/a.rs::a", Passed)]);
        results.replace(&["sdk-go", "rust"], &["sdk-go", "rust"], first);
        results.replace(&["sdk-go"], &["sdk-go"], recorded(&[("sdk/go/a_test.go::TestB", Passed)]));
        assert_eq!(results.outcome("sdk/go/a_test.go::TestA"), None);
        assert_eq!(results.outcome("sdk/go/a_test.go::TestB"), Some(Passed));
        assert_eq!(results.outcome("base/a.rs::a"), Some(Passed));
        results.replace(&["sdk-go"], &[], recorded(&[("sdk/go/a_test.go::TestB", Passed)]));
        assert!(!results.has_area("sdk-go") && results.has_area("rust"), "a failed area has no results");
    }

    #[test]
    fn every_id_has_an_area() {
        assert_eq!(area_of("cli/tests/https.rs::a"), "tool");
        assert_eq!(area_of("cli/src/args.rs::a"), "rust");
        assert_eq!(area_of("papers::transtracer"), "map");
        assert_eq!(area_of("bench::attach"), "benches");
        assert_eq!(area_of("replies::node/fetch"), "sdk-node");
    }
}
