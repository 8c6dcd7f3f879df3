//! Kills the programs that a command runs besides the target's services if the command itself is killed. It uses a
//! reaper of its own, since a command may run such programs without starting a target.

use crate::cleanup::owned_processes::MARK_VARIABLE;
use crate::cleanup::reaper::{Reaper, ReaperCommand};
use crate::state::trust_file::{hex, random};
use model::Failure;
use process::ProcessId;
use std::sync::{Mutex, MutexGuard, PoisonError, mpsc};

pub struct ProgramGuard {
    mark: String,
    /// None while it is dropped.
    reaper: Mutex<Option<Reaper>>,
}

impl ProgramGuard {
    /// Blocks until the reaper is ready, for at most 10 s.
    pub fn start(command: &ReaperCommand) -> Result<ProgramGuard, Failure> {
        let mark = hex(&random::<16>()?);
        // nobody restarts this reaper: the next program is refused if it has ended
        let (ended, _) = mpsc::channel();
        let reaper = Reaper::start(command, &mark, ended)?;
        Ok(ProgramGuard { mark, reaper: Mutex::new(Some(reaper)) })
    }

    /// A variable that every guarded program must have. Its descendants are recognized by it.
    pub fn variable(&self) -> (&'static str, &str) {
        (MARK_VARIABLE, &self.mark)
    }

    fn reaper(&self) -> MutexGuard<'_, Option<Reaper>> {
        self.reaper.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The program's first process, which leads a group of its own.
    ///
    /// # Errors
    /// Environment, if the reaper has ended: the program must not continue.
    pub fn announce(&self, leader: ProcessId) -> Result<(), Failure> {
        self.reaper().as_mut().map_or(Ok(()), |reaper| reaper.announce_leader(leader))
    }

    /// The group has ended.
    pub fn announce_end(&self, leader: ProcessId) {
        if let Some(reaper) = self.reaper().as_mut() {
            let _ = reaper.announce_end(leader); // the next program finds that it has ended
        }
    }
}

impl Drop for ProgramGuard {
    fn drop(&mut self) {
        if let Some(reaper) = self.reaper().take() {
            reaper.done();
        }
    }
}
