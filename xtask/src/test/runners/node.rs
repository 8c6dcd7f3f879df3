//! Node.js: a reporter of ours, because the reports of Node.js do not name the file of a test.

use super::Named;
use crate::shell::root;
use crate::test::results::TestOutcome;
use serde::Deserialize;
use std::path::{Path, PathBuf};
use std::process::Command;

/// One line of the reporter.
#[derive(Deserialize)]
struct Line {
    file: PathBuf,
    name: String,
    outcome: TestOutcome,
}

/// `npm test` in `folder` (a path from the root), which also writes the names of its tests to `names`.
pub fn command(folder: &str, names: &Path) -> Command {
    let reporter = root().join("xtask/src/test/runners/node-reporter.mjs");
    let mut npm = crate::shell::command("npm", &["--loglevel=error", "test", "--"]);
    npm.args(["--test-reporter=tap", "--test-reporter-destination=stdout"]);
    npm.arg(format!("--test-reporter={}", reporter.display()));
    npm.arg(format!("--test-reporter-destination={}", names.display()));
    npm.current_dir(root().join(folder));
    npm
}

pub fn named(names: &Path) -> Result<Named, String> {
    let failed = |e: &dyn std::fmt::Display| format!("{}: {e}", names.display());
    let text = std::fs::read_to_string(names).map_err(|e| failed(&e))?;
    let lines = text.lines().map(serde_json::from_str).collect::<Result<Vec<Line>, _>>().map_err(|e| failed(&e))?;
    Ok(lines.into_iter().map(|line| (format!("{}::{}", source(&line.file), line.name), line.outcome)).collect())
}

/// The path of a test's source from the root: `dist/a.test.js` is compiled from `src/a.test.ts`.
fn source(file: &Path) -> String {
    let file = file.strip_prefix(root()).unwrap_or(file).to_string_lossy().into_owned();
    match file.split_once("/dist/") {
        Some((package, compiled)) => format!("{package}/src/{}.ts", compiled.trim_end_matches(".js")),
        None => file,
    }
}

#[cfg(test)]
mod tests {
    use super::source;
    use crate::shell::root;
    use std::path::Path;

    #[test]
    fn compiled_tests_have_the_path_of_their_source() {
        let compiled = root().join("sdk/typescript/dist/wire/wire.test.js");
        assert_eq!(source(&compiled), "sdk/typescript/src/wire/wire.test.ts");
        assert_eq!(source(Path::new("lab/shop/node/test/a.test.js")), "lab/shop/node/test/a.test.js");
    }
}
