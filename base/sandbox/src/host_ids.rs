//! Translates process and thread ids of the sandbox into those of the host, for a debugger outside.

use crate::tracee::Pid;
use std::io;

/// The host's pid of a program that the supervisor started under pid `inner`. `reaper` is the process that was started
/// by [`crate::supervisor_command`]. None: the program has ended.
pub fn host_pid(reaper: u32, inner: Pid) -> io::Result<Option<Pid>> {
    let status = |pid: &str| std::fs::read_to_string(format!("/proc/{pid}/status")).ok();
    for entry in std::fs::read_dir("/proc")? {
        let name = entry?.file_name();
        let Some(pid) = name.to_str().and_then(|name| name.parse().ok()) else { continue };
        let Some(process) = name.to_str().and_then(status) else { continue };
        if innermost(&process) != Some(inner) {
            continue;
        }
        let supervisor = field(&process, "PPid:").and_then(status);
        if supervisor.and_then(|supervisor| field(&supervisor, "PPid:")?.parse().ok()) == Some(reaper) {
            return Ok(Some(pid));
        }
    }
    Ok(None)
}

/// The host's id of a thread that the supervisor calls `inner`. `process` is the host's pid of its process.
pub fn host_thread(process: Pid, inner: Pid) -> io::Result<Option<Pid>> {
    for entry in std::fs::read_dir(format!("/proc/{process}/task"))? {
        let entry = entry?;
        let Ok(thread) = std::fs::read_to_string(entry.path().join("status")) else { continue };
        if innermost(&thread) == Some(inner) {
            return Ok(entry.file_name().to_str().and_then(|name| name.parse().ok()));
        }
    }
    Ok(None)
}

fn innermost(status: &str) -> Option<Pid> {
    field(status, "NSpid:").and_then(|pids| pids.split_whitespace().last()?.parse().ok())
}

fn field<'a>(status: &'a str, name: &str) -> Option<&'a str> {
    status.lines().find_map(|line| line.strip_prefix(name)).map(str::trim)
}
