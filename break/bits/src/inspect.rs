//! Whether a program can be studied; if not, what is in the way, why, and what to do instead.
//!
//! Asked before anything is run, and from inside: where the program's user and the paths it sees are known.

use crate::contain::User;
use crate::executable::{Facts, Other};
use crate::protocol::Program;
use model::Failure;
use std::fs::File;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

/// What the program's executable is, or why it is refused.
pub fn refuse(program: &Program, user: User) -> Result<Facts, Failure> {
    let Some(path) = program.argv.first().map(Path::new) else {
        return Err(Failure::request("no program is given")
            .why("the command line is empty")
            .next("name an executable file and its arguments"));
    };
    present(path)?;
    privileged(path)?;
    let facts = headers(path)?;
    if let Some(linker) = facts.linker.as_ref().filter(|linker| !linker.exists()) {
        return Err(no(path, "cannot be started")
            .why(format!("its dynamic linker {} is not there", linker.display()))
            .next("install the C library it was built for, or build it for this host"));
    }
    if program.replay.is_some() {
        under_shim(path, &facts)?;
    }
    reachable(path, user)?;
    Ok(facts)
}

fn no(path: &Path, what: &str) -> Failure {
    Failure::request(format!("{} {what}", path.display()))
}

fn present(path: &Path) -> Result<(), Failure> {
    let cannot = |why: String| no(path, "cannot be started").why(why);
    if !path.is_absolute() {
        return Err(cannot(
            "every run has a working directory of its own, where a relative path means something else".into(),
        )
        .next(format!("give the whole path, as `command -v {}` prints it", path.display())));
    }
    match std::fs::metadata(path) {
        Err(e) => Err(cannot(format!("it cannot be found: {e}")).next("give the path of an executable file")),
        Ok(file) if !file.is_file() => Err(cannot("it is no file".into()).next("give the path of an executable file")),
        Ok(file) if file.mode() & 0o111 == 0 => {
            Err(cannot("nobody may execute it".into()).next(format!("chmod +x {}", path.display())))
        }
        Ok(_) => Ok(()),
    }
}

/// The kernel gives a traced program no privilege of its file: it would do something else than it does elsewhere.
fn privileged(path: &Path) -> Result<(), Failure> {
    let mode = std::fs::metadata(path).map_or(0, |file| file.mode());
    let how = match () {
        () if mode & libc::S_ISUID != 0 => "its file is setuid",
        () if mode & libc::S_ISGID != 0 => "its file is setgid",
        () if has_capabilities(path) => "its file has capabilities",
        () => return Ok(()),
    };
    Err(no(path, "cannot be studied as it is")
        .why(format!("{how}, and the kernel gives a traced program no privilege: it would run as another one"))
        .next("copy the file (a copy has no privilege) and study the copy"))
}

#[allow(unsafe_code)] // extended attributes have no safe interface in the standard library
fn has_capabilities(path: &Path) -> bool {
    use std::os::unix::ffi::OsStrExt;
    let Ok(path) = std::ffi::CString::new(path.as_os_str().as_bytes()) else { return false };
    // SAFETY: both strings end with 0; a size of 0 asks for the length alone.
    unsafe { libc::getxattr(path.as_ptr(), c"security.capability".as_ptr(), std::ptr::null_mut(), 0) > 0 }
}

fn headers(path: &Path) -> Result<Facts, Failure> {
    let read = File::open(path).and_then(|file| Facts::read(&file));
    let unreadable = |e: io::Error| {
        no(path, "cannot be read").why(e.to_string()).next(format!("chmod +r {}, or study a copy", path.display()))
    };
    read.map_err(unreadable)?.map_err(|other| wrong_kind(path, other))
}

fn wrong_kind(path: &Path, other: Other) -> Failure {
    let (why, next) = match other {
        Other::Script(interpreter) => (
            "it is a script: what runs, and can be disturbed, is its interpreter".to_owned(),
            format!("study the interpreter: {interpreter} {}", path.display()),
        ),
        Other::NotElf => ("it is no executable that Linux knows (no ELF file)".into(), BUILD.into()),
        Other::Foreign(machine) => (
            match machine {
                libc::EM_386 => "it is a 32-bit program; only x86-64 instructions are understood".into(),
                libc::EM_AARCH64 => "it is for ARM processors; only x86-64 instructions are understood".into(),
                other => format!("it is for another machine (ELF number {other}); only x86-64 is understood"),
            },
            BUILD.into(),
        ),
        Other::NoProgram => ("it is an object file or a library: nothing begins there".into(), BUILD.into()),
        Other::Damaged => ("its ELF headers point beyond its end: the file is damaged".into(), BUILD.into()),
    };
    no(path, "cannot be studied").why(why).next(next)
}

const BUILD: &str = "give a program that was built for x86-64 Linux";

/// The shim is loaded by the dynamic linker of the GNU C library.
fn under_shim(path: &Path, facts: &Facts) -> Result<(), Failure> {
    let why = match &facts.linker {
        None => "it is static: there is no dynamic linker that could load the shim (LD_PRELOAD)".to_owned(),
        Some(linker) if linker.to_string_lossy().contains("ld-musl") => {
            "it is built for musl, and the shim for the GNU C library".into()
        }
        Some(_) => return Ok(()),
    };
    Err(no(path, "cannot run under the replay shim")
        .why(why)
        .next("build it dynamically for the GNU C library, or study it without an input trace"))
}

/// Otherwise the dynamic linker would go on without the shim, and say so on standard error only.
fn reachable(path: &Path, user: User) -> Result<(), Failure> {
    if let Err(e) = std::fs::metadata(path) {
        return Err(no(path, "cannot be opened").why(e.to_string()));
    }
    match barrier(path, user) {
        Some(barrier) => Err(no(path, "cannot be reached by the program").why(barrier.why).next(barrier.next)),
        None => Ok(()),
    }
}

/// What stops a user from reaching a file.
pub struct Barrier {
    pub why: String,
    pub next: String,
}

/// The first directory on the way that is closed to `user`, or the file itself.
pub fn barrier(path: &Path, user: User) -> Option<Barrier> {
    if user.own {
        return None; // what the engine can see, it can
    }
    let whole = std::fs::canonicalize(path).ok()?;
    let closed = |what: &Path, next| Barrier {
        why: format!("it runs as a user that is nobody else (uid {}), to whom {} is closed", user.uid, what.display()),
        next,
    };
    let mut directories: Vec<&Path> = whole.ancestors().skip(1).collect();
    directories.reverse();
    if let Some(directory) = directories.into_iter().find(|directory| !permitted(directory, user, PASS)) {
        return Some(closed(directory, format!("copy {} to a directory that everybody may enter", whole.display())));
    }
    // what is no program need not be executable
    let executable = std::fs::metadata(&whole).is_ok_and(|file| file.mode() & 0o111 != 0);
    let wanted = if executable { READ | PASS } else { READ };
    (!permitted(&whole, user, wanted)).then(|| closed(&whole, format!("chmod a+rX {}", whole.display())))
}

const READ: u32 = 0o4;
const PASS: u32 = 0o1;

fn permitted(path: &Path, user: User, wanted: u32) -> bool {
    let Ok(file) = std::fs::metadata(path) else { return true };
    let shift = match (file.uid() == user.uid, file.gid() == user.gid) {
        (true, _) => 6,
        (false, true) => 3,
        (false, false) => 0,
    };
    file.mode() >> shift & wanted == wanted
}

/// Why the kernel may forbid tracing a process of one's own, and what to do.
pub fn may_attach_advice() -> String {
    let scope = std::fs::read_to_string("/proc/sys/kernel/yama/ptrace_scope").unwrap_or_default();
    match scope.trim() {
        "1" | "2" => "run it as root, or allow it: sysctl -w kernel.yama.ptrace_scope=0".into(),
        _ => may_trace_advice(),
    }
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
