//! One `up` per folder: a lock that the kernel releases when its holder dies.

use crate::state::atomic_file::{self, cannot_write};
use crate::state::up_state::{self, read_state};
use model::Failure;
use rustix::fs::{FlockOperation, flock};
use std::fs::File;
use std::path::Path;

/// Errors: another process holds it, or the file cannot be written.
pub(crate) fn lock(state_dir: &Path) -> Result<File, Failure> {
    let path = state_dir.join("lock");
    let file = atomic_file::private().write(true).create(true).truncate(false).open(&path);
    let file = file.map_err(|error| cannot_write(&path, &error))?;
    match flock(&file, FlockOperation::NonBlockingLockExclusive) {
        Ok(()) => Ok(file),
        Err(_) => {
            let other = read_state(state_dir).ok().flatten().filter(up_state::is_alive);
            let what = match other {
                Some(state) => format!("{} is already up (pid {})", state.target, state.supervisor),
                None => "a target is already up or stopping".to_owned(),
            };
            Err(Failure::environment(what)
                .why(format!("its state is in {}", state_dir.display()))
                .next("stop it first: faultloom down"))
        }
    }
}
