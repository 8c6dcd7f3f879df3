//! Which thread of a process does something.

use crate::random::Random;
use crate::tracee::Pid;
use model::Failure;
use std::collections::HashMap;
use std::time::{Duration, Instant};

/// Over this time a thread has to use the processor to count as busy.
const GLANCE: Duration = Duration::from_millis(20);

/// Until when, and whether still, something is waited for.
pub(super) struct Until<'a> {
    /// From then on the next best instruction is taken: the thread may do only little now and then.
    pub soon: Instant,
    pub deadline: Instant,
    pub wanted: &'a dyn Fn() -> bool,
}

impl Until<'_> {
    pub fn over(&self) -> bool {
        Instant::now() >= self.deadline || !(self.wanted)()
    }
}

pub(super) fn idle(pid: Pid) -> Failure {
    Failure::environment(format!("process {pid} does nothing, and nothing was flipped"))
        .why("a flip strikes an instruction that runs, and none did while it was waited for")
        .next("send it work meanwhile, or wait longer")
}

/// Drawn by how much of the processor each thread used just now.
pub(super) fn busy_thread(pid: Pid, random: &mut Random, until: &Until) -> Result<Pid, Failure> {
    let mut before = ran_for(pid);
    loop {
        if until.over() {
            return Err(idle(pid));
        }
        std::thread::sleep(GLANCE);
        let now = ran_for(pid);
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

/// Nanoseconds on the processor, by thread.
fn ran_for(pid: Pid) -> HashMap<Pid, u64> {
    let Ok(threads) = std::fs::read_dir(format!("/proc/{pid}/task")) else { return HashMap::new() };
    let ran = |thread: &str| {
        let text = std::fs::read_to_string(format!("/proc/{pid}/task/{thread}/schedstat")).ok()?;
        Some((thread.parse().ok()?, text.split_whitespace().next()?.parse().ok()?))
    };
    threads.filter_map(|entry| ran(entry.ok()?.file_name().to_str()?)).collect()
}
