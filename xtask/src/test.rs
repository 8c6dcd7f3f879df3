//! `make test`: the areas of the test run, including set-up.

mod binaries;
mod counts;
pub mod results;
mod runners;
pub mod runtimes;
mod soak;

pub use soak::soak;

use crate::areas::{self, Area, Outcome};
use crate::bench::attach;
use crate::cargo::PREBUILT;
use crate::setup::{
    self, CHROMIUM, CONNTRACK, DNSCACHE, IPROUTE, JDK, JQ, LUA, MAVEN, MEMCACHED, NFTABLES, NGINX, NODE, NPM,
    POSTGRESQL, PYTHON, REDIS, ULOGD, WRK,
};
use crate::shell::{built, command, quiet, root, text};
use crate::{bpf_objects, check, conform, package, replies, support};
use binaries::{binaries, build_rust};
use counts::{Counts, add_passed, counted, counted_by_name, failed, record_failure, record_skip, sums};
use results::{TestOutcome, record};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Instant, SystemTime};

/// Areas of the set-up, in order. `set-up` on the command line selects all of them.
const SET_UP: [&str; 4] = ["packages", "build-rust", "build-sdks", "build-apps"];

fn areas() -> Vec<Area> {
    let area = |name, budget_min, needs, work| Area { name, budget_min, needs, alone: false, work };
    let alone = |name, budget_min, needs, work| Area { name, budget_min, needs, alone: true, work };
    vec![
        area("packages", 3, &[], packages),
        area("build-rust", 8, &["packages"], build_rust),
        area("build-sdks", 4, &["packages"], build_sdks),
        area("build-apps", 3, &["build-rust", "build-sdks"], build_apps),
        // the longest areas start first
        area("tool", 12, &["build-apps"], tool),
        area("sdk-go", 4, &["packages"], sdk_go),
        area("sdk-java", 4, &["build-sdks"], sdk_java),
        area("check", 8, &["build-rust"], checks),
        area("rust", 8, &["build-rust"], rust_tests),
        area("flips", 5, &["build-rust"], flips),
        area("sdk-python", 4, &["packages"], sdk_python),
        area("sdk-node", 3, &["build-sdks"], sdk_node),
        area("page", 6, &["build-rust"], page),
        area("shop", 3, &["build-apps"], shop),
        area("vectors", 1, &["build-rust", "build-sdks"], vectors),
        area("benches", 6, &["build-apps"], benches),
        area("install", 5, &["build-apps"], install),
        alone("sockets", 3, &["build-rust"], socket_tests),
        alone("map", 4, &["build-apps"], map),
    ]
}

/// Runs all areas, or the named ones. For named areas, the set-up must have run before.
pub fn test(only: &[&str]) -> Result<(), String> {
    let all = areas();
    let is_selected = |name: &str| only.contains(&name) || (only.contains(&"set-up") && SET_UP.contains(&name));
    if let Some(unknown) = only.iter().find(|name| **name != "set-up" && all.iter().all(|area| area.name != **name)) {
        let names: Vec<&str> = all.iter().map(|area| area.name).collect();
        return Err(format!("there is no area '{unknown}'; areas: set-up, {}", names.join(", ")));
    }
    // the tool exists if an earlier run has built it
    let is_cold = !std::path::Path::new(&built("faultloom")).exists();
    let begin = Instant::now();
    let chosen = all.into_iter().filter(|area| only.is_empty() || is_selected(area.name)).collect();
    let ended = areas::run(chosen, "test")?;
    let seconds = begin.elapsed().as_secs_f64();
    if only.is_empty() {
        record_minutes(&ended, seconds, is_cold)?;
    }
    // a note until every area has been compared on a machine of its own: the names that runners print are read here
    let page = match compare_support(&ended) {
        Ok(()) => Ok(()),
        Err(rows) if rows.contains("did not run") => {
            println!("{rows}");
            record_skip("support page: rows whose tests were not found among those that ran, see above");
            Ok(())
        }
        Err(e) => Err(e),
    };
    summarize(&ended, seconds, page)
}

/// The summary of an area that confirms nothing.
const SKIPPED: &str = "skipped";

/// Records the outcomes of all tests and compares them with the support page, as far as their areas have succeeded.
fn compare_support(ended: &[Outcome]) -> Result<(), String> {
    let names = |is_wanted: fn(&Outcome) -> bool| -> Vec<&str> {
        ended.iter().filter(|area| is_wanted(area)).map(|area| area.name).collect()
    };
    let succeeded = names(|area| area.result.as_deref().is_ok_and(|said| said != SKIPPED));
    for area in &succeeded {
        record_steps("runtime", runtimes::of_area(area).iter().map(String::as_str), TestOutcome::Passed);
    }
    let results = results::Results::update(&names(|_| true), &succeeded)?;
    support::compare(&results, &succeeded)
}

/// Prints minutes per area and the totals. The last line has the counts of all tests.
fn summarize(ended: &[Outcome], seconds: f64, support: Result<(), String>) -> Result<(), String> {
    println!("\n {:<11} {:>7} {:>7}", "area", "minutes", "budget");
    for area in ended {
        let over = if area.seconds > f64::from(area.budget_min) * 60.0 { "  over budget" } else { "" };
        println!(" {:<11} {:>7.1} {:>7}{over}", area.name, area.seconds / 60.0, area.budget_min);
    }
    println!(" {:<11} {:>7.1}   logs: out/test/AREA.log\n", "total", seconds / 60.0);
    let failures: Vec<&str> = ended.iter().filter(|area| area.result.is_err()).map(|area| area.name).collect();
    if !failures.is_empty() {
        println!("failed areas: {}", failures.join(", "));
    }
    if let Err(e) = &support {
        println!("{e}\n");
    }
    // a failed build or lint without test counts is counted as one failure
    if (!failures.is_empty() || support.is_err()) && failed() == 0 {
        record_failure();
    }
    println!("{}", sums());
    match (failures.len(), support) {
        (0, Ok(())) => Ok(()),
        (0, Err(_)) => Err("the support page claims what was not tested: see above".to_owned()),
        (count, _) => Err(format!("{count} of {} areas failed", ended.len())),
    }
}

/// Writes the minutes of a full run to `out/test/minutes.json` for `make bench-build`.
fn record_minutes(ended: &[Outcome], seconds: f64, is_cold: bool) -> Result<(), String> {
    let minutes = |seconds: f64| (seconds / 6.0).round() / 10.0;
    let areas: serde_json::Map<String, serde_json::Value> =
        ended.iter().map(|area| (area.name.to_owned(), minutes(area.seconds).into())).collect();
    let value = serde_json::json!({
        "areas": areas,
        "total_min": minutes(seconds),
        "cold": is_cold,
        "commit": text("git", &["rev-parse", "--short", "HEAD"]),
        "tests": sums(),
    });
    let path = root().join("out/test/minutes.json");
    std::fs::write(&path, format!("{value:#}\n")).map_err(|e| format!("{}: {e}", path.display()))
}

fn packages() -> Result<String, String> {
    let languages = [&JDK, &MAVEN, &NODE, &NPM, &CHROMIUM];
    let servers = [&MEMCACHED, &DNSCACHE, &NGINX, &POSTGRESQL, &LUA, &PYTHON, &JQ, &REDIS];
    let network = [&NFTABLES, &CONNTRACK, &IPROUTE, &ULOGD, &WRK];
    match setup::packages(&[&languages[..], &servers, &network].concat()) {
        Ok(versions) => Ok(format!("{} packages", versions.split(", ").count())),
        // tests that need them are skipped and counted
        Err(missing) => Ok(missing.lines().next().unwrap_or_default().to_owned()),
    }
}

/// Every package in a clean Debian.
fn install() -> Result<String, String> {
    if text("id", &["-u"]) != "0" {
        record_skip("packages: only root can make a clean root");
        record_steps("install", package::uses(), TestOutcome::Skipped);
        return Ok(SKIPPED.to_owned());
    }
    package::test().inspect(|_| record_steps("install", package::uses(), TestOutcome::Passed))
}

fn build_sdks() -> Result<String, String> {
    setup::build_agent()?;
    setup::build_node_sdk()?;
    setup::venv("out/python-sdk", "sdk/python/requirements-test.txt")?;
    Ok("Java, Node.js, Python".into())
}

fn build_apps() -> Result<String, String> {
    setup::build_shop()?;
    setup::build_relay()?;
    setup::build_bookstore()?;
    setup::build_collector()?;
    setup::kubernetes_validate()?;
    Ok("shop, relay, bookstore, collector".into())
}

fn checks() -> Result<String, String> {
    check::format()?;
    check::layers()?;
    check::text()?;
    check::lint()?;
    bpf_objects::drift()?;
    generated()?;
    Ok("format, layers, text, lint, drift".into())
}

/// Fails if committed generated code differs from the output of its generator. Skipped if the generator cannot be
/// installed.
fn generated() -> Result<(), String> {
    let listed = text("git", &["ls-files", "*/generate.sh"]);
    let changes = || quiet(&mut command("git", &["diff", "--", "lab", "bench"])).map(|output| output.stdout);
    let before = changes()?;
    for script in listed.lines() {
        if let Err(e) = quiet(&mut command("sh", &[script])) {
            record_skip(&format!("{script}: {}", e.lines().last().unwrap_or_default()));
        }
    }
    match changes()? == before {
        true => Ok(()),
        false => {
            Err("generated code differs from the output of its generate.sh: review `git diff` and commit it".into())
        }
    }
}

/// All Rust tests except the end-to-end tests of the tool and the tests of `sockets`, which have their own areas.
fn rust_tests() -> Result<String, String> {
    binaries(|test| test.package != "sockets" && (test.package != "faultloom" || test.is_unit), &[], &[])
}

/// These tests run alone, because under load the kernel drops events and the counts of connections differ.
fn socket_tests() -> Result<String, String> {
    binaries(|test| test.package == "sockets", &[], &[])
}

fn tool() -> Result<String, String> {
    binaries(|test| test.package == "faultloom" && !test.is_unit, &[], &[])
}

/// Records steps that are not tests of a test runner under the ids `AREA::NAME`.
fn record_steps<'a>(area: &str, names: impl IntoIterator<Item = &'a str>, outcome: TestOutcome) {
    names.into_iter().for_each(|name| record(format!("{area}::{name}"), outcome));
}

fn vectors() -> Result<String, String> {
    let sums = conform::conform()?;
    add_passed(&sums);
    record_steps("vectors", conform::LANGUAGES, TestOutcome::Passed);
    Ok(sums)
}

fn go_test(folder: &Path) -> Result<Counts, String> {
    let mut go = command("go", &["test", "-v", "./..."]);
    counted_by_name(go.current_dir(root().join(folder)), |output| Ok(runners::go::named(output, folder)))
}

fn sdk_go() -> Result<String, String> {
    let mut counts = go_test(Path::new("sdk/go"))?;
    for module in nested_modules("sdk/go")? {
        counts = counts + go_test(&module)?;
    }
    Ok(format!("{counts}; {}", compare_replies("go")?))
}

/// Compares replies that end badly with and without tracing, for all libraries of one language.
fn compare_replies(language: &str) -> Result<String, String> {
    let counts = replies::replies(&[language]).inspect_err(|_| record_failure())?;
    let sums = format!("{} passed", counts.compared);
    add_passed(&sums);
    record_steps("replies", counts.libraries.iter().map(String::as_str), TestOutcome::Passed);
    let rare = if counts.rare > 0 { format!(", {} rare differences: see the log", counts.rare) } else { String::new() };
    Ok(format!("replies: {sums}{rare}"))
}

/// The folders of nested Go modules, which `./...` of the outer module does not include.
fn nested_modules(folder: &str) -> Result<Vec<PathBuf>, String> {
    let pattern = format!("{folder}/*/**/go.mod");
    let output =
        quiet(&mut command("git", &["ls-files", &format!(":(glob){pattern}"), &format!(":(glob){folder}/*/go.mod")]))?;
    let mut modules: Vec<PathBuf> = String::from_utf8_lossy(&output.stdout)
        .lines()
        .filter(|path| !path.contains("testdata"))
        .filter_map(|path| Path::new(path).parent().map(PathBuf::from))
        .collect();
    modules.sort();
    modules.dedup();
    Ok(modules)
}

fn sdk_python() -> Result<String, String> {
    setup::venv("out/python-sdk", "sdk/python/requirements-test.txt")?;
    let counts = pytest("out/python-sdk", "sdk/python")?;
    Ok(format!("{counts}; {}", compare_replies("python")?))
}

/// The tests of a Python project, with the interpreter of an environment.
fn pytest(environment: &str, folder: &str) -> Result<Counts, String> {
    let python = root().join(environment).join("bin/python");
    let report = root().join("out/test").join(format!("{}.xml", folder.replace('/', "-")));
    let mut pytest = command(&python.to_string_lossy(), &["-m", "pytest", "-rs", "--rootdir=."]);
    pytest.arg(format!("--junitxml={}", report.display())).current_dir(root().join(folder));
    counted_by_name(&mut pytest, |_| runners::junit::python(&report, Path::new(folder)))
}

/// A Maven command in a project, with the tests that it runs.
fn maven(maven: &mut Command, folder: &str) -> Result<Counts, String> {
    let sources =
        text("git", &["ls-files", "--cached", "--others", "--exclude-standard", &format!("{folder}/*Test.java")]);
    let sources: Vec<String> = sources.lines().map(str::to_owned).collect();
    let begin = SystemTime::now();
    counted_by_name(maven.current_dir(root().join(folder)), |_| {
        runners::junit::java(Path::new(folder), begin, &sources)
    })
}

/// Classes of tests that also run with services on the oldest supported Java.
pub const JAVA_11_TESTS: [&str; 6] =
    ["GrpcTest", "GrpcStreamsTest", "HttpClientsTest", "JettyTest", "TomcatTest", "ThreadsTest"];

fn sdk_java() -> Result<String, String> {
    let batch = ["--batch-mode", "--no-transfer-progress"];
    let all = maven(command("mvn", &batch).arg("test"), "sdk/java")?;
    let all = format!("{all}; {}", compare_replies("java")?);
    let java = match setup::java_11() {
        Ok(java) => java,
        Err(e) => {
            record_skip(&format!("Java 11: {}", e.lines().last().unwrap_or_default()));
            record_steps("java-11", JAVA_11_TESTS, TestOutcome::Skipped);
            return Ok(all);
        }
    };
    let tests = format!("-Dtest={}", JAVA_11_TESTS.join(","));
    let selected = ["test-compile", "surefire:test", "-pl", "agent", "-am"];
    let mut old = command("mvn", &batch);
    old.args(selected).args(["-Dsurefire.failIfNoSpecifiedTests=false", &tests]).env("FAULTLOOM_TEST_JAVA", java);
    let old = maven(&mut old, "sdk/java")?;
    record_steps("java-11", JAVA_11_TESTS, TestOutcome::Passed);
    Ok(format!("{all}; Java 11: {old}"))
}

fn sdk_node() -> Result<String, String> {
    setup::build_node_sdk()?;
    let counts = npm_test("sdk/typescript")?;
    Ok(format!("{counts}; {}", compare_replies("node")?))
}

fn npm_test(folder: &str) -> Result<Counts, String> {
    let names = root().join("out/test").join(format!("{}.names", folder.replace('/', "-")));
    counted_by_name(&mut runners::node::command(folder, &names), |_| runners::node::named(&names))
}

/// The workbench's page: it builds to the committed files, its unit tests, and its tests in Chromium.
fn page() -> Result<String, String> {
    setup::npm("ui")?;
    let npm = |script: &str| {
        let mut npm = command("npm", &["run", "--loglevel=error", script]);
        npm.env("NO_COLOR", "1").current_dir(root().join("ui"));
        npm
    };
    quiet(&mut npm("types:write"))?;
    // also files that are new: the page would lack them in every checkout
    let written = text("git", &["status", "--porcelain", "--", "ui/src/model/view.ts", "ui/dist"]);
    if !written.is_empty() {
        return Err(format!("not what `npm run types:write` and `npm run build` write in ui; commit it\n{written}"));
    }
    let counts = counted(&mut npm("test"))?;
    if let Err(missing) = setup::packages(&[&CHROMIUM]) {
        record_skip(&format!("page in Chromium: {}", missing.lines().next().unwrap_or_default()));
        return Ok(counts.to_string());
    }
    crate::cargo::build(&["--package", "report", "--example", "view_fixture"])?;
    let in_chromium = counted(npm("test:page").env("VIEW_FIXTURE", built("examples/view_fixture")))?;
    Ok((counts + in_chromium).to_string())
}

fn shop() -> Result<String, String> {
    let mut counts = go_test(Path::new("lab/shop/go"))?;
    let test = ["--batch-mode", "--no-transfer-progress", "test"];
    counts = counts + maven(&mut command("mvn", &test), "lab/shop/java")?;
    setup::npm("lab/shop/node")?;
    counts = counts + npm_test("lab/shop/node")?;
    setup::venv("out/shop/test-venv", "lab/shop/python/requirements-test.txt")?;
    Ok((counts + pytest("out/shop/test-venv", "lab/shop/python")?).to_string())
}

/// What [`quick`] runs, as `KIND::NAME`.
pub const QUICK: [&str; 8] = [
    "bench::sweep",
    "bench::attach",
    "bench::tracing",
    "bench::robust",
    "bench::sockets",
    "bench::flips",
    "papers::sei",
    "papers::transtracer",
];

/// Runs a bench or the measurements of a paper in the quick form.
fn quick(kind: &str, name: &str) -> Result<(), String> {
    let mut call = command(&built("xtask"), &[kind, name]);
    quiet(call.env("FAULTLOOM_BENCH", "quick").env(PREBUILT, "1"))?;
    record_steps(kind, [name], TestOutcome::Passed);
    Ok(())
}

/// Records that [`quick`] cannot run this here.
fn skip_quick(kind: &str, name: &str, reason: &str) {
    record_skip(&format!("{kind} {name}: {reason}"));
    record_steps(kind, [name], TestOutcome::Skipped);
}

/// Checks that the measurements of the agent run.
fn map() -> Result<String, String> {
    let measurements = [("bench", "sockets"), ("papers", "transtracer")];
    if text("id", &["-u"]) != "0" {
        for (kind, name) in measurements {
            skip_quick(kind, name, "creating a network namespace needs root");
        }
        return Ok(String::new());
    }
    measurements.into_iter().try_for_each(|(kind, name)| quick(kind, name))?;
    Ok("completed".into())
}

/// Checks that the measurements of bit-flip campaigns run, and that optimizations do not change results.
fn flips() -> Result<String, String> {
    let measurements = [("bench", "flips"), ("papers", "sei")];
    let tool = built("faultloom");
    let trial =
        command(&tool, &["--home", "out/bench/flips-tried", "flip", "--quiet", "--count", "1", "--", "echo", "tried"])
            .output()
            .map_err(|e| format!("{tool}: {e}"))?;
    let refused = String::from_utf8_lossy(&trial.stderr);
    if trial.status.code() == Some(3) {
        for (kind, name) in measurements {
            skip_quick(kind, name, refused.lines().next().unwrap_or_default());
        }
        return Ok(String::new());
    }
    measurements.into_iter().try_for_each(|(kind, name)| quick(kind, name))?;
    no_differences()
}

/// Fails if a `_differences` goal of the bench is not met. Unlike durations, these do not depend on load.
fn no_differences() -> Result<String, String> {
    unmet("flips", |goal| goal["name"].as_str().is_some_and(|name| name.ends_with("_differences")))?;
    Ok("completed, no differences".into())
}

/// Fails if a goal of the bench's quick form is not met, of those that do not depend on load.
fn unmet(bench: &str, is_independent_of_load: fn(&serde_json::Value) -> bool) -> Result<(), String> {
    let path = root().join(format!("bench/results/quick-{bench}.json"));
    let text = std::fs::read_to_string(&path).map_err(|e| format!("{}: {e}", path.display()))?;
    let result: serde_json::Value = serde_json::from_str(&text).map_err(|e| format!("{}: {e}", path.display()))?;
    let unmet: Vec<&str> = result["goals"]
        .as_array()
        .into_iter()
        .flatten()
        .filter(|goal| goal["met"] == false && is_independent_of_load(goal))
        .filter_map(|goal| goal["name"].as_str())
        .collect();
    if unmet.is_empty() { Ok(()) } else { Err(format!("{}: not met: {}", path.display(), unmet.join(", "))) }
}

/// Goals of the bench `attach` that depend on load, or that a documented limit of Node.js leaves unmet.
const LOAD_OR_LIMITS: [&str; 4] = [
    "seconds_to_first_tree",
    "manifests_seconds_to_first_tree",
    attach::NODE_WORKER_GOALS[0],
    attach::NODE_WORKER_GOALS[1],
];

/// Checks that benches run. Their durations are not meaningful on a busy machine; the counts of `attach` and `robust`
/// are.
fn benches() -> Result<String, String> {
    for name in ["sweep", "attach", "tracing", "robust"] {
        quick("bench", name)?;
    }
    unmet("attach", |goal| goal["name"].as_str().is_some_and(|name| !LOAD_OR_LIMITS.contains(&name)))?;
    unmet("robust", |goal| goal["name"] != "verify_us")?;
    Ok("completed".into())
}
