//! What of the file system can be seen, and written, inside: all of the host's files, read-only; a `/dev` and a `/proc` of the
//! namespace's own; one bounded directory for scratch; and for each program its own `/dev/shm`.
//!
//! `/tmp` is read-only as well: what programs wrote there, later ones would see. A program that wants a directory for temporary
//! files gets its own by `TMPDIR`.

use super::{cannot, checked};
use model::Failure;
use std::ffi::{CStr, CString};
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

/// Below a directory that exists everywhere and is replaced anyway, so that its path never differs.
const SCRATCH: &str = "/dev/scratch";
const DEVICES: [&str; 5] = ["null", "zero", "full", "random", "urandom"];
/// More files than this nobody needs.
const FILES: u32 = 1 << 20;
const DEV: &CStr = c"mode=0755,size=64k,nr_inodes=64";
const SHARED_MEMORY: &CStr = c"mode=1777,size=64m,nr_inodes=1024";
const HOST_NAME: &CStr = c"flip";

/// In a new mount namespace: arranges it and returns the scratch directory.
pub(super) fn arrange(scratch_bytes: u64) -> Result<PathBuf, Failure> {
    let step = |what: &str, result: io::Result<()>| result.map_err(|e| cannot(what, &e));
    step("mounts of its own", mount(None, c"/", None, libc::MS_REC | libc::MS_PRIVATE, c""))?;
    let devices = devices().map_err(|e| cannot("devices", &e))?;
    step("a read-only file system", restrict(c"/", true, READ_ONLY | NO_SETUID | NO_DEVICES))?;
    step("its own /dev", dev(&devices))?;
    step("a scratch directory", scratch(scratch_bytes))?;
    // the directories to mount on exist now
    step("a read-only /dev", restrict(c"/dev", false, READ_ONLY | NO_SETUID))?;
    let flags = libc::MS_NOSUID | libc::MS_NODEV | libc::MS_NOEXEC;
    step("its own /proc", mount(Some(c"proc"), c"/proc", Some(c"proc"), flags, c""))?;
    step("a host name", host_name())?;
    Ok(SCRATCH.into())
}

fn dev(devices: &[(&str, OwnedFd)]) -> io::Result<()> {
    mount(Some(c"tmpfs"), c"/dev", Some(c"tmpfs"), libc::MS_NOSUID, DEV)?;
    std::fs::create_dir("/dev/shm")?;
    for (name, tree) in devices {
        let path = Path::new("/dev").join(name);
        std::fs::File::create(&path)?;
        attach(tree, &path)?;
    }
    for (name, target) in [("fd", ""), ("stdin", "/0"), ("stdout", "/1"), ("stderr", "/2")] {
        symlink(format!("/proc/self/fd{target}"), Path::new("/dev").join(name))?;
    }
    Ok(())
}

fn scratch(bytes: u64) -> io::Result<()> {
    std::fs::create_dir(SCRATCH)?;
    let options = CString::new(format!("mode=0711,size={bytes},nr_inodes={FILES}"))?;
    mount(Some(c"tmpfs"), &c_path(SCRATCH.as_ref())?, Some(c"tmpfs"), libc::MS_NOSUID | libc::MS_NODEV, &options)
}

/// Mounts of the host's devices, taken while devices may still be opened, and belonging nowhere yet.
fn devices() -> io::Result<Vec<(&'static str, OwnedFd)>> {
    DEVICES.iter().map(|&name| Ok((name, detached(&c_path(&Path::new("/dev").join(name))?)?))).collect()
}

fn detached(path: &CStr) -> io::Result<OwnedFd> {
    let flags = libc::OPEN_TREE_CLONE as libc::c_int | libc::O_CLOEXEC;
    // SAFETY: the path ends with 0; a descriptor that is returned is new and ours.
    unsafe {
        match libc::syscall(libc::SYS_open_tree, libc::AT_FDCWD, path.as_ptr(), flags) {
            -1 => Err(io::Error::last_os_error()),
            descriptor => Ok(OwnedFd::from_raw_fd(descriptor as i32)),
        }
    }
}

fn attach(tree: &OwnedFd, path: &Path) -> io::Result<()> {
    let path = c_path(path)?;
    let (from, flags) = (tree.as_raw_fd(), libc::MOVE_MOUNT_F_EMPTY_PATH);
    // SAFETY: both paths end with 0.
    checked(unsafe { libc::syscall(libc::SYS_move_mount, from, c"".as_ptr(), libc::AT_FDCWD, path.as_ptr(), flags) })
}

fn mount(
    source: Option<&CStr>,
    target: &CStr,
    kind: Option<&CStr>,
    flags: libc::c_ulong,
    options: &CStr,
) -> io::Result<()> {
    let pointer = |text: Option<&CStr>| text.map_or(std::ptr::null(), CStr::as_ptr);
    // SAFETY: all strings end with 0 and outlive the call; a null source or kind is allowed where the flags want none.
    checked(unsafe {
        libc::mount(pointer(source), target.as_ptr(), pointer(kind), flags, options.as_ptr().cast()).into()
    })
}

const READ_ONLY: u64 = libc::MOUNT_ATTR_RDONLY;
const NO_SETUID: u64 = libc::MOUNT_ATTR_NOSUID;
const NO_DEVICES: u64 = libc::MOUNT_ATTR_NODEV;

/// Takes rights from a mount, and from all below it. Safe between fork and exec.
fn restrict(path: &CStr, recursive: bool, attributes: u64) -> io::Result<()> {
    let change = libc::mount_attr { attr_set: attributes, attr_clr: 0, propagation: 0, userns_fd: 0 };
    let flags = if recursive { libc::AT_RECURSIVE } else { 0 };
    // SAFETY: the path ends with 0; the structure has the size that is said and outlives the call.
    checked(unsafe {
        libc::syscall(libc::SYS_mount_setattr, libc::AT_FDCWD, path.as_ptr(), flags, &change, size_of_val(&change))
    })
}

/// What differs for each program, in a mount namespace of its own: what `/proc` shows may be read and no longer changed, so no
/// program can write to the memory of another one of its user; and its shared memory is not another's. Safe between fork and
/// exec.
pub(super) fn of_one_program() -> io::Result<()> {
    restrict(c"/proc", false, READ_ONLY)?;
    let flags = libc::MS_NOSUID | libc::MS_NODEV | libc::MS_NOEXEC;
    mount(Some(c"tmpfs"), c"/dev/shm", Some(c"tmpfs"), flags, SHARED_MEMORY)
}

fn host_name() -> io::Result<()> {
    let name = HOST_NAME.to_bytes();
    // SAFETY: as many bytes as is said.
    checked(unsafe { libc::sethostname(name.as_ptr().cast(), name.len()).into() })
}

fn c_path(path: &Path) -> io::Result<CString> {
    use std::os::unix::ffi::OsStrExt;
    Ok(CString::new(path.as_os_str().as_bytes())?)
}
