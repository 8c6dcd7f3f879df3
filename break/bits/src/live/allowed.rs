//! Which running processes may be corrupted.

use crate::program::executable::ElfProperties;
use model::Failure;
use sandbox::tracee::Pid;
use std::fs::File;
use std::os::unix::fs::MetadataExt;

/// `PF_KTHREAD` among the flags of `/proc/PID/stat`.
const KERNEL_THREAD: u64 = 0x0020_0000;

/// Refuses processes that must never be corrupted.
pub fn check_allowed(pid: Pid) -> Result<(), Failure> {
    let no = |why: &str, next: &str| {
        Err(Failure::request(format!("process {pid} must not be corrupted")).why(why).next(next))
    };
    let Some(status) = Status::of(pid).filter(|status| !status.ended) else {
        return Err(Failure::request(format!("there is no process {pid}"))
            .why("it has ended, or belongs to another container")
            .next("ps -e lists running processes"));
    };
    if pid == 1 {
        return no("it is the first process: when it ends, all processes end", "name another one");
    }
    if self_and_ancestors().contains(&pid) {
        return no("it is this tool or one of its ancestors", "name a server");
    }
    if status.group != pid {
        let process = status.group;
        return no(&format!("it is a thread of process {process}"), &format!("name the process: {process}"));
    }
    if ProcessIdentity::of(pid).is_some_and(|begun| begun.flags & KERNEL_THREAD != 0) {
        return no("it is a kernel thread", "name a process of your own");
    }
    if status.tracer != 0 {
        return no(&format!("process {} already traces it", status.tracer), "stop the debugger or strace first");
    }
    if status.users.windows(2).any(|two| two[0] != two[1]) {
        return no("it has changed its user (setuid) and has privileges that you do not have", "name another one");
    }
    // SAFETY: no memory is involved.
    #[allow(unsafe_code)] // reading the user id has no safe interface
    let own = unsafe { libc::geteuid() };
    if own != 0 && status.users.first() != Some(&own) {
        return no("it belongs to another user", "run this as that user");
    }
    let path = format!("/proc/{pid}/exe");
    if same_file(&path, "/proc/self/exe") {
        return no("it runs this tool's program, such as its agent", "name a server");
    }
    match File::open(&path).and_then(|file| ElfProperties::read(&file)) {
        Ok(Ok(_)) => Ok(()),
        Ok(Err(_)) => no("it is not an x86-64 program", "name another one"),
        Err(error) => no(&format!("its program cannot be read: {error}"), "name a process of your own"),
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

/// Distinguishes a process from a later one with the same pid.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ProcessIdentity {
    flags: u64,
    /// Its start time, in clock ticks since boot.
    pub ticks: u64,
}

impl ProcessIdentity {
    /// None: there is no such process, or it has ended and is not reaped yet.
    pub fn of(pid: Pid) -> Option<ProcessIdentity> {
        let text = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
        // the name may contain any character; the field after it is the third, the state
        let fields: Vec<&str> = text.rsplit_once(") ")?.1.split_whitespace().collect();
        let number = |nth: usize| fields.get(nth - 3)?.parse().ok();
        let alive = !matches!(*fields.first()?, "Z" | "X");
        alive.then_some(ProcessIdentity { flags: number(9)?, ticks: number(22)? })
    }
}

/// This process and its ancestors.
fn self_and_ancestors() -> Vec<Pid> {
    let first = std::process::id() as Pid;
    std::iter::successors(Some(first), |pid| Status::of(*pid).map(|status| status.parent).filter(|parent| *parent > 0))
        .collect()
}
