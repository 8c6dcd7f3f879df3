//! The tests that the support matrix names, found in the sources.
//!
//! A row names a test as `FILE::TEST`, where the file is the end of a path that only one file of the repository has, or
//! a step of `make test` as `STEP::NAME`. The search is for text, as [`crate::check::names`] does it: it finds a test
//! that was renamed or deleted. Whether it runs and passes is known after `make test` only.

use crate::check::text_files;
use crate::{conform, package, replies, test};
use std::collections::BTreeMap;
use std::path::Path;

/// Files that may contain tests.
const PATHSPECS: [&str; 6] = ["*.rs", "*_test.go", "*/test_*.py", "*.java", "*.test.js", "*.test.ts"];
/// The programs that call every library for `replies`.
const DRIVERS: [(&str, &str); 4] = [
    ("go", "sdk/go/internal/replies/main.go"),
    ("java", "sdk/java/agent/src/test/java/example/peer/ReplyDriver.java"),
    ("node", "sdk/typescript/test/apps/replies.js"),
    ("python", "sdk/python/tests/apps/replies.py"),
];

/// The sources of all tests by path.
pub struct Evidence(BTreeMap<String, String>);

impl Evidence {
    pub fn read() -> Result<Evidence, String> {
        let files = text_files(&[&PATHSPECS[..], &DRIVERS.map(|(_, driver)| driver)].concat())?;
        Ok(Evidence(files.into_iter().collect()))
    }

    /// The id of a named test or step in the results of `make test`. An error says why it does not exist.
    pub fn id(&self, name: &str) -> Result<String, String> {
        let (place, test) = name.split_once("::").ok_or("a test is written FILE::TEST or STEP::NAME")?;
        if Path::new(place).extension().is_none() {
            return if self.is_step(place, test) {
                Ok(name.to_owned())
            } else {
                Err("there is no such step".to_owned())
            };
        }
        let is_named = |path: &&String| *path == place || path.ends_with(&format!("/{place}"));
        let found: Vec<&String> = self.0.keys().filter(is_named).collect();
        match found[..] {
            [] => Err(format!("there is no file {place} with tests")),
            [file] if self.is_defined(file, test) => Ok(format!("{file}::{test}")),
            [file] => Err(format!("{file} defines no such test")),
            [first, second, ..] => Err(format!("several files end like this: write more of {first} or {second}")),
        }
    }

    fn is_defined(&self, file: &str, test: &str) -> bool {
        let Some(text) = self.0.get(file) else { return false };
        let has_line = |begins: &[String]| {
            text.lines().any(|line| begins.iter().any(|begin| line.trim_start().starts_with(begin)))
        };
        match Path::new(file).extension().and_then(|extension| extension.to_str()) {
            Some("rs") => has_line(&[format!("fn {test}("), format!("async fn {test}(")]),
            Some("py") => {
                let function = test.split('[').next().unwrap_or(test);
                has_line(&[format!("def {function}("), format!("async def {function}(")])
            }
            Some("go") => {
                let mut parts = test.split('/');
                let function = parts.next().unwrap_or(test);
                // Go replaces the blanks in the names of subtests
                has_line(&[format!("func {function}(")]) && parts.all(|part| text.replace(' ', "_").contains(part))
            }
            Some("java") => {
                let method = format!(" void {}(", test.split('[').next().unwrap_or(test));
                text.lines().any(|line| format!(" {line}").contains(&method)) || self.is_inherited(file, text, test)
            }
            Some("js" | "ts") => {
                ['\'', '"', '`'].into_iter().any(|quote| text.contains(&format!("{quote}{test}{quote}")))
            }
            _ => false,
        }
    }

    /// Whether a superclass in the same folder defines a test of Java.
    fn is_inherited(&self, file: &str, text: &str, test: &str) -> bool {
        let superclass = text.split_once(" extends ").and_then(|(_, rest)| rest.split([' ', '<']).next());
        let folder = Path::new(file).parent();
        let other = superclass.zip(folder).map(|(class, folder)| folder.join(format!("{class}.java")));
        other.is_some_and(|other| other.to_str().is_some_and(|other| other != file && self.is_defined(other, test)))
    }

    fn is_step(&self, step: &str, name: &str) -> bool {
        match step {
            "replies" => {
                let (language, library) = name.split_once('/').map_or((name, None), |(one, two)| (one, Some(two)));
                let driver = DRIVERS.iter().find(|(own, _)| *own == language).and_then(|(_, file)| self.0.get(*file));
                let is_called = |driver: &String| match library {
                    None => true,
                    Some(library) => {
                        let quoted =
                            ["\"", "'"].into_iter().any(|quote| driver.contains(&format!("{quote}{library}{quote}")));
                        quoted || driver.lines().any(|line| line.trim_start().starts_with(&format!("{library}:")))
                    }
                };
                replies::LANGUAGES.contains(&language) && driver.is_some_and(is_called)
            }
            "vectors" => conform::LANGUAGES.contains(&name),
            "install" => package::uses().any(|one| one == name),
            "runtime" => test::runtimes::area_of(name).is_some(),
            "java-11" => test::JAVA_11_TESTS.contains(&name),
            _ => test::QUICK.contains(&format!("{step}::{name}").as_str()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Evidence;

    fn evidence() -> Evidence {
        let files = [
            ("cli/tests/https.rs", "#[test]\nfn a_login_works() {\n"),
            ("base/a/src/tests.rs", "    #[test]\n    fn is_a() {\n"),
            ("base/b/src/tests.rs", "    #[test]\n    fn is_b() {\n"),
            ("sdk/go/a/a_test.go", "func TestA(t *testing.T) {\n\tt.Run(\"over TLS\", b)\n"),
            ("sdk/python/tests/test_a.py", "def test_a(x):\n\nclass TestB:\n    async def test_b(self):\n"),
            ("sdk/java/x/BaseTests.java", "abstract class BaseTests {\n    @Test\n    void inherited() {\n"),
            ("sdk/java/x/JettyTest.java", "final class JettyTest extends BaseTests {\n    @Test void own() {\n"),
            (
                "sdk/typescript/test/a.test.js",
                "test('is traced', a);\nfor (const b of c) test(`${b}: is traced`, d);\n",
            ),
            ("sdk/go/internal/replies/main.go", "\t{\"grpc-stream\", byStream},\n"),
        ];
        Evidence(files.map(|(path, text)| (path.to_owned(), text.to_owned())).into())
    }

    #[test]
    fn tests_of_every_language_are_found() {
        let evidence = evidence();
        let expected = [
            ("https.rs::a_login_works", "cli/tests/https.rs::a_login_works"),
            ("a/src/tests.rs::is_a", "base/a/src/tests.rs::is_a"),
            ("a_test.go::TestA", "sdk/go/a/a_test.go::TestA"),
            ("a_test.go::TestA/over_TLS", "sdk/go/a/a_test.go::TestA/over_TLS"),
            ("test_a.py::test_a", "sdk/python/tests/test_a.py::test_a"),
            ("test_a.py::test_a[x]", "sdk/python/tests/test_a.py::test_a[x]"),
            ("test_a.py::test_b", "sdk/python/tests/test_a.py::test_b"),
            ("JettyTest.java::own", "sdk/java/x/JettyTest.java::own"),
            ("JettyTest.java::inherited", "sdk/java/x/JettyTest.java::inherited"),
            ("a.test.js::is traced", "sdk/typescript/test/a.test.js::is traced"),
            ("a.test.js::${b}: is traced", "sdk/typescript/test/a.test.js::${b}: is traced"),
            ("replies::go", "replies::go"),
            ("replies::go/grpc-stream", "replies::go/grpc-stream"),
            ("install::sample", "install::sample"),
            ("bench::flips", "bench::flips"),
            ("java-11::GrpcTest", "java-11::GrpcTest"),
            ("runtime::node-20", "runtime::node-20"),
        ];
        for (name, id) in expected {
            assert_eq!(evidence.id(name).as_deref(), Ok(id), "{name}");
        }
    }

    #[test]
    fn what_does_not_exist_is_refused_with_the_reason() {
        let evidence = evidence();
        let refused = [
            ("https.rs", "FILE::TEST"),
            ("htt.rs::a_login_works", "no file htt.rs"),
            ("https.rs::a_login", "cli/tests/https.rs defines no such test"),
            ("tests.rs::is_a", "write more of base/a/src/tests.rs or base/b/src/tests.rs"),
            ("a_test.go::TestA/over_UDP", "defines no such test"),
            ("test_a.py::test", "defines no such test"),
            ("JettyTest.java::inherit", "defines no such test"),
            ("a.test.js::traced", "defines no such test"),
            ("replies::go/fasthttp", "no such step"),
            ("replies::rust", "no such step"),
            ("install::moon", "no such step"),
            ("bench::install", "no such step"),
            ("runtime::node", "no such step"),
        ];
        for (name, reason) in refused {
            let error = evidence.id(name).expect_err(name);
            assert!(error.contains(reason), "{name}: {error}");
        }
    }
}
