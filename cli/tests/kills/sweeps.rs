//! Sweeps in every space, killed again and again and resumed until they end. Every case that was stored stays stored,
//! and its plan is not sent again.
//!
//! An interrupted guided exploration kept nothing that a resumed one used: it began again and repeated every request.

use super::victim::Victim;
use super::world::{World, words};
use super::{Results, Scenario, remains};
use crate::support::Home;
use crate::support::front::plan_key;
use model::sweep::{Case, Sweep};
use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::time::{Duration, Instant};

const SPACES: [&str; 5] = ["services", "all-services", "temporal", "crash-points", "guided"];
/// Each request takes this long, so that a kill usually meets some in flight.
const WORK: Duration = Duration::from_millis(6);
const CONCURRENCY_MAX: u64 = 6;
/// Added for each kill, so that a sweep ends on a busy machine too.
const LONGER: Duration = Duration::from_millis(50);

const OF_SERVICES: [Victim; 5] =
    [Victim::Tool, Victim::Reaper, Victim::Service, Victim::ReaperThenTool, Victim::ReaperAndTool];

pub fn scenarios() -> Vec<(String, Scenario)> {
    let mut scenarios = Vec::new();
    for space in SPACES {
        for starts_services in [false, true] {
            let name = format!("sweep {space}{}", if starts_services { " with services" } else { "" });
            let mut expected = None;
            let scenario = move |results: &mut Results| sweep(space, starts_services, &mut expected, results);
            scenarios.push((name, Box::new(scenario) as Scenario));
        }
    }
    scenarios
}

fn run_dir(home: &Home) -> Option<PathBuf> {
    let mut runs = std::fs::read_dir(home.file(".faultloom/runs")).ok()?.flatten();
    let run = runs.next().map(|entry| entry.path());
    assert!(runs.next().is_none(), "one run only");
    run
}

/// The completed cases on disk. A line that the kill cut off does not count.
fn stored(home: &Home) -> Vec<Case> {
    let text = run_dir(home).and_then(|run| std::fs::read_to_string(run.join("cases.jsonl")).ok()).unwrap_or_default();
    let whole = text.rfind('\n').map_or("", |end| &text[..end]);
    whole.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

/// Sites, fired sites, status and fingerprint of a case: everything except its duration.
type CaseResult = (Vec<u32>, Vec<u32>, Option<u32>, u64);
type CaseResults = BTreeMap<u64, CaseResult>;

fn outcomes(cases: &[Case]) -> CaseResults {
    let of = |case: &Case| (case.sites.clone(), case.fired.clone(), case.status, case.fingerprint);
    cases.iter().map(|case| (case.case, of(case))).collect()
}

/// A sweep that is not interrupted.
struct Expected {
    /// The same in every run.
    outcomes: CaseResults,
    /// The shortest.
    duration: Duration,
}

fn uninterrupted(space: &str, starts_services: bool) -> Expected {
    let world = World::new("sweep-whole", WORK);
    let begin = Instant::now();
    world.start(&arguments(&world, space, starts_services)).wait().exits(0);
    Expected { duration: begin.elapsed(), outcomes: outcomes(&stored(&world.home)) }
}

/// What was stored and received at the time of a kill.
struct Snapshot {
    stored: Vec<Case>,
    plans: BTreeMap<String, u32>,
    /// Whether the sweep had ended, so that no more requests arrived.
    ended: bool,
}

impl Snapshot {
    /// Cases are stored after they were received, so what is stored is read first.
    fn of(world: &World, ended: bool) -> Snapshot {
        let stored = stored(&world.home);
        Snapshot { stored, plans: world.front.plans(), ended }
    }
}

fn arguments(world: &World, space: &str, starts_services: bool) -> Vec<String> {
    let trust = if starts_services { "" } else { "--trust trust" };
    words(&format!("sweep {} -s {space} -t target.yaml {trust}", world.front.url))
}

/// Starts and resumes one sweep until it ends without being killed. Returns a snapshot for each kill; None if it
/// cannot be continued.
fn sweep_with_kills(
    world: &World,
    begin: &[String],
    starts_services: bool,
    usual: &mut Duration,
    results: &mut Results,
) -> Option<Vec<Snapshot>> {
    let home = &world.home;
    let mut snapshots: Vec<Snapshot> = Vec::new();
    // the services of the last part, which nothing but `down` or the next part ends
    let mut is_left_running = false;
    loop {
        let listed = home.run(&["runs", "--json"]);
        if listed.status.code() != Some(0) {
            results.failed(vec![format!("runs: {}", listed.err)]);
            return None;
        }
        let runs = listed.json();
        if run_dir(home).is_some() && runs[0].is_null() {
            // killed between the creation of the folder and that of the run
            home.run(&["runs", "--clean"]).exits(0).says("1 orphaned folder removed");
        }
        if !runs[0]["verdict"].is_null() {
            // killed after its end was stored
            home.run(&["down"]).exits(0);
            results.left_behind(remains::of_processes(world));
            return Some(snapshots);
        }
        let mut sweep = match run_dir(home) {
            None => world.start(begin),
            Some(_) => world.start(&words("sweep --resume last")),
        };
        let started = Instant::now();
        // a service or a reaper that is killed while it starts ends the sweep
        let mut may_fail = false;
        let were_left_running = is_left_running;
        is_left_running = loop {
            let victim = if starts_services { results.one_of(&OF_SERVICES) } else { Victim::Tool };
            let moment = started.elapsed() + results.moment(*usual + LONGER * snapshots.len() as u32);
            world.wait(&mut sweep, started, moment);
            let killed = victim.kill(world, &mut sweep, results.random.number());
            results.killed(victim, killed.processes, started.elapsed());
            if killed.processes > 0 {
                may_fail |= victim != Victim::Tool;
                if killed.tool {
                    world.front.drain();
                }
                snapshots.push(Snapshot::of(world, killed.tool));
            }
            if killed.tool || sweep.has_ended() {
                // the services run until `down`, or until the sweep is resumed
                break victim == Victim::ReaperAndTool && killed.tool;
            }
        };
        // this part may have been killed before it ended the services of the last one
        let may_be_older = were_left_running && !is_left_running;
        if may_be_older || (is_left_running && results.random.below(2) == 0) {
            home.run(&["down"]).exits(0);
            is_left_running = false;
        }
        let by_itself = std::os::unix::process::ExitStatusExt::signal(&sweep.child.try_wait().unwrap().unwrap());
        let ran = sweep.wait();
        if !is_left_running {
            results.left_behind(remains::of_processes(world));
        }
        if by_itself.is_none() {
            match ran.status.code() {
                Some(0) => {
                    // the machine may have been busy when it was measured first
                    if snapshots.is_empty() {
                        *usual = started.elapsed().min(*usual);
                    }
                    return Some(snapshots);
                }
                Some(3) if may_fail => {}
                _ => {
                    results.failed(vec![format!("{}: {}\n{}{}", ran.line, ran.status, ran.out, ran.err)]);
                    return None;
                }
            }
        }
    }
}

fn sweep(space: &str, starts_services: bool, expected: &mut Option<Expected>, results: &mut Results) {
    let world = World::new("sweep", WORK);
    let concurrency = 1 + results.random.below(CONCURRENCY_MAX);
    let mut begin = arguments(&world, space, starts_services);
    let expected = expected.get_or_insert_with(|| uninterrupted(space, starts_services));
    begin.extend(["-c".to_owned(), concurrency.to_string()]);
    let usual = &mut expected.duration;
    let Some(snapshots) = sweep_with_kills(&world, &begin, starts_services, usual, results) else { return };
    let sent = world.front.plans();
    // every part of the sweep, also those that were resumed without -c
    let in_flight_max = u64::from(world.front.counts.lock().unwrap().in_flight_max);
    if in_flight_max > concurrency {
        results.failed(vec![format!("{in_flight_max} requests at once with -c {concurrency}")]);
    }
    let whole = stored(&world.home);
    let text = std::fs::read_to_string(run_dir(&world.home).unwrap().join("sweep.json")).unwrap();
    let ended: Sweep = serde_json::from_str(&text).unwrap();
    let sites = &ended.spaces[0].sites;
    let plan = |case: &Case| plan_key(case.sites.iter().map(|site| &sites[*site as usize].fault));

    // every case once, and each as in a sweep that is not interrupted
    let numbers: BTreeSet<u64> = whole.iter().map(|case| case.case).collect();
    if numbers.len() < whole.len() {
        results.repeated(vec![format!("{} cases are stored {} times", numbers.len(), whole.len())]);
    }
    if numbers.len() as u64 != ended.spaces[0].cases {
        results.lost(vec![format!("{} of {} cases are stored", numbers.len(), ended.spaces[0].cases)]);
    }
    if outcomes(&whole) != expected.outcomes {
        results.lost(vec!["an uninterrupted sweep has other cases".to_owned()]);
    }
    let mut before: &BTreeMap<String, u32> = &BTreeMap::new();
    for snapshot in &snapshots {
        if !whole.starts_with(&snapshot.stored) {
            results.lost(vec!["a stored case was removed or changed".to_owned()]);
        }
        // The plan without faults is also sent before the first case, so it is not counted here.
        for case in snapshot.stored.iter().filter(|case| !case.sites.is_empty()) {
            let key = plan(case);
            if sent[&key] != snapshot.plans[&key] {
                results.repeated(vec![format!("stored case {} was sent again: {key}", case.case)]);
            }
        }
        if !snapshot.ended {
            continue;
        }
        let known: BTreeSet<String> = snapshot.stored.iter().map(&plan).collect();
        let is_new = |(key, count): &(&String, &u32)| before.get(*key).is_none_or(|before| before < count);
        let new = snapshot.plans.iter().filter(is_new).map(|(key, _)| key);
        let lost = new.filter(|key| !key.is_empty() && !known.contains(*key)).count() as u64;
        if lost > concurrency {
            results.lost(vec![format!("{lost} cases were in flight with -c {concurrency}")]);
        }
        before = &snapshot.plans;
    }
    results.left_behind(remains::of_store(&world));
}
