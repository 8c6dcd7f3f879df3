//! Whether a service that is not healthy yet is working on it: it writes to its log, or uses the processor.

use crate::supervise::service_log::ServiceLog;
use std::time::{Duration, Instant};

const SAMPLE_EVERY: Duration = Duration::from_secs(1);
/// Without progress for this long, the service is not working on its start.
const IDLE_AFTER: Duration = Duration::from_secs(3);
/// Per sample, in ticks of 10 ms: replies to health checks alone need less.
const CPU_TICKS_MIN: u64 = 10;

#[derive(Debug)]
pub(crate) struct StartProgress {
    log_bytes: u64,
    cpu_ticks: u64,
    sampled: Instant,
    latest: Option<Instant>,
}

impl StartProgress {
    /// `group`: the process group of the service.
    pub fn new(log: &ServiceLog, group: u32) -> StartProgress {
        StartProgress { log_bytes: log_bytes(log), cpu_ticks: cpu_ticks(group), sampled: Instant::now(), latest: None }
    }

    /// Reads `/proc` once a second at most.
    pub fn sample(&mut self, log: &ServiceLog, group: u32) {
        if self.sampled.elapsed() < SAMPLE_EVERY {
            return;
        }
        let (log_bytes, cpu_ticks) = (log_bytes(log), cpu_ticks(group));
        if log_bytes > self.log_bytes || cpu_ticks >= self.cpu_ticks + CPU_TICKS_MIN {
            self.latest = Some(Instant::now());
        }
        (self.log_bytes, self.cpu_ticks, self.sampled) = (log_bytes, cpu_ticks, Instant::now());
    }

    pub fn is_active(&self) -> bool {
        self.latest.is_some_and(|latest| latest.elapsed() < IDLE_AFTER)
    }
}

fn log_bytes(log: &ServiceLog) -> u64 {
    std::fs::metadata(&log.path).map_or(0, |data| data.len())
}

fn cpu_ticks(group: u32) -> u64 {
    process::processes().filter(|stat| stat.group == group).map(|stat| stat.cpu_ticks).sum()
}
