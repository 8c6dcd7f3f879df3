//! Why a program's user cannot reach a file, why the kernel may forbid tracing, and what to do about either.

use crate::User;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

/// What stops a user from reaching a file.
pub struct Barrier {
    pub why: String,
    pub next: String,
}

/// The first directory on the path that is closed to `user`, or the file itself.
pub fn barrier(path: &Path, user: User) -> Option<Barrier> {
    if user.own {
        return None; // the program can read what the supervisor can
    }
    let whole = std::fs::canonicalize(path).ok()?;
    let closed = |what: &Path, next| Barrier {
        why: format!(
            "it runs as a dedicated unprivileged user (uid {}), who cannot access {}",
            user.uid,
            what.display()
        ),
        next,
    };
    let mut directories: Vec<&Path> = whole.ancestors().skip(1).collect();
    directories.reverse();
    if let Some(directory) = directories.into_iter().find(|directory| !permitted(directory, user, PASS)) {
        return Some(closed(directory, format!("copy {} to a directory that everybody may enter", whole.display())));
    }
    // a file that is not a program need not be executable
    let executable = std::fs::metadata(&whole).is_ok_and(|file| file.mode() & 0o111 != 0);
    let required = if executable { READ | PASS } else { READ };
    (!permitted(&whole, user, required)).then(|| closed(&whole, format!("chmod a+rX {}", whole.display())))
}

const READ: u32 = 0o4;
const PASS: u32 = 0o1;

fn permitted(path: &Path, user: User, required: u32) -> bool {
    let Ok(file) = std::fs::metadata(path) else { return true };
    let shift = match (file.uid() == user.uid, file.gid() == user.gid) {
        (true, _) => 6,
        (false, true) => 3,
        (false, false) => 0,
    };
    file.mode() >> shift & required == required
}

/// What to do where the kernel forbids tracing another process of the same user.
pub fn attach_advice() -> String {
    match ptrace_scope().trim() {
        "1" | "2" => "run it as root, or allow it: sysctl -w kernel.yama.ptrace_scope=0".into(),
        _ => trace_advice(),
    }
}

/// What to do where the kernel forbids tracing one's own children.
pub fn trace_advice() -> String {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let tracer = status.lines().find_map(|line| line.strip_prefix("TracerPid:")).map_or("0", str::trim);
    if tracer != "0" {
        "this process is traced by a debugger or strace: run it without".into()
    } else if ptrace_scope().trim() == "3" {
        "tracing is disabled on this host (kernel.yama.ptrace_scope = 3) until it boots with another value".into()
    } else {
        "in a container, allow the ptrace system call (docker: --cap-add SYS_PTRACE)".into()
    }
}

fn ptrace_scope() -> String {
    std::fs::read_to_string("/proc/sys/kernel/yama/ptrace_scope").unwrap_or_default()
}
