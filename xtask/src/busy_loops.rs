//! Processes that keep every processor busy, so that other processes wait for each other.

use crate::shell::command;
use std::process::{Child, Stdio};

/// Stopped on drop.
pub struct BusyLoops(Vec<Child>);

impl BusyLoops {
    pub fn start(count: usize) -> Result<BusyLoops, String> {
        let mut loops = BusyLoops(Vec::new());
        for _ in 0..count {
            let mut shell = command("sh", &["-c", "while :; do :; done"]);
            loops.0.push(shell.stdin(Stdio::null()).stdout(Stdio::null()).spawn().map_err(|e| format!("sh: {e}"))?);
        }
        Ok(loops)
    }
}

impl Drop for BusyLoops {
    fn drop(&mut self) {
        for child in &mut self.0 {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}
