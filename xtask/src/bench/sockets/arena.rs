//! Runs the bench in its own network namespace, so that packet filter rules and connections do not affect the machine.

use crate::shell::{command, run, text};
use std::os::unix::fs::MetadataExt;

const MARK: &str = "FAULTLOOM_ARENA";

pub fn inside() -> bool {
    std::env::var_os(MARK).is_some()
}

/// Runs this program with other arguments in a new network namespace, with loopback and a large backlog.
pub fn enter(arguments: &[&str]) -> Result<(), String> {
    if text("id", &["-u"]) != "0" {
        return Err("the bench needs root for its own network namespace".to_owned());
    }
    let program = std::env::current_exe().map_err(|e| e.to_string())?;
    let mut call = command(
        "unshare",
        &["--net", "sh", "-c", "ip link set lo up && sysctl -qw net.core.somaxconn=32768 && exec \"$@\"", "sh"],
    );
    run(call.arg(program).args(arguments).env(MARK, "1"))
}

/// Inode number of the network namespace, as in flows.
pub fn netns() -> Result<u64, String> {
    std::fs::metadata("/proc/self/ns/net").map(|m| m.ino()).map_err(|e| format!("/proc/self/ns/net: {e}"))
}
