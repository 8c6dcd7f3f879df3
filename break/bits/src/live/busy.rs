//! Picks a busy thread of a process.

use model::Failure;
use model::random::Random;
use sandbox::tracee::Pid;
use std::collections::HashMap;
use std::time::{Duration, Instant};

/// A thread that uses the processor within this time is busy.
const SAMPLE: Duration = Duration::from_millis(20);

/// Limits waiting for the process.
pub(super) struct WaitLimit<'a> {
    /// From then on the first eligible instruction is taken: the thread may be busy only briefly.
    pub soon: Instant,
    pub deadline: Instant,
    pub is_needed: &'a dyn Fn() -> bool,
}

impl WaitLimit<'_> {
    pub fn is_over(&self) -> bool {
        Instant::now() >= self.deadline || !(self.is_needed)()
    }
}

pub(super) fn idle(pid: Pid) -> Failure {
    Failure::environment(format!("process {pid} is idle, and nothing was flipped"))
        .why("a flip hits an instruction as it runs, and none ran during the wait")
        .next("send it requests meanwhile, or wait longer")
}

/// Draws a thread, weighted by its recent processor time.
pub(super) fn busy_thread(pid: Pid, random: &mut Random, limit: &WaitLimit) -> Result<Pid, Failure> {
    let mut before = run_time(pid);
    loop {
        if limit.is_over() {
            return Err(idle(pid));
        }
        std::thread::sleep(SAMPLE);
        let now = run_time(pid);
        let mut busy: Vec<(Pid, u64)> =
            now.iter().map(|(id, ran)| (*id, ran.saturating_sub(*before.get(id).unwrap_or(ran)))).collect();
        busy.sort_unstable();
        let all: u64 = busy.iter().map(|(_, ran)| ran).sum();
        if all > 0 {
            let mut drawn = random.below(all);
            let at = busy.iter().find(|(_, ran)| {
                drawn < *ran || {
                    drawn -= ran;
                    false
                }
            });
            return at.map(|(id, _)| *id).ok_or_else(|| idle(pid));
        }
        before = now;
    }
}

/// Processor time in nanoseconds, by thread.
fn run_time(pid: Pid) -> HashMap<Pid, u64> {
    let Ok(threads) = std::fs::read_dir(format!("/proc/{pid}/task")) else { return HashMap::new() };
    let ran = |thread: &str| {
        let text = std::fs::read_to_string(format!("/proc/{pid}/task/{thread}/schedstat")).ok()?;
        Some((thread.parse().ok()?, text.split_whitespace().next()?.parse().ok()?))
    };
    threads.filter_map(|entry| ran(entry.ok()?.file_name().to_str()?)).collect()
}
