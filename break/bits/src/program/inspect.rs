//! Checks whether a program can be studied; if not, reports what prevents it, why, and what to do instead.
//!
//! Runs before the program does, and inside the sandbox, where the program's user and the paths visible to it are
//! known.

use crate::engine_messages::Program;
use crate::program::executable::{ElfProperties, Unsupported};
use model::Failure;
use sandbox::User;
use std::fs::File;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

/// Returns the properties of the program's executable, or why it cannot be studied.
pub fn check(program: &Program, user: User) -> Result<ElfProperties, Failure> {
    let Some(path) = program.argv.first().map(Path::new) else {
        return Err(Failure::request("no program is given")
            .why("the command line is empty")
            .next("name an executable file and its arguments"));
    };
    require_executable(path)?;
    refuse_privileged(path)?;
    let elf = read_headers(path)?;
    if let Some(linker) = elf.linker.as_ref().filter(|linker| !linker.exists()) {
        return Err(refusal(path, "cannot be started")
            .why(format!("its dynamic linker {} does not exist", linker.display()))
            .next("install the C library it was built for, or build it for this host"));
    }
    if program.replay.is_some() {
        require_preload(path, &elf)?;
    }
    require_access(path, user)?;
    Ok(elf)
}

fn refusal(path: &Path, what: &str) -> Failure {
    Failure::request(format!("{} {what}", path.display()))
}

fn require_executable(path: &Path) -> Result<(), Failure> {
    let cannot = |why: String| refusal(path, "cannot be started").why(why);
    if !path.is_absolute() {
        return Err(cannot(
            "every run has its own working directory, where a relative path has another meaning".into(),
        )
        .next(format!("give the absolute path, as `command -v {}` prints it", path.display())));
    }
    match std::fs::metadata(path) {
        Err(e) => Err(cannot(format!("it cannot be found: {e}")).next("give the path of an executable file")),
        Ok(file) if !file.is_file() => {
            Err(cannot("it is not a regular file".into()).next("give the path of an executable file"))
        }
        Ok(file) if file.mode() & 0o111 == 0 => {
            Err(cannot("it is not executable".into()).next(format!("chmod +x {}", path.display())))
        }
        Ok(_) => Ok(()),
    }
}

/// The kernel ignores the privileges of a traced program's file, so the program would behave differently.
fn refuse_privileged(path: &Path) -> Result<(), Failure> {
    let mode = std::fs::metadata(path).map_or(0, |file| file.mode());
    let how = match () {
        () if mode & libc::S_ISUID != 0 => "its file is setuid",
        () if mode & libc::S_ISGID != 0 => "its file is setgid",
        () if has_capabilities(path) => "its file has capabilities",
        () => return Ok(()),
    };
    Err(refusal(path, "cannot be studied as it is")
        .why(format!("{how}, which the kernel ignores for a traced program: it would behave differently"))
        .next("copy the file (the copy has no privileges) and study the copy"))
}

#[allow(unsafe_code)] // extended attributes have no safe interface in the standard library
fn has_capabilities(path: &Path) -> bool {
    use std::os::unix::ffi::OsStrExt;
    let Ok(path) = std::ffi::CString::new(path.as_os_str().as_bytes()) else { return false };
    // SAFETY: both strings end with 0; with size 0 only the length is returned.
    unsafe { libc::getxattr(path.as_ptr(), c"security.capability".as_ptr(), std::ptr::null_mut(), 0) > 0 }
}

fn read_headers(path: &Path) -> Result<ElfProperties, Failure> {
    let read = File::open(path).and_then(|file| ElfProperties::read(&file));
    let unreadable = |e: io::Error| {
        refusal(path, "cannot be read").why(e.to_string()).next(format!("chmod +r {}, or study a copy", path.display()))
    };
    read.map_err(unreadable)?.map_err(|other| unsupported(path, other))
}

fn unsupported(path: &Path, other: Unsupported) -> Failure {
    let (why, next) = match other {
        Unsupported::Script(interpreter) => (
            "it is a script: the program that runs, and can be disturbed, is its interpreter".to_owned(),
            format!("study the interpreter: {interpreter} {}", path.display()),
        ),
        Unsupported::NotElf => ("it is not an ELF file".into(), BUILD.into()),
        Unsupported::Foreign(machine) => (
            match machine {
                libc::EM_386 => "it is a 32-bit program; only x86-64 is supported".into(),
                libc::EM_AARCH64 => "it is for ARM processors; only x86-64 is supported".into(),
                other => format!("it is for another machine (ELF number {other}); only x86-64 is supported"),
            },
            BUILD.into(),
        ),
        Unsupported::NoProgram => ("it is an object file or a library, without an entry point".into(), BUILD.into()),
        Unsupported::Damaged => ("the file is damaged: its ELF headers point beyond its end".into(), BUILD.into()),
    };
    refusal(path, "cannot be studied").why(why).next(next)
}

const BUILD: &str = "give a program that was built for x86-64 Linux";

/// The shim is loaded by the dynamic linker of the GNU C library.
fn require_preload(path: &Path, elf: &ElfProperties) -> Result<(), Failure> {
    let why = match &elf.linker {
        None => "it is statically linked: there is no dynamic linker to load the shim (LD_PRELOAD)".to_owned(),
        Some(linker) if linker.to_string_lossy().contains("ld-musl") => {
            "it is built for musl, but the shim is for the GNU C library".into()
        }
        Some(_) => return Ok(()),
    };
    Err(refusal(path, "cannot run under the replay shim")
        .why(why)
        .next("link it dynamically with the GNU C library, or study it without an input trace"))
}

fn require_access(path: &Path, user: User) -> Result<(), Failure> {
    if let Err(e) = std::fs::metadata(path) {
        return Err(refusal(path, "cannot be opened").why(e.to_string()));
    }
    match sandbox::barrier(path, user) {
        Some(barrier) => Err(refusal(path, "cannot be reached by the program").why(barrier.why).next(barrier.next)),
        None => Ok(()),
    }
}
