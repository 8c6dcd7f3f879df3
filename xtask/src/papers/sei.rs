//! Repeats SEI §7.1: campaigns of single bit flips in unmodified servers, by `faultloom flip`.
//!
//! Each variant is a run in a store below `out/papers/sei`, so an interrupted campaign is resumed.
//! `lab/papers/sei/README.md` explains the differences from the paper.

mod campaign;
mod figures;
mod published;
mod tables;

use crate::setup::{self, DNSCACHE, MEMCACHED};
use crate::shell::{built, command, quiet, root, text, words};
pub use campaign::MC;
use campaign::{Campaign, Done};
use serde_json::{Value, json};
use std::path::{Path, PathBuf};
use std::time::Instant;

/// As in the paper: at least a thousand commands, and memory for a part of them.
const COMMANDS: u32 = 1_200;
const QUESTIONS: u32 = 400;
const SEED: u64 = 20_150_504;

/// The sizes of the campaigns.
struct Sizes {
    per_type: u32,
    controls: u32,
    commands: u32,
    questions: u32,
    /// The functions in which every flip is tried; empty: all.
    exhaustive_in: &'static [&'static str],
}

const FULL: Sizes =
    Sizes { per_type: 8_000, controls: 200, commands: COMMANDS, questions: QUESTIONS, exhaustive_in: &[] };
const QUICK: Sizes =
    Sizes { per_type: 24, controls: 4, commands: 120, questions: 60, exhaustive_in: &["pthread_mutex_trylock"] };

pub fn repeat() -> Result<(), String> {
    let quick = std::env::var("FAULTLOOM_BENCH").is_ok_and(|v| v == "quick");
    setup::packages(&[&MEMCACHED, &DNSCACHE])?;
    let workspace = Workspace::prepare(quick)?;
    let inputs = workspace.inputs(if quick { &QUICK } else { &FULL })?;
    println!(
        " memcached's trace: {} commands, {} evictions",
        inputs["memcached"]["commands"], inputs["counts"]["evictions"]
    );
    let begin = Instant::now();
    let mut all: Vec<(&Campaign, Done)> = Vec::new();
    for (n, campaign) in campaign::ALL.iter().enumerate() {
        println!("\n {} of {}: {}, {}", n + 1, campaign::ALL.len(), campaign.name, campaign.what);
        all.push((campaign, campaign.run(&workspace, if quick { &QUICK } else { &FULL })?));
    }
    println!("\n all campaigns: {:.1} minutes", begin.elapsed().as_secs_f64() / 60.0);
    let text = tables::markdown(&all, &inputs);
    println!("\n{text}");
    let folder = if quick { workspace.work.clone() } else { root().join("lab/papers/sei") };
    write(&folder, "results.json", &format!("{}\n", results(&all, &inputs)))?;
    write(&folder, "results.md", &text)?;
    for (name, picture) in figures::all(&all) {
        write(&folder, &name, &picture)?;
    }
    workspace.finish()?;
    println!("pictures and results: {}", folder.display());
    Ok(())
}

fn write(folder: &Path, name: &str, text: &str) -> Result<(), String> {
    let path = folder.join(name);
    std::fs::write(&path, text).map_err(|e| format!("{}: {e}", path.display()))
}

fn results(all: &[(&Campaign, Done)], inputs: &Value) -> Value {
    let campaigns: Vec<Value> = all
        .iter()
        .map(|(campaign, done)| {
            // details and functions stay in the run: `faultloom show` prints them
            let (stories, by_function) = (Vec::new(), Vec::new());
            let variant = model::campaign::Variant { stories, by_function, ..done.variant.clone() };
            json!({"name": campaign.name, "what": campaign.what, "verdict": done.verdict, "variant": variant})
        })
        .collect();
    json!({
        "campaigns": campaigns, "inputs": inputs, "seed": SEED,
        "versions": [setup::version(&MEMCACHED), setup::version(&DNSCACHE)],
        "commit": text("git", &["rev-parse", "--short", "HEAD"]), "kernel": text("uname", &["-r"]),
        "cpu": text("sh", &["-c", "sed -n 's/^model name[^:]*: //p' /proc/cpuinfo | head -n 1"]),
        "cpus": std::thread::available_parallelism().map_or(0, usize::from),
    })
}

/// The folder of campaigns in progress.
struct Workspace {
    work: PathBuf,
}

impl Workspace {
    fn prepare(quick: bool) -> Result<Workspace, String> {
        let work = root().join(if quick { "out/papers/sei-quick" } else { "out/papers/sei" });
        std::fs::create_dir_all(&work).map_err(|e| format!("{}: {e}", work.display()))?;
        crate::cargo::build(&["--package", "faultloom", "--package", "sei-inputs"])?;
        Ok(Workspace { work })
    }

    fn path(&self, name: &str) -> String {
        self.work.join(name).display().to_string()
    }

    /// Writes the input traces, and checks that memcached's trace makes it evict.
    fn inputs(&self, sizes: &Sizes) -> Result<Value, String> {
        let make = |arguments: &[&str]| {
            let output = quiet(&mut command(&built("sei-inputs"), arguments))?;
            serde_json::from_slice::<Value>(&output.stdout).map_err(|e| format!("sei-inputs: {e}"))
        };
        let (trace, zone) = (self.path("memcached.trace"), self.path("dnscache"));
        let memcached = make(&["memcached", "--commands", &sizes.commands.to_string(), &trace])?;
        let counts = make(&[&["counts", &trace, "--"], MC].concat())?;
        // a short trace does not fill the memory
        if sizes.commands >= COMMANDS && counts["evictions"].as_u64().is_none_or(|evictions| evictions == 0) {
            return Err(format!("memcached evicts nothing under the trace: {counts}"));
        }
        let pair = make(&["pair", &self.path("pair.trace")])?;
        let dnscache = make(&["dnscache", "--questions", &sizes.questions.to_string(), &zone])?;
        Ok(json!({"memcached": memcached, "counts": counts, "pair": pair, "dnscache": dnscache}))
    }

    fn faultloom(&self, arguments: &[&str]) -> std::process::Command {
        let program = built("faultloom");
        let mut call = command(&program, &["--home", &self.path("home")]);
        call.args(arguments);
        call
    }

    fn query(&self, arguments: &[&str]) -> Result<Value, String> {
        let mut call = self.faultloom(arguments);
        let output = quiet(call.arg("--json"))?;
        serde_json::from_slice(&output.stdout).map_err(|e| format!("{}: {e}", words(&call)))
    }

    /// Keeps the runs for inspection and replay. The next call starts new campaigns.
    fn finish(&self) -> Result<(), String> {
        let (home, last) = (self.work.join("home"), self.work.join("last"));
        if last.exists() {
            std::fs::remove_dir_all(&last).map_err(|e| format!("{}: {e}", last.display()))?;
        }
        std::fs::rename(&home, &last).map_err(|e| format!("{}: {e}", home.display()))?;
        println!("the runs: faultloom --home {} runs", last.display());
        Ok(())
    }
}
