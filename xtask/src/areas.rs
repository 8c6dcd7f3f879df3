//! Areas of work that run in parallel, each with its own log.
//!
//! An area starts when all areas that it needs have succeeded. Two run at once. Areas that measure the machine
//! (`alone`) run one at a time at the end. The output of an area goes to `out/DIRECTORY/AREA.log` while it runs. If it
//! fails, its error is printed in full.

use crate::shell::{log_to, root};
use std::panic::catch_unwind;
use std::sync::mpsc;
use std::time::Instant;

type Work = fn() -> Result<String, String>;

pub struct Area {
    pub name: &'static str,
    /// Expected maximum duration on two cores, in minutes. Exceeding it is reported but is no failure.
    pub budget_min: u32,
    /// Areas that must succeed first. Areas that are not part of the run are ignored.
    pub needs: &'static [&'static str],
    /// Whether other areas would disturb it.
    pub alone: bool,
    /// Returns a summary, which is printed with the name of the area.
    pub work: Work,
}

/// The outcome of one area.
pub struct Outcome {
    pub name: &'static str,
    pub budget_min: u32,
    pub seconds: f64,
    pub result: Result<String, String>,
}

/// Number of areas that run at once. Most wait for processes, files and ports half of the time.
const WORKERS: usize = 2;

/// Runs the areas. Prints a line for each when it ends, with the error if it failed. Returns the outcomes in that
/// order. An area whose needs have failed does not run and is returned as failed.
pub fn run(areas: Vec<Area>, directory: &str) -> Result<Vec<Outcome>, String> {
    let logs = root().join("out").join(directory);
    std::fs::create_dir_all(&logs).map_err(|e| format!("{}: {e}", logs.display()))?;
    let selected: Vec<&str> = areas.iter().map(|area| area.name).collect();
    let mut waiting = areas;
    let mut running: Vec<&str> = Vec::new();
    let mut ended: Vec<Outcome> = Vec::new();
    let (sender, receiver) = mpsc::channel::<Outcome>();
    std::thread::scope(|scope| {
        loop {
            fail_blocked(&mut waiting, &mut ended);
            while let Some(index) = next(&waiting, &running, &ended, &selected) {
                let area = waiting.remove(index);
                running.push(area.name);
                let (sender, log) = (sender.clone(), logs.join(format!("{}.log", area.name)));
                scope.spawn(move || {
                    let begin = Instant::now();
                    let work = || log_to(&log).and_then(|()| (area.work)());
                    let result = catch_unwind(work).unwrap_or_else(|_| Err("xtask panicked".to_owned()));
                    let seconds = begin.elapsed().as_secs_f64();
                    let _ = sender.send(Outcome { name: area.name, budget_min: area.budget_min, seconds, result });
                });
            }
            if running.is_empty() {
                break;
            }
            let Ok(done) = receiver.recv() else { break };
            running.retain(|name| *name != done.name);
            print(&done);
            ended.push(done);
        }
    });
    Ok(ended)
}

fn succeeded(ended: &[Outcome], name: &str) -> bool {
    ended.iter().any(|area| area.name == name && area.result.is_ok())
}

/// The next area to start: the first whose needs are met, or one that runs alone if nothing else is left.
fn next(waiting: &[Area], running: &[&str], ended: &[Outcome], selected: &[&str]) -> Option<usize> {
    if running.len() >= WORKERS {
        return None;
    }
    let is_ready =
        |area: &Area| area.needs.iter().filter(|need| selected.contains(need)).all(|need| succeeded(ended, need));
    let shared = waiting.iter().position(|area| !area.alone && is_ready(area));
    let others_are_left = !running.is_empty() || waiting.iter().any(|area| !area.alone);
    match shared {
        Some(index) => Some(index),
        None if others_are_left => None,
        None => waiting.iter().position(is_ready),
    }
}

/// Ends areas as failed that cannot start, because an area that they need has failed.
fn fail_blocked(waiting: &mut Vec<Area>, ended: &mut Vec<Outcome>) {
    let has_failed = |ended: &[Outcome], name: &str| ended.iter().any(|area| area.name == name && area.result.is_err());
    while let Some(index) = waiting.iter().position(|area| area.needs.iter().any(|need| has_failed(ended, need))) {
        let area = waiting.remove(index);
        let failed = area.needs.iter().find(|need| has_failed(ended, need)).unwrap_or(&"");
        let result = Err(format!("not run, because '{failed}' failed"));
        let blocked = Outcome { name: area.name, budget_min: area.budget_min, seconds: 0.0, result };
        print(&blocked);
        ended.push(blocked);
    }
}

fn print(area: &Outcome) {
    let time = format!("{:>2.0} min {:>2.0} s", (area.seconds / 60.0).floor(), area.seconds % 60.0);
    match &area.result {
        Ok(summary) => println!(" ✓ {:<11} {summary:<60} {time}", area.name),
        Err(error) => println!(" ✗ {:<11} {:<60} {time}\n{error}\n", area.name, ""),
    }
}

#[cfg(test)]
mod tests {
    use super::{Area, Outcome, fail_blocked, next};

    fn area(name: &'static str, needs: &'static [&'static str], alone: bool) -> Area {
        Area { name, budget_min: 1, needs, alone, work: || Ok(String::new()) }
    }

    fn ended(name: &'static str, result: Result<String, String>) -> Outcome {
        Outcome { name, budget_min: 1, seconds: 0.0, result }
    }

    #[test]
    fn an_area_waits_for_its_needs_and_an_exclusive_one_for_everything() {
        let waiting = [area("kernel", &[], true), area("tool", &["build"], false), area("build", &[], false)];
        let selected = ["kernel", "tool", "build"];
        assert_eq!(next(&waiting, &[], &[], &selected), Some(2));
        assert_eq!(next(&waiting[..2], &["build"], &[], &selected), None);
        let built = [ended("build", Ok(String::new()))];
        assert_eq!(next(&waiting[..2], &[], &built, &selected), Some(1));
        assert_eq!(next(&waiting[..1], &["tool"], &built, &selected), None);
        assert_eq!(next(&waiting[..1], &[], &built, &selected), Some(0));
    }

    #[test]
    fn needs_outside_the_run_are_ignored() {
        assert_eq!(next(&[area("tool", &["build"], false)], &[], &[], &["tool"]), Some(0));
    }

    #[test]
    fn areas_that_need_a_failed_area_fail_and_others_continue() {
        let mut waiting = vec![area("tool", &["apps"], false), area("apps", &["build"], false), area("go", &[], false)];
        let mut done = vec![ended("build", Err("no compiler".to_owned()))];
        fail_blocked(&mut waiting, &mut done);
        assert_eq!(waiting.iter().map(|area| area.name).collect::<Vec<_>>(), ["go"]);
        assert_eq!(done.iter().filter(|area| area.result.is_err()).count(), 3);
    }
}
