//! SIGKILL of a sweep at random moments, in every space: no completed case is lost, and none is sent again.
//!
//! An interrupted guided exploration kept nothing that a resumed one used: it began again and repeated every request.

use crate::support::front::{Front, plan_key};
use crate::support::service::TRUST;
use crate::support::{Home, seed, soak, wait_for};
use model::random::Random;
use model::sweep::{Case, Sweep};
use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::time::Duration;

const SPACES: [&str; 5] = ["services", "all-services", "temporal", "crash-points", "guided"];
/// Each request takes this long, so that a kill usually meets some in flight.
const WORK: Duration = Duration::from_millis(6);
/// One service that the request never calls, for `all-services`.
const TARGET: &str = "name: t\nservices:\n  - {name: extra, listens: [\"127.0.0.1:9\"]}\n";

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

fn outcomes(cases: &[Case]) -> BTreeMap<u64, CaseResult> {
    let of = |case: &Case| (case.sites.clone(), case.fired.clone(), case.status, case.fingerprint);
    cases.iter().map(|case| (case.case, of(case))).collect()
}

struct Kill {
    stored: Vec<Case>,
    plans: BTreeMap<String, u32>,
}

/// Starts and resumes one sweep until a process is not killed. Returns what was stored and received at each kill.
fn sweep_with_kills(home: &Home, front: &Front, space: &str, concurrency: u64, random: &mut Random) -> Vec<Kill> {
    let concurrency = concurrency.to_string();
    let options = ["-s", space, "-c", &concurrency, "--trust", "trust", "-t", "target.yaml", "-q"];
    let mut kills = Vec::new();
    loop {
        let runs = home.run(&["runs", "--json"]).exits(0).json();
        if run_dir(home).is_some() && runs[0].is_null() {
            // killed between the creation of the folder and that of the run
            home.run(&["runs", "--clean"]).exits(0).says("1 orphaned folder removed");
        }
        if !runs[0]["verdict"].is_null() {
            return kills; // killed after its end was stored
        }
        let mut sweep = match run_dir(home) {
            None => home.start(&[&["sweep", &front.url][..], &options].concat()),
            Some(_) => home.start(&["sweep", "--resume", "last", "-q"]),
        };
        // longer each time, so that it ends on a busy machine too
        let kill_after = Duration::from_micros(random.below(250_000 + 50_000 * kills.len() as u64));
        let begin = std::time::Instant::now();
        wait_for("the moment of the kill", || (sweep.has_ended() || begin.elapsed() >= kill_after).then_some(()));
        if sweep.has_ended() {
            sweep.wait().exits(0);
            return kills;
        }
        sweep.signal("KILL");
        wait_for("its end", || sweep.has_ended().then_some(()));
        // requests that it sent arrive even after its death
        let mut received = front.plans();
        wait_for("the last requests", || {
            std::thread::sleep(WORK * 4);
            let before = std::mem::replace(&mut received, front.plans());
            (before == received).then_some(())
        });
        kills.push(Kill { stored: stored(home), plans: received });
    }
}

/// Returns the number of kills.
fn check(space: &str, concurrency: u64, random: &mut Random) -> usize {
    let (home, front) = (Home::new("sweep-kill"), Front::start(WORK));
    home.write("trust", TRUST);
    home.write("target.yaml", TARGET);
    let kills = sweep_with_kills(&home, &front, space, concurrency, random);
    let sent = front.plans();
    // every part of the sweep, also those that were resumed without -c
    let in_flight_max = u64::from(front.counts.lock().unwrap().in_flight_max);
    assert!(in_flight_max <= concurrency, "{space}: {in_flight_max} requests at once with -c {concurrency}");
    let whole = stored(&home);
    let text = std::fs::read_to_string(run_dir(&home).unwrap().join("sweep.json")).unwrap();
    let results: Sweep = serde_json::from_str(&text).unwrap();
    let sites = &results.spaces[0].sites;
    let plan = |case: &Case| plan_key(case.sites.iter().map(|site| &sites[*site as usize].fault));

    // every case once, and each as in a sweep that is not interrupted
    let numbers: BTreeSet<u64> = whole.iter().map(|case| case.case).collect();
    assert_eq!((numbers.len(), whole.len() as u64), (whole.len(), results.spaces[0].cases), "{space}");
    let other = Home::new("sweep-whole");
    other.write("trust", TRUST);
    other.write("target.yaml", TARGET);
    let options = ["-s", space, "--trust", "trust", "-t", "target.yaml", "-q"];
    other.run(&[&["sweep", &front.url][..], &options].concat()).exits(0);
    assert_eq!(outcomes(&whole), outcomes(&stored(&other)), "{space}: an uninterrupted sweep has other cases");

    let mut before: &BTreeMap<String, u32> = &BTreeMap::new();
    for kill in &kills {
        assert!(whole.starts_with(&kill.stored), "{space}: a stored case was lost or changed");
        // The plan without faults is also sent before the first case, so it is not counted here.
        for case in kill.stored.iter().filter(|case| !case.sites.is_empty()) {
            let key = plan(case);
            assert_eq!(sent[&key], kill.plans[&key], "{space}: stored case {} was sent again: {key}", case.case);
        }
        let known: BTreeSet<String> = kill.stored.iter().map(&plan).collect();
        let is_new = |(key, count): &(&String, &u32)| before.get(*key).is_none_or(|before| before < count);
        let new = kill.plans.iter().filter(is_new).map(|(key, _)| key);
        let lost = new.filter(|key| !key.is_empty() && !known.contains(*key)).count() as u64;
        assert!(lost <= concurrency, "{space}: {lost} cases were in flight with -c {concurrency}");
        before = &kill.plans;
    }
    kills.len()
}

#[test]
fn a_sweep_killed_at_random_moments_loses_no_case_and_repeats_none() {
    let mut random = Random(seed("sweep_kill"));
    let rounds = if soak() { 40 } else { 2 };
    let mut kills = 0;
    for _ in 0..rounds {
        for space in SPACES {
            let concurrency = 1 + random.below(6);
            kills += check(space, concurrency, &mut random);
        }
    }
    println!("{kills} kills");
    assert!(kills > rounds, "{kills} kills: the requests are too fast for this machine");
}
