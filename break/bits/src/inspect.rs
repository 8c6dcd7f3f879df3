//! What an executable is, before it is run: whether it can be studied, and if not, why and what to do.

use crate::contain::User;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

/// What stops `user` from reaching a file: the first directory on the way that is closed, or the file itself.
pub fn barrier(path: &Path, user: User) -> Option<String> {
    let whole = std::fs::canonicalize(path).ok()?;
    let directories = whole.ancestors().skip(1).collect::<Vec<_>>().into_iter().rev();
    for directory in directories {
        if !permitted(directory, user, 0o1)? {
            return Some(format!(
                "it runs as a user of its own (uid {}), to whom {} is closed: copy it to a directory that everybody may enter",
                user.uid,
                directory.display()
            ));
        }
    }
    match permitted(&whole, user, 0o5)? {
        true => None,
        false => Some(format!(
            "it runs as a user of its own (uid {}): chmod a+rx {}, or copy it and do so there",
            user.uid,
            whole.display()
        )),
    }
}

fn permitted(path: &Path, user: User, wanted: u32) -> Option<bool> {
    let file = std::fs::metadata(path).ok()?;
    let shift = match (file.uid() == user.uid, file.gid() == user.gid) {
        (true, _) => 6,
        (false, true) => 3,
        (false, false) => 0,
    };
    Some(file.mode() >> shift & wanted == wanted)
}

/// Why the kernel may forbid tracing one's own children, and what to do.
pub fn may_trace_advice() -> String {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let tracer = status.lines().find_map(|line| line.strip_prefix("TracerPid:")).map_or("0", str::trim);
    let scope = std::fs::read_to_string("/proc/sys/kernel/yama/ptrace_scope").unwrap_or_default();
    if tracer != "0" {
        "the engine is traced itself, by a debugger or strace: run it without".into()
    } else if scope.trim() == "3" {
        "tracing is off on this host (kernel.yama.ptrace_scope = 3), and stays so until it is booted with another value"
            .into()
    } else {
        "in a container, allow the ptrace system call (docker: --cap-add SYS_PTRACE)".into()
    }
}
