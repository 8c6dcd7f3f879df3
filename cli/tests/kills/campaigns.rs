//! Campaigns of flips, killed and resumed until they end.

use super::verbs::Needs;
use super::victim::Victim;
use super::world::{World, words};
use super::{Results, Scenario, remains};
use serde_json::Value;
use std::collections::BTreeSet;
use std::os::unix::process::ExitStatusExt;
use std::path::PathBuf;
use std::time::{Duration, Instant};

/// Seven types, and controls.
const FLIPS: usize = 7 * 12 + 4;
const CAMPAIGN: &str = "flip -q -n 12 --controls 4 -- ./";
/// Added for each kill, so that a campaign ends on a busy machine too.
const LONGER: Duration = Duration::from_millis(100);

pub fn scenarios() -> Vec<(String, Scenario)> {
    if !Needs::Sandbox.are_met() {
        return Vec::new();
    }
    let mut usual = None;
    let campaign = move |results: &mut Results| {
        campaign_with_kills(usual.get_or_insert_with(undisturbed), results);
    };
    vec![("flip".to_owned(), Box::new(campaign) as Scenario)]
}

/// The duration of a campaign.
fn undisturbed() -> Duration {
    let world = World::new("flip", Duration::ZERO);
    world.compile();
    let begin = Instant::now();
    let ran = world.start(&words(&format!("{CAMPAIGN}{}", world.program))).wait();
    assert!(matches!(ran.status.code(), Some(0 | 1)), "{}: {}", ran.status, ran.err);
    assert_eq!(remains::of_processes(&world), Vec::<String>::new(), "without a kill");
    begin.elapsed()
}

/// Whole lines of the log.
fn log(world: &World) -> Vec<String> {
    let run: Option<PathBuf> = std::fs::read_dir(world.home.file(".faultloom/runs"))
        .ok()
        .and_then(|runs| runs.flatten().map(|run| run.path()).find(|run| run.join("injections.jsonl").exists()));
    let text = run.and_then(|run| std::fs::read_to_string(run.join("injections.jsonl")).ok()).unwrap_or_default();
    let whole = text.rfind('\n').map_or("", |end| &text[..end]);
    whole.lines().map(str::to_owned).collect()
}

fn campaign_with_kills(usual: &mut Duration, results: &mut Results) {
    let world = World::new("flip", Duration::ZERO);
    world.compile();
    let mut stored: Vec<Vec<String>> = Vec::new();
    loop {
        let run = world.home.run(&["runs", "--json"]).exits(0).json()[0].clone();
        if !run["verdict"].is_null() {
            break; // killed after its end was stored
        }
        world.home.run(&["runs", "--clean"]).exits(0);
        let line =
            if run.is_null() { format!("{CAMPAIGN}{}", world.program) } else { "flip -q --resume last".to_owned() };
        let (mut flip, begin) = (world.start(&words(&line)), Instant::now());
        let moment = results.moment(*usual + LONGER * stored.len() as u32);
        world.wait(&mut flip, begin, moment);
        let victim = results.one_of(&[Victim::Tool, Victim::Engine]);
        let killed = victim.kill(&world, &mut flip, results.random.number());
        results.killed(victim, killed.processes, begin.elapsed());
        let duration = begin.elapsed();
        let ran = flip.wait();
        if run.is_null() && killed.processes == 0 {
            *usual = duration.min(*usual);
        }
        results.left_behind(remains::of_processes(&world));
        if killed.processes > 0 {
            stored.push(log(&world));
        }
        match (ran.status.code(), ran.status.signal()) {
            (None, Some(9)) if killed.tool => {}
            (Some(0 | 1), _) => break,
            // without its engine, a campaign ends with an error
            (Some(3 | 5), _) if killed.processes > 0 && !ran.err.contains("panicked") => {}
            _ => {
                results.failed(vec![format!("{}: {}\n{}{}", ran.line, ran.status, ran.out, ran.err)]);
                return;
            }
        }
    }
    let whole = log(&world);
    let id = |line: &String| serde_json::from_str::<Value>(line).unwrap()["id"].as_u64().unwrap();
    let ids: BTreeSet<u64> = whole.iter().map(id).collect();
    if ids.len() < whole.len() {
        results.repeated(vec![format!("{} flips are stored {} times", ids.len(), whole.len())]);
    }
    if ids.len() != FLIPS {
        results.lost(vec![format!("{} of {FLIPS} flips are stored", ids.len())]);
    }
    if stored.iter().any(|stored| !whole.starts_with(stored)) {
        results.lost(vec!["a stored flip was removed or changed".to_owned()]);
    }
    results.left_behind(remains::of_store(&world));
}
