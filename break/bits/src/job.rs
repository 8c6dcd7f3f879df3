//! A disturbed run: what was struck, where it writes, and what it wrote in the end.

use crate::place::Room;
use crate::profile::Known;
use crate::protocol::{Output, Program, Written};
use crate::supervise::Hit;
use model::flip::Injection;
use std::io;

/// A run that goes on.
pub struct Job {
    pub id: u32,
    pub injection: Option<Injection>,
    pub hit: String,
    pub activated: bool,
    pub room: Room,
    /// How much of the golden output was written before the fork.
    before: usize,
    /// And how long the output was at the flip, which a system call may have come before.
    at_flip: usize,
}

impl Job {
    pub fn new(id: u32, injection: Option<Injection>, room: Room, before: usize) -> Job {
        Job { id, injection, hit: String::new(), activated: true, room, before, at_flip: before }
    }

    /// What the run wrote, with the golden run's part before the fork. None: what the golden run wrote.
    pub fn deviation(&self, program: &Program, known: &Known) -> io::Result<Option<(Output, Written)>> {
        let mut collected = self.room.collected(program.limits.file_bytes)?;
        let golden = &known.collected;
        if golden.main.get(self.before..) == Some(&collected.main[..]) && golden.files == collected.files {
            return Ok(None);
        }
        collected.main = [&golden.main[..self.before.min(golden.main.len())], &collected.main].concat();
        let output = collected.output(program);
        // only the pieces in which it was written may differ
        let differs = output != known.profile.golden;
        Ok(differs.then(|| (output, collected.written(program, self.at_flip))))
    }
}

impl Hit for Job {
    fn struck(&mut self, hit: String, activated: bool) {
        let own = std::fs::metadata(&self.room.main).map_or(0, |meta| meta.len() as usize);
        self.at_flip = self.before + own;
        self.hit = hit;
        self.activated = activated;
    }
}
