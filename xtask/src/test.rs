//! `make test`: every area with a budget of minutes, set-up included.

mod counts;
mod soak;

pub use soak::soak;

use crate::setup::{
    self, CONNTRACK, DNSCACHE, IPROUTE, JDK, MAVEN, MEMCACHED, NFTABLES, NGINX, NODE, NPM, POSTGRESQL, ULOGD, WRK,
};
use crate::shell::{built, command, quiet, root, text};
use crate::stage::Stages;
use crate::{check, conform, programs};
use counts::{counted, failed, failure, skip, sums};
use std::path::PathBuf;

/// An area of the suite: its name, the minutes it may take on two cores, and what it does.
type Area = (&'static str, u32, fn() -> Result<String, String>);

const AREAS: [Area; 13] = [
    ("set-up", 12, set_up),
    ("check", 6, checks),
    ("rust", 9, rust_tests),
    ("vectors", 2, vectors),
    ("sdk-go", 5, sdk_go),
    ("sdk-python", 4, sdk_python),
    ("sdk-java", 4, sdk_java),
    ("sdk-node", 3, sdk_node),
    ("shop", 3, shop),
    ("tool", 9, tool),
    ("map", 5, map),
    ("flips", 5, flips),
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
        let failed_before = failed();
        if let Err(e) = stages.run(name, *work) {
            println!("{e}");
            // what failed without counting tests (a build, a lint) counts as one
            if failed() == failed_before {
                failure();
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
    println!("{}", sums());
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
            skip(&format!("{script}: {}", e.lines().last().unwrap_or_default()));
        }
    }
    match changes()? == before {
        true => Ok(()),
        false => Err("generated code is not what its generate.sh writes now: look at `git diff`, and commit it".into()),
    }
}

/// Everything but the tool's end-to-end tests, which have an area of their own.
fn rust_tests() -> Result<String, String> {
    // one set of features, so that everything is built once; the demo does without PostgreSQL, so it is no default
    let arguments = ["--workspace", "--exclude", "faultloom", "--features", "flowdb/postgres", "--tests"];
    counted(command("cargo", &["test", "--no-fail-fast"]).args(arguments))
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
            skip(&format!("Java 11: {}", e.lines().last().unwrap_or_default()));
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
        for area in ["bench sockets", "papers transtracer"] {
            skip(&format!("{area}: a network namespace of its own needs root"));
        }
        return Ok(counts);
    }
    for words in [["bench", "sockets"], ["papers", "transtracer"]] {
        let mut call = command("cargo", &["run", "--quiet", "--package", "xtask", "--"]);
        quiet(call.args(words).env("FAULTLOOM_BENCH", "quick"))?;
    }
    Ok(counts)
}

/// Campaigns of bit flips in programs and servers: that what measures them runs, and that its short cuts change nothing.
fn flips() -> Result<String, String> {
    let tool = built("faultloom");
    let tried = command(&tool, &["--home", "out/bench/flips-tried", "flip", "--quiet", "--count", "1", "--", "true"])
        .output()
        .map_err(|e| format!("{tool}: {e}"))?;
    let refused = String::from_utf8_lossy(&tried.stderr);
    if tried.status.code() == Some(3) {
        for area in ["bench flips", "papers sei"] {
            skip(&format!("{area}: {}", refused.lines().next().unwrap_or_default()));
        }
        return Ok(String::new());
    }
    for words in [["bench", "flips"], ["papers", "sei"]] {
        let mut call = command("cargo", &["run", "--quiet", "--package", "xtask", "--"]);
        quiet(call.args(words).env("FAULTLOOM_BENCH", "quick"))?;
    }
    no_differences()
}

/// Equalities hold on a busy machine as well, unlike times.
fn no_differences() -> Result<String, String> {
    let path = root().join("bench/results/quick-flips.json");
    let text = std::fs::read_to_string(&path).map_err(|e| format!("{}: {e}", path.display()))?;
    let result: serde_json::Value = serde_json::from_str(&text).map_err(|e| format!("{}: {e}", path.display()))?;
    let unmet: Vec<&str> = result["goals"]
        .as_array()
        .into_iter()
        .flatten()
        .filter(|goal| goal["met"] == false)
        .filter_map(|goal| goal["name"].as_str().filter(|name| name.ends_with("_differences")))
        .collect();
    if unmet.is_empty() { Ok("they run; no differences".into()) } else { Err(format!("not 0: {}", unmet.join(", "))) }
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
