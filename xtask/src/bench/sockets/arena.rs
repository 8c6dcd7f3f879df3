//! A network namespace of our own: rules of a packet filter and thousands of connections must not touch the machine's.

use crate::shell::{command, run, text};
use std::os::unix::fs::MetadataExt;

const MARK: &str = "FAULTLOOM_ARENA";

pub fn inside() -> bool {
    std::env::var_os(MARK).is_some()
}

/// Runs this program again, with other arguments, in a new network namespace with its loopback up
/// and room for thousands who connect at once.
pub fn enter(arguments: &[&str]) -> Result<(), String> {
    if text("id", &["-u"]) != "0" {
        return Err("a network namespace of its own needs root".to_owned());
    }
    let program = std::env::current_exe().map_err(|e| e.to_string())?;
    let mut call = command(
        "unshare",
        &["--net", "sh", "-c", "ip link set lo up && sysctl -qw net.core.somaxconn=32768 && exec \"$@\"", "sh"],
    );
    run(call.arg(program).args(arguments).env(MARK, "1"))
}

/// Inode number of the network namespace, as it stands on flows.
pub fn netns() -> Result<u64, String> {
    std::fs::metadata("/proc/self/ns/net").map(|m| m.ino()).map_err(|e| format!("/proc/self/ns/net: {e}"))
}
