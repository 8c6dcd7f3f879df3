//! SIGKILL of the tool, its supervisor, its reaper, its engine and the services, at random moments of every verb that
//! starts something or writes a run, and of every space of a sweep. Nothing may be left behind; what was stored stays
//! stored, and a resumed run does not repeat it.
//!
//! What is guaranteed is in docs/decisions/0012. `make bench-robust` runs this test with `FAULTLOOM_KILLS`, the number
//! of kills, and `FAULTLOOM_KILLS_RESULT`, a file for the counts as JSON.

mod campaigns;
mod remains;
mod sweeps;
mod verbs;
mod victim;
mod world;

use crate::support::{seed, soak};
use model::random::Random;
use serde_json::json;
use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::Duration;
use victim::Victim;

/// Kills of `make soak`.
const MANY: u64 = 10_000;

/// What the kills of all scenarios showed.
pub struct Results {
    seed: u64,
    pub random: Random,
    /// Processes that were killed, by scenario and by victim. One that had ended by itself is not counted.
    by_scenario: BTreeMap<String, u64>,
    by_victim: BTreeMap<&'static str, u64>,
    /// Processes, ports, files.
    left_behind: Vec<String>,
    lost_cases: Vec<String>,
    repeated_cases: Vec<String>,
    /// Everything else that must not happen, such as a panic or a verb that no longer works.
    failures: Vec<String>,
    /// The kills since the last problem was looked for, for messages.
    recent: Vec<String>,
    scenario: String,
}

impl Results {
    fn new(seed: u64) -> Results {
        Results {
            seed,
            random: Random(seed),
            by_scenario: BTreeMap::new(),
            by_victim: BTreeMap::new(),
            left_behind: Vec::new(),
            lost_cases: Vec::new(),
            repeated_cases: Vec::new(),
            failures: Vec::new(),
            recent: Vec::new(),
            scenario: String::new(),
        }
    }

    pub fn kills(&self) -> u64 {
        self.by_scenario.values().sum()
    }

    pub fn begin(&mut self, scenario: &str) {
        scenario.clone_into(&mut self.scenario);
        self.by_scenario.entry(scenario.to_owned()).or_default();
        self.recent.clear();
    }

    /// A moment from the start of a process to `within`, in microseconds.
    pub fn moment(&mut self, within: Duration) -> Duration {
        Duration::from_micros(self.random.below(within.as_micros().max(1) as u64))
    }

    pub fn one_of(&mut self, victims: &[Victim]) -> Victim {
        victims[self.random.below(victims.len() as u64) as usize]
    }

    pub fn killed(&mut self, victim: Victim, processes: u64, after: Duration) {
        *self.by_scenario.entry(self.scenario.clone()).or_default() += processes;
        *self.by_victim.entry(victim.name()).or_default() += processes;
        self.recent.push(format!("{} after {:.1} ms", victim.name(), after.as_secs_f64() * 1e3));
    }

    pub fn left_behind(&mut self, what: Vec<String>) {
        let what = self.located(what, "left behind");
        self.left_behind.extend(what);
    }

    pub fn lost(&mut self, what: Vec<String>) {
        let what = self.located(what, "lost");
        self.lost_cases.extend(what);
    }

    pub fn repeated(&mut self, what: Vec<String>) {
        let what = self.located(what, "repeated");
        self.repeated_cases.extend(what);
    }

    pub fn failed(&mut self, what: Vec<String>) {
        let what = self.located(what, "failed");
        self.failures.extend(what);
    }

    /// Adds scenario, kills and seed, and prints it, since a long run should show problems at once.
    fn located(&self, what: Vec<String>, kind: &str) -> Vec<String> {
        let kills = if self.recent.is_empty() { "no kill".to_owned() } else { self.recent.join(", ") };
        let located =
            what.into_iter().map(|what| format!("{} (killed: {kills}; seed {}): {what}", self.scenario, self.seed));
        located.inspect(|text| println!("{kind}: {text}")).collect()
    }

    fn write(&self) {
        let Some(file) = std::env::var_os("FAULTLOOM_KILLS_RESULT") else { return };
        let result = json!({
            "kills": self.kills(), "by_victim": self.by_victim, "by_scenario": self.by_scenario, "seed": self.seed,
            "left_behind": self.left_behind, "lost_cases": self.lost_cases, "repeated_cases": self.repeated_cases,
            "failures": self.failures,
        });
        std::fs::write(file, result.to_string()).unwrap();
    }
}

/// The number of kills; None: one round of all scenarios.
fn wanted() -> Option<u64> {
    let wanted = std::env::var("FAULTLOOM_KILLS").ok().map(|text| text.parse().expect("FAULTLOOM_KILLS is a number"));
    wanted.or(soak().then_some(MANY))
}

/// A part of the test that kills at least one process per call, unless it meets only processes that have ended.
type Scenario = Box<dyn FnMut(&mut Results)>;

fn scenarios() -> Vec<(String, Scenario)> {
    let only = std::env::var("FAULTLOOM_KILLS_ONLY").ok();
    let all = sweeps::scenarios().into_iter().chain(verbs::scenarios()).chain(campaigns::scenarios());
    all.filter(|(name, _)| only.as_ref().is_none_or(|only| name.contains(only.as_str()))).collect()
}

#[test]
fn a_kill_at_any_moment_leaves_nothing_behind_and_loses_and_repeats_nothing() {
    let mut results = Results::new(seed("kills"));
    let mut scenarios = scenarios();
    let wanted = wanted();
    loop {
        // in another order in each round, so that a few kills are not always those of the first scenarios
        for last in (1..scenarios.len()).rev() {
            scenarios.swap(last, results.random.below(last as u64 + 1) as usize);
        }
        let before = results.kills();
        for (name, scenario) in &mut scenarios {
            if wanted.is_some_and(|wanted| results.kills() >= wanted) {
                break;
            }
            let begin = std::time::Instant::now();
            let kills = results.kills();
            results.begin(name);
            // one that panics, such as a command that hangs, must not hide what the others show
            if let Err(panic) = catch_unwind(AssertUnwindSafe(|| scenario(&mut results))) {
                let text = panic.downcast_ref::<String>().map_or("a panic, see above", String::as_str);
                results.failed(vec![text.to_owned()]);
            }
            println!("{name}: {} kills in {:.1} s", results.kills() - kills, begin.elapsed().as_secs_f64());
        }
        if wanted.is_none_or(|wanted| results.kills() >= wanted) {
            break;
        }
        assert!(results.kills() > before, "a round of all scenarios without a kill");
    }
    results.write();
    println!("{} kills: {:?} {:?}", results.kills(), results.by_victim, results.by_scenario);
    assert!(results.kills() > 0, "every process had ended before its kill");
    let problems = [&results.left_behind, &results.lost_cases, &results.repeated_cases, &results.failures];
    let problems: Vec<&String> = problems.into_iter().flatten().collect();
    assert!(problems.is_empty(), "{} problems, see above", problems.len());
}
