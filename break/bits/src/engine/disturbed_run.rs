//! A disturbed run: its injection, its output directory, and how its output deviates.

use crate::engine::profile::ProfiledProgram;
use crate::engine::run_dir::RunDir;
use crate::engine::supervisor::FaultListener;
use crate::engine_messages::{Program, WriteOrder};
use model::flip::{Injection, Output};
use std::io;

/// A run in progress.
pub struct DisturbedRun {
    pub id: u32,
    pub injection: Option<Injection>,
    pub hit: String,
    pub activated: bool,
    pub run_dir: RunDir,
    /// Length of the golden output that was written before the fork.
    before_fork: usize,
    /// Length of the output at the time of the flip; a system call may have added to it since the fork.
    at_flip: usize,
}

impl DisturbedRun {
    pub fn new(id: u32, injection: Option<Injection>, run_dir: RunDir, before_fork: usize) -> DisturbedRun {
        DisturbedRun { id, injection, hit: String::new(), activated: true, run_dir, before_fork, at_flip: before_fork }
    }

    /// Its output, including the golden run's part before the fork. None: the output is golden.
    pub fn deviation(&self, program: &Program, profiled: &ProfiledProgram) -> io::Result<Option<(Output, WriteOrder)>> {
        let mut collected = self.run_dir.collect(program.limits.file_bytes)?;
        let golden = &profiled.golden_output;
        if golden.main.get(self.before_fork..) == Some(&collected.main[..]) && golden.files == collected.files {
            return Ok(None);
        }
        collected.main = [&golden.main[..self.before_fork.min(golden.main.len())], &collected.main].concat();
        let output = collected.output(program);
        // the bytes may be the same, split into other records
        let differs = output != profiled.profile.golden;
        Ok(differs.then(|| (output, collected.write_order(program, self.at_flip))))
    }
}

impl FaultListener for DisturbedRun {
    fn fault_applied(&mut self, hit: String, activated: bool) {
        let written = std::fs::metadata(&self.run_dir.main).map_or(0, |meta| meta.len() as usize);
        self.at_flip = self.before_fork + written;
        self.hit = hit;
        self.activated = activated;
    }
}
