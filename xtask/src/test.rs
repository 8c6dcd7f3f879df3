//! `make test`: every area with a budget of minutes, set-up included. `make soak`: what takes longer.

use crate::setup::{
    self, CONNTRACK, DNSCACHE, IPROUTE, JDK, MAVEN, MEMCACHED, NFTABLES, NGINX, NODE, NPM, POSTGRESQL, ULOGD, WRK,
};
use crate::shell::{command, quiet, root, run, text};
use crate::stage::Stages;
use crate::{check, conform, programs};
use std::path::PathBuf;
use std::process::Command;
use std::sync::atomic::{AtomicU64, Ordering};

static PASSED: AtomicU64 = AtomicU64::new(0);
static FAILED: AtomicU64 = AtomicU64::new(0);
static SKIPPED: AtomicU64 = AtomicU64::new(0);

/// An area of the suite: its name, the minutes it may take on two cores, and what it does.
type Area = (&'static str, u32, fn() -> Result<String, String>);

const AREAS: [Area; 12] = [
    ("set-up", 12, set_up),
    ("check", 6, checks),
    ("rust", 9, rust_tests),
    ("vectors", 2, vectors),
    ("sdk go", 5, sdk_go),
    ("sdk python", 4, sdk_python),
    ("sdk java", 4, sdk_java),
    ("sdk node", 3, sdk_node),
    ("shop", 3, shop),
    ("tool", 9, tool),
    ("map", 5, map),
    ("benches", 6, benches),
];

/// All areas, or the named ones: what they need (the set-up) is then taken as done.
pub fn test(only: &[&str]) -> Result<(), String> {
    if let Some(unknown) = only.iter().find(|name| AREAS.iter().all(|(known, ..)| known != *name)) {
        let known: Vec<&str> = AREAS.iter().map(|(name, ..)| *name).collect();
        return Err(format!("there is no area '{unknown}'; there are: {}", known.join(", ")));
    }
    let areas: Vec<Area> = AREAS.into_iter().filter(|(name, ..)| only.is_empty() || only.contains(name)).collect();
    let mut stages = Stages::new();
    let mut failures: Vec<(&str, String)> = Vec::new();
    for (name, _, work) in &areas {
        let failed_before = FAILED.load(Ordering::Relaxed);
        if let Err(e) = stages.run(name, *work) {
            println!("{e}");
            // what failed without counting tests (a build, a lint) counts as one
            if FAILED.load(Ordering::Relaxed) == failed_before {
                FAILED.fetch_add(1, Ordering::Relaxed);
            }
            failures.push((name, e));
            // without its set-up nothing below says anything
            if *name == "set-up" {
                break;
            }
        }
    }
    println!();
    for ((name, seconds), (_, minutes, _)) in stages.seconds().iter().zip(&areas) {
        let budget = f64::from(*minutes) * 60.0;
        if *seconds > budget {
            println!(" {name} took {seconds:.0} s, its budget is {budget:.0} s");
        }
    }
    for (name, e) in &failures {
        println!(" ✗ {name}: {}", e.lines().next().unwrap_or_default());
    }
    if !failures.is_empty() {
        let names: Vec<&str> = failures.iter().map(|(name, _)| *name).collect();
        println!("failed areas: {}", names.join(", "));
    }
    let [passed, failed, skipped] = [&PASSED, &FAILED, &SKIPPED].map(|sum| sum.load(Ordering::Relaxed));
    println!("{passed} passed, {failed} failed, {skipped} skipped");
    if failures.is_empty() { Ok(()) } else { Err(format!("{} of {} areas failed", failures.len(), areas.len())) }
}

fn set_up() -> Result<String, String> {
    let languages = [&JDK, &MAVEN, &NODE, &NPM];
    let servers = [&MEMCACHED, &DNSCACHE, &NGINX, &POSTGRESQL];
    let network = [&NFTABLES, &CONNTRACK, &IPROUTE, &ULOGD, &WRK];
    let packages = match setup::packages(&[&languages[..], &servers, &network].concat()) {
        Ok(versions) => versions,
        // what needs them is skipped and counted where it would run
        Err(missing) => missing.lines().next().unwrap_or_default().to_owned(),
    };
    setup::build_tool()?;
    setup::build_agent()?;
    setup::build_node_sdk()?;
    setup::build_shop()?;
    setup::build_relay()?;
    setup::build_collector()?;
    Ok(packages)
}

fn checks() -> Result<String, String> {
    check::format()?;
    check::layers()?;
    check::places()?;
    check::lint()?;
    conform::drift()?;
    programs::drift()?;
    generated()?;
    Ok("format, layers, places, lint, drift, programs".into())
}

/// Code that was generated is what its generator writes now. Without the tools, and without a registry that has them, it is a skip.
fn generated() -> Result<(), String> {
    let listed = text("git", &["ls-files", "*/generate.sh"]);
    let changes = || quiet(&mut command("git", &["diff", "--", "lab", "bench"])).map(|output| output.stdout);
    let before = changes()?;
    for script in listed.lines() {
        if let Err(e) = quiet(&mut command("sh", &[script])) {
            println!("   skipped: {script}: {}", e.lines().last().unwrap_or_default());
            SKIPPED.fetch_add(1, Ordering::Relaxed);
        }
    }
    match changes()? == before {
        true => Ok(()),
        false => Err("generated code is not what its generate.sh writes now: look at `git diff`, and commit it".into()),
    }
}

/// Everything but the tool's end-to-end tests, which have an area of their own.
fn rust_tests() -> Result<String, String> {
    counted(&mut command("cargo", &["test", "--workspace", "--lib", "--bins"]))?;
    // the demo does without PostgreSQL, so it is no default
    counted(&mut command("cargo", &["test", "--package", "cmdb", "--features", "postgres", "--lib", "--tests"]))?;
    counted(&mut command("cargo", &["test", "--workspace", "--exclude", "faultloom", "--exclude", "cmdb", "--tests"]))
}

fn vectors() -> Result<String, String> {
    conform::conform().map(|()| "every SDK, every vector".into())
}

fn sdk_go() -> Result<String, String> {
    counted(command("go", &["test", "-v", "./..."]).current_dir(root().join("sdk/go")))?;
    for module in nested_modules("sdk/go")? {
        counted(command("go", &["test", "-v", "./..."]).current_dir(module))?;
    }
    Ok("stock peers, faults, overlays".into())
}

/// Modules below a module, which its own `./...` leaves out.
fn nested_modules(folder: &str) -> Result<Vec<PathBuf>, String> {
    let pattern = format!("{folder}/*/**/go.mod");
    let output =
        quiet(&mut command("git", &["ls-files", &format!(":(glob){pattern}"), &format!(":(glob){folder}/*/go.mod")]))?;
    let mut modules: Vec<PathBuf> = String::from_utf8_lossy(&output.stdout)
        .lines()
        .filter(|path| !path.contains("testdata"))
        .filter_map(|path| root().join(path).parent().map(PathBuf::from))
        .collect();
    modules.sort();
    modules.dedup();
    Ok(modules)
}

fn sdk_python() -> Result<String, String> {
    setup::venv("out/python-sdk", "sdk/python/requirements-test.txt")?;
    let python = root().join("out/python-sdk/bin/python");
    counted(command(&python.to_string_lossy(), &["-m", "pytest", "-rs"]).current_dir(root().join("sdk/python")))
}

fn sdk_java() -> Result<String, String> {
    let maven = ["--batch-mode", "--no-transfer-progress"];
    let all = counted(command("mvn", &maven).arg("test").current_dir(root().join("sdk/java")))?;
    // the oldest Java that is supported: what libraries and threads do is tried again with services on it
    let java = match setup::java_11() {
        Ok(java) => java,
        Err(e) => {
            println!("   skipped: Java 11: {}", e.lines().last().unwrap_or_default());
            SKIPPED.fetch_add(1, Ordering::Relaxed);
            return Ok(all);
        }
    };
    let tests = "-Dtest=GrpcTest,GrpcStreamsTest,HttpClientsTest,JettyTest,TomcatTest,ThreadsTest";
    let old = counted(
        command("mvn", &maven)
            .args([
                "test-compile",
                "surefire:test",
                "-pl",
                "agent",
                "-am",
                "-Dsurefire.failIfNoSpecifiedTests=false",
                tests,
            ])
            .env("FAULTLOOM_TEST_JAVA", java)
            .current_dir(root().join("sdk/java")),
    )?;
    Ok(format!("{all}; Java 11: {old}"))
}

fn sdk_node() -> Result<String, String> {
    setup::build_node_sdk()?;
    counted(command("npm", &["--loglevel=error", "test"]).current_dir(root().join("sdk/typescript")))
}

fn shop() -> Result<String, String> {
    counted(command("go", &["test", "-v", "./..."]).current_dir(root().join("lab/shop/go")))?;
    counted(
        command("mvn", &["--batch-mode", "--no-transfer-progress", "test"]).current_dir(root().join("lab/shop/java")),
    )?;
    setup::npm("lab/shop/node")?;
    counted(command("npm", &["--loglevel=error", "test"]).current_dir(root().join("lab/shop/node")))?;
    setup::venv("out/shop/test-venv", "lab/shop/python/requirements-test.txt")?;
    let python = root().join("out/shop/test-venv/bin/python");
    counted(&mut command(&python.to_string_lossy(), &["-m", "pytest", "-rs", "lab/shop/python"]))
}

fn tool() -> Result<String, String> {
    counted(&mut command("cargo", &["test", "--package", "faultloom", "--tests"]))
}

/// The agent with PostgreSQL built in, and that what measures it runs.
fn map() -> Result<String, String> {
    let arguments =
        ["test", "--package", "faultloom", "--features", "postgres", "--test", "agent", "--", "fleet", "database"];
    let counts = counted(&mut command("cargo", &arguments))?;
    if text("id", &["-u"]) != "0" {
        println!("   skipped: bench sockets, papers transtracer: a network namespace of their own needs root");
        SKIPPED.fetch_add(2, Ordering::Relaxed);
        return Ok(counts);
    }
    for words in [["bench", "sockets"], ["papers", "transtracer"]] {
        let mut call = command("cargo", &["run", "--quiet", "--package", "xtask", "--"]);
        quiet(call.args(words).env("FAULTLOOM_BENCH", "quick"))?;
    }
    Ok(counts)
}

/// Only that benches run; their figures mean nothing on a shared machine.
fn benches() -> Result<String, String> {
    for name in ["sweep", "attach", "tracing"] {
        quiet(
            command("cargo", &["run", "--quiet", "--package", "xtask", "--", "bench", name])
                .env("FAULTLOOM_BENCH", "quick"),
        )?;
    }
    Ok("they run".into())
}

/// Runs a test program, prints its last lines on failure, and adds what it counted.
fn counted(command: &mut Command) -> Result<String, String> {
    let output = command.output().map_err(|e| format!("{}: {e}", crate::shell::words(command)))?;
    let all = format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    let counts = Counts::of(&all);
    PASSED.fetch_add(counts.passed, Ordering::Relaxed);
    FAILED.fetch_add(counts.failed, Ordering::Relaxed);
    SKIPPED.fetch_add(counts.skipped, Ordering::Relaxed);
    if !output.status.success() {
        let lines: Vec<&str> = all
            .lines()
            .filter(|l| !l.starts_with("=== ") && !l.contains("--- PASS") && !l.ends_with("... ok"))
            .collect();
        let tail = lines[lines.len().saturating_sub(120)..].join("\n");
        return Err(format!("failed: {}\n{tail}", crate::shell::words(command)));
    }
    for reason in counts.reasons {
        println!("   skipped: {reason}");
    }
    Ok(format!("{} passed, {} skipped", counts.passed, counts.skipped))
}

/// What runners say at their end: cargo's and pytest's sums, Go's lines per test, our own `skipped:` lines.
#[derive(Default)]
struct Counts {
    passed: u64,
    failed: u64,
    skipped: u64,
    reasons: Vec<String>,
}

impl Counts {
    fn of(output: &str) -> Counts {
        let mut counts = Counts::default();
        let number_before = |line: &str, word: &str| -> u64 {
            let before = line.split(word).next().unwrap_or_default();
            before.rsplit(|c: char| !c.is_ascii_digit()).next().and_then(|n| n.parse().ok()).unwrap_or(0)
        };
        for line in output.lines() {
            let trimmed = line.trim_start();
            let pytest = trimmed.contains(" in ") && (trimmed.contains(" passed") || trimmed.contains(" failed"));
            let pytest = pytest && trimmed.trim_start_matches(['=', ' ']).starts_with(|c: char| c.is_ascii_digit());
            if trimmed.starts_with("test result:") || pytest {
                if trimmed.contains(" passed") {
                    counts.passed += number_before(trimmed, " passed");
                }
                if trimmed.contains(" failed") {
                    counts.failed += number_before(trimmed, " failed");
                }
                let word = if trimmed.contains(" ignored") { " ignored" } else { " skipped" };
                if trimmed.contains(word) {
                    counts.skipped += number_before(trimmed, word);
                }
            } else if let Some(sum) = surefire_sum(line) {
                let [run, failed, skipped] = sum;
                counts.passed += run.saturating_sub(failed + skipped);
                counts.failed += failed;
                counts.skipped += skipped;
            } else if let Some(n) = node_sum(line, "pass") {
                counts.passed += n;
            } else if let Some(n) = node_sum(line, "fail") {
                counts.failed += n;
            } else if let Some(n) = node_sum(line, "skipped") {
                counts.skipped += n;
            } else if trimmed.starts_with("--- PASS:") {
                counts.passed += 1;
            } else if trimmed.starts_with("--- FAIL:") {
                counts.failed += 1;
            } else if trimmed.starts_with("--- SKIP:") {
                counts.skipped += 1;
                counts.reasons.push(trimmed.trim_start_matches("--- SKIP: ").to_owned());
            } else if let Some(reason) = trimmed.strip_prefix("skipped: ") {
                counts.skipped += 1;
                counts.reasons.push(reason.to_owned());
            } else if let Some((_, reason)) = line.split_once(" # SKIP ") {
                counts.reasons.push(reason.to_owned());
            } else if trimmed.starts_with("SKIPPED [") {
                counts.reasons.push(trimmed.to_owned());
            }
        }
        counts
    }
}

/// Tests run, failed and skipped by the sum of a Maven module: `[INFO] Tests run: 11, Failures: 0, Errors: 0, Skipped: 0`, which unlike
/// the lines per class ends there.
fn surefire_sum(line: &str) -> Option<[u64; 3]> {
    let rest = line.split_once("] Tests run: ")?.1;
    let numbers: Vec<u64> = rest.split(", ").filter_map(|part| part.rsplit(' ').next()?.parse().ok()).collect();
    match numbers[..] {
        [run, failures, errors, skipped] if rest.split(", ").count() == 4 => Some([run, failures + errors, skipped]),
        _ => None,
    }
}

/// A sum of Node's test runner, such as `# pass 11` or `ℹ pass 11`.
fn node_sum(line: &str, what: &str) -> Option<u64> {
    let rest = line.strip_prefix("# ").or_else(|| line.strip_prefix("ℹ "))?;
    rest.strip_prefix(what)?.trim().parse().ok()
}

/// Fuzzing of everything that parses, more seeds, the sanitised Go suite. Half an hour or so.
pub fn soak() -> Result<(), String> {
    let mut stages = Stages::new();
    stages.run("set-up", set_up)?;
    stages.run("mutants", || {
        let seed = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).map_or(1, |d| d.as_secs());
        crate::conform::mutants::compare(seed, crate::conform::mutants::MANY)
    })?;
    stages.run("go race", || counted(command("go", &["test", "-race", "./..."]).current_dir(root().join("sdk/go"))))?;
    stages.run("go fuzz", || fuzz_go("60s"))?;
    stages.run("properties", || {
        counted(command("cargo", &["test", "--workspace", "--lib"]).env("PROPTEST_CASES", "200000"))
    })?;
    stages.run("seeds", || {
        counted(command("cargo", &["test", "--package", "faultloom", "--tests"]).env("FAULTLOOM_SOAK", "1"))
    })?;
    stages.run("python", || {
        setup::venv("out/python-sdk", "sdk/python/requirements-test.txt")?;
        let python = root().join("out/python-sdk/bin/python");
        let mut call = command(&python.to_string_lossy(), &["-m", "pytest", "-rs"]);
        counted(call.current_dir(root().join("sdk/python")).env("FAULTLOOM_SOAK", "1"))
    })
}

fn fuzz_go(each: &str) -> Result<String, String> {
    let folder = root().join("sdk/go");
    let found = text("grep", &["-rnoE", "--include=*_test.go", "func Fuzz[A-Za-z0-9_]+", &folder.to_string_lossy()]);
    let mut targets = 0;
    for line in found.lines() {
        let (Some(file), Some(name)) = (line.split(':').next(), line.rsplit(' ').next()) else { continue };
        let package = PathBuf::from(file).parent().map(PathBuf::from).unwrap_or_default();
        run(command("go", &["test", "-run", "^$", "-fuzz", &format!("^{name}$"), "-fuzztime", each, "."])
            .current_dir(package))?;
        targets += 1;
    }
    Ok(format!("{targets} targets, {each} each"))
}

#[cfg(test)]
mod tests {
    use super::Counts;

    #[test]
    fn every_runner_is_counted() {
        let output = "test result: ok. 5 passed; 0 failed; 1 ignored; 0 measured\n--- PASS: TestA (0.00s)\n    --- PASS: TestA/b (0.00s)\n--- SKIP: TestC (0.00s)\nskipped: no memcached\n22 passed, 3 skipped in 5.1s\n\
            [INFO] Tests run: 2, Failures: 0, Errors: 0, Skipped: 0, Time elapsed: 0.1 s -- in A\n\
            [WARNING] Tests run: 12, Failures: 0, Errors: 0, Skipped: 1\n# tests 9\n# pass 7\n# skipped 2\n";
        let counts = Counts::of(output);
        assert_eq!((counts.passed, counts.failed, counts.skipped, counts.reasons.len()), (47, 0, 9, 2));
        let output = "test result: FAILED. 5 passed; 2 failed; 0 ignored; 0 measured\n--- FAIL: TestA (0.00s)\n\
            ===== 1 failed, 22 passed, 3 skipped in 5.1s =====\n4 failed in 1.0s\n\
            [ERROR] Tests run: 12, Failures: 1, Errors: 2, Skipped: 1\n# pass 7\n# fail 3\n";
        let counts = Counts::of(output);
        assert_eq!((counts.passed, counts.failed, counts.skipped), (5 + 22 + 8 + 7, 2 + 1 + 1 + 4 + 3 + 3, 4));
    }
}
