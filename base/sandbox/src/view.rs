//! The file system inside the sandbox: the host's files, read-only; a `/dev` and a `/proc` of its own; one bounded
//! scratch directory; and a separate `/dev/shm` per program.
//!
//! `/tmp` is read-only as well: later programs would read what earlier ones wrote there. A program that needs temporary
//! files gets its own directory through `TMPDIR`.

use crate::virtual_host::fixed_bytes;
use crate::{checked, unavailable};
use model::Failure;
use model::random::Random;
use std::ffi::{CStr, CString};
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

/// In a directory that exists on every host and is replaced here, so that the path is always the same.
const SCRATCH: &str = "/dev/scratch";
const DEVICES: [&str; 3] = ["null", "zero", "full"];
/// Files of fixed bytes, so that every run reads the same ones. They end, unlike the devices.
const RANDOM: [&str; 2] = ["random", "urandom"];
const RANDOM_BYTES: usize = 1 << 20;
/// Far more files than programs create.
const FILES: u32 = 1 << 20;
const DEV: &CStr = c"mode=0755,size=4m,nr_inodes=64";
const SHARED_MEMORY: &CStr = c"mode=1777,size=64m,nr_inodes=1024";
const HOST_NAME: &CStr = c"flip";

/// Sets up a new mount namespace and returns the scratch directory.
pub(super) fn arrange(scratch_bytes: u64) -> Result<PathBuf, Failure> {
    let step = |what: &str, result: io::Result<()>| result.map_err(|e| unavailable(what, &e));
    step("mounts of its own", mount(None, c"/", None, libc::MS_REC | libc::MS_PRIVATE, c""))?;
    let devices = devices().map_err(|e| unavailable("devices", &e))?;
    step("a read-only file system", restrict(c"/", true, READ_ONLY | NO_SETUID | NO_DEVICES))?;
    step("its own /dev", dev(&devices))?;
    step("a scratch directory", scratch(scratch_bytes))?;
    // the mount points exist now
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
    let bytes = fixed_bytes(&mut Random(2), RANDOM_BYTES);
    for name in RANDOM {
        std::fs::write(Path::new("/dev").join(name), &bytes)?;
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

/// Detached mounts of the host's devices, made while devices can still be opened.
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
    // SAFETY: all strings end with 0 and outlive the call; a null source or kind is allowed where the flags need none.
    checked(unsafe {
        libc::mount(pointer(source), target.as_ptr(), pointer(kind), flags, options.as_ptr().cast()).into()
    })
}

const READ_ONLY: u64 = libc::MOUNT_ATTR_RDONLY;
const NO_SETUID: u64 = libc::MOUNT_ATTR_NOSUID;
const NO_DEVICES: u64 = libc::MOUNT_ATTR_NODEV;

/// Removes rights from a mount and, if `recursive`, from all below it. Safe between fork and exec.
fn restrict(path: &CStr, recursive: bool, attributes: u64) -> io::Result<()> {
    let change = libc::mount_attr { attr_set: attributes, attr_clr: 0, propagation: 0, userns_fd: 0 };
    let flags = if recursive { libc::AT_RECURSIVE } else { 0 };
    // SAFETY: the path ends with 0; the structure has the stated size and outlives the call.
    checked(unsafe {
        libc::syscall(libc::SYS_mount_setattr, libc::AT_FDCWD, path.as_ptr(), flags, &change, size_of_val(&change))
    })
}

/// Separates one program from others of its user, in its own mount namespace: `/proc` becomes read-only, so it cannot
/// write to another's memory, and its shared memory is its own. Safe between fork and exec.
pub(super) fn isolate_program() -> io::Result<()> {
    restrict(c"/proc", false, READ_ONLY)?;
    let flags = libc::MS_NOSUID | libc::MS_NODEV | libc::MS_NOEXEC;
    mount(Some(c"tmpfs"), c"/dev/shm", Some(c"tmpfs"), flags, SHARED_MEMORY)
}

fn host_name() -> io::Result<()> {
    let name = HOST_NAME.to_bytes();
    // SAFETY: as many bytes as stated.
    checked(unsafe { libc::sethostname(name.as_ptr().cast(), name.len()).into() })
}

fn c_path(path: &Path) -> io::Result<CString> {
    use std::os::unix::ffi::OsStrExt;
    Ok(CString::new(path.as_os_str().as_bytes())?)
}
