//! SEI §7.1, done again: campaigns of single bit flips in unmodified servers, by `faultloom flip`.
//!
//! Each variant is a run of its own in a store below `out/papers/sei`, so a campaign that was interrupted goes on where it was.
//! `lab/papers/sei/README.md` says what differs from the paper and why.

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

/// Commands of the paper's size: at least a thousand, and memory for a part of them.
const COMMANDS: u32 = 1_200;
const QUESTIONS: u32 = 400;
const SEED: u64 = 20_150_504;

/// How much is done.
struct Sizes {
    per_type: u32,
    controls: u32,
    commands: u32,
    questions: u32,
    /// The functions in which every flip is tried; none: everywhere.
    exhaustive_in: &'static [&'static str],
}

const FULL: Sizes =
    Sizes { per_type: 8_000, controls: 200, commands: COMMANDS, questions: QUESTIONS, exhaustive_in: &[] };
const QUICK: Sizes =
    Sizes { per_type: 24, controls: 4, commands: 120, questions: 60, exhaustive_in: &["pthread_mutex_trylock"] };

pub fn repeat() -> Result<(), String> {
    let quick = std::env::var("FAULTLOOM_BENCH").is_ok_and(|v| v == "quick");
    setup::packages(&[&MEMCACHED, &DNSCACHE])?;
    let place = Place::prepare(quick)?;
    let inputs = place.inputs(if quick { &QUICK } else { &FULL })?;
    println!(
        " memcached's trace: {} commands, {} evictions",
        inputs["memcached"]["commands"], inputs["counts"]["evictions"]
    );
    let begin = Instant::now();
    let mut all: Vec<(&Campaign, Done)> = Vec::new();
    for (n, campaign) in campaign::ALL.iter().enumerate() {
        println!("\n {} of {}: {}, {}", n + 1, campaign::ALL.len(), campaign.name, campaign.what);
        all.push((campaign, campaign.run(&place, if quick { &QUICK } else { &FULL })?));
    }
    println!("\n all campaigns: {:.1} minutes", begin.elapsed().as_secs_f64() / 60.0);
    let text = tables::markdown(&all, &inputs);
    println!("\n{text}");
    let folder = if quick { place.work.clone() } else { root().join("lab/papers/sei") };
    write(&folder, "results.json", &format!("{}\n", results(&all, &inputs)))?;
    write(&folder, "results.md", &text)?;
    for (name, picture) in figures::all(&all) {
        write(&folder, &name, &picture)?;
    }
    place.finished()?;
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
            // stories and functions stay in the run: `faultloom show` tells them
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

/// Where campaigns are kept until all are there.
struct Place {
    work: PathBuf,
}

impl Place {
    fn prepare(quick: bool) -> Result<Place, String> {
        let work = root().join(if quick { "out/papers/sei-quick" } else { "out/papers/sei" });
        std::fs::create_dir_all(&work).map_err(|e| format!("{}: {e}", work.display()))?;
        crate::cargo::build(&["--package", "faultloom", "--package", "sei-inputs"])?;
        Ok(Place { work })
    }

    fn path(&self, name: &str) -> String {
        self.work.join(name).display().to_string()
    }

    /// Writes the input traces, and proves that memcached's makes it evict.
    fn inputs(&self, sizes: &Sizes) -> Result<Value, String> {
        let make = |arguments: &[&str]| {
            let output = quiet(&mut command(&built("sei-inputs"), arguments))?;
            serde_json::from_slice::<Value>(&output.stdout).map_err(|e| format!("sei-inputs: {e}"))
        };
        let (trace, zone) = (self.path("memcached.trace"), self.path("dnscache"));
        let memcached = make(&["memcached", "--commands", &sizes.commands.to_string(), &trace])?;
        let counts = make(&[&["counts", &trace, "--"], MC].concat())?;
        // a short trace fills no memory
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

    fn ask(&self, arguments: &[&str]) -> Result<Value, String> {
        let mut call = self.faultloom(arguments);
        let output = quiet(call.arg("--json"))?;
        serde_json::from_slice(&output.stdout).map_err(|e| format!("{}: {e}", words(&call)))
    }

    /// The next time begins anew; these runs can still be looked at and replayed.
    fn finished(&self) -> Result<(), String> {
        let (home, last) = (self.work.join("home"), self.work.join("last"));
        if last.exists() {
            std::fs::remove_dir_all(&last).map_err(|e| format!("{}: {e}", last.display()))?;
        }
        std::fs::rename(&home, &last).map_err(|e| format!("{}: {e}", home.display()))?;
        println!("the runs: faultloom --home {} runs", last.display());
        Ok(())
    }
}
