//! Which running processes may be corrupted.

use crate::program::executable::ElfProperties;
use model::Failure;
use process::ProcDir;
use sandbox::tracee::Pid;
use std::fs::File;
use std::os::unix::fs::MetadataExt;

/// Refuses processes that must never be corrupted.
pub fn check_allowed(pid: Pid) -> Result<(), Failure> {
    let refuse = |why: &str, next: &str| {
        Err(Failure::request(format!("process {pid} must not be corrupted")).why(why).next(next))
    };
    let Some(status) = Status::of(pid).filter(|status| !status.ended) else {
        return Err(Failure::request(format!("there is no process {pid}"))
            .why("it has ended, or belongs to another container")
            .next("ps -e lists running processes"));
    };
    if pid == 1 {
        return refuse("it is PID 1: killing it stops the whole system", "name another process");
    }
    if self_and_ancestors().contains(&pid) {
        return refuse("it is this tool or one of its ancestors", "name a server");
    }
    if status.group != pid {
        let process = status.group;
        return refuse(&format!("it is a thread of process {process}"), &format!("name the process: {process}"));
    }
    let stat = ProcDir::open(pid as u32).and_then(|process| process.stat());
    if stat.is_ok_and(|stat| stat.is_kernel_thread) {
        return refuse("it is a kernel thread", "name a process of your own");
    }
    if status.tracer != 0 {
        return refuse(&format!("process {} already traces it", status.tracer), "stop the debugger or strace first");
    }
    if status.users.windows(2).any(|two| two[0] != two[1]) {
        return refuse("it has changed its user (setuid) and has privileges that you do not have", "name another one");
    }
    // SAFETY: no memory is involved.
    #[allow(unsafe_code)] // reading the user id has no safe interface
    let own = unsafe { libc::geteuid() };
    if own != 0 && status.users.first() != Some(&own) {
        return refuse("it belongs to another user", "run this as that user");
    }
    let path = format!("/proc/{pid}/exe");
    if same_file(&path, "/proc/self/exe") {
        return refuse("it runs this tool's program, such as its agent", "name a server");
    }
    match File::open(&path).and_then(|file| ElfProperties::read(&file)) {
        Ok(Ok(_)) => Ok(()),
        Ok(Err(_)) => refuse("it is not an x86-64 program", "name another one"),
        Err(error) => refuse(&format!("its program cannot be read: {error}"), "name a process of your own"),
    }
}

fn same_file(one: &str, other: &str) -> bool {
    let id = |path: &str| std::fs::metadata(path).map(|file| (file.dev(), file.ino()));
    matches!((id(one), id(other)), (Ok(one), Ok(other)) if one == other)
}

struct Status {
    /// Dead, possibly not reaped yet.
    ended: bool,
    group: Pid,
    tracer: Pid,
    parent: Pid,
    /// Real, effective, saved and file system UID.
    users: Vec<u32>,
}

impl Status {
    fn of(pid: Pid) -> Option<Status> {
        let text = std::fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
        let field = |name: &str| text.lines().find_map(|line| line.strip_prefix(name)).map(str::trim);
        Some(Status {
            ended: field("State:")?.starts_with(['Z', 'X']),
            group: field("Tgid:")?.parse().ok()?,
            tracer: field("TracerPid:")?.parse().ok()?,
            parent: field("PPid:")?.parse().ok()?,
            users: field("Uid:")?.split_whitespace().filter_map(|id| id.parse().ok()).collect(),
        })
    }
}

/// This process and its ancestors.
fn self_and_ancestors() -> Vec<Pid> {
    let first = std::process::id() as Pid;
    std::iter::successors(Some(first), |pid| Status::of(*pid).map(|status| status.parent).filter(|parent| *parent > 0))
        .collect()
}
