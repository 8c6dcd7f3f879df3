//! What a program may do to other processes: nothing.

use crate::contain::{Traced, refused, signals_itself};
use crate::tracee::{Pid, Tracee};
use std::io;

/// Answers the filter's question about a call of `tracee`, a thread of `process`: only what it sends to itself is let through.
/// Tells whether it was. It is to be resumed afterwards.
pub fn admits(tracee: &Tracee, process: Pid) -> io::Result<bool> {
    let admitted = match Traced::of(tracee.event_message()?) {
        Some(Traced::Signal) => signals_itself(&tracee.registers()?, process, tracee.pid),
        Some(Traced::Fork | Traced::Exec) | None => false,
    };
    if !admitted {
        refused(tracee)?;
    }
    Ok(admitted)
}
