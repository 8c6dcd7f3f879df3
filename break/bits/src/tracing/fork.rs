//! Forks the golden process at a point, so that the copies share nothing that either could observe.

use crate::tracing::descriptors::{Descriptor, Descriptors};
use crate::tracing::golden::GoldenProcess;
use sandbox::tracee::{Registers, Stop, Tracee, call_registers};
use std::ffi::CString;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

/// Holds paths for system calls made in a child, far from the program's mappings. Unmapped before the child is resumed.
const PAGE: u64 = 0x0010_0000;
const PAGE_BYTES: u64 = 4096;

/// The files of a fork.
#[derive(Clone, Debug)]
pub struct ForkFiles {
    /// Its copy of the golden process's working directory.
    pub work: PathBuf,
    /// Its current directory. None: unchanged, because it is outside the working directory.
    pub current_dir: Option<PathBuf>,
    /// Descriptors that start as empty files: number and path.
    pub fresh: Vec<(i32, PathBuf)>,
}

/// Address of a `syscall` instruction in the program, by which the engine makes calls in it.
#[derive(Clone, Copy)]
pub struct Gadget(pub u64);

impl Gadget {
    /// Forks the golden process where it is stopped. The child, a child of the engine, is stopped there as well.
    pub fn fork(self, golden: &GoldenProcess) -> io::Result<Tracee> {
        let flags = (libc::CLONE_PARENT | libc::SIGCHLD) as u64;
        let mark = sandbox::FORK_MARK;
        let registers = call_registers(golden.registers(), self.0, libc::SYS_clone, [flags, 0, 0, 0, 0, mark]);
        let parent = &golden.tracee;
        parent.set_registers(&registers)?;
        match parent.step()? {
            Stop::Event(libc::PTRACE_EVENT_FORK) => {}
            stop => return Err(io::Error::other(format!("the program could not be forked: {stop:?}"))),
        }
        let pid = parent.event_message()? as i32;
        let stop = parent.step()?;
        if !stop.trapped() {
            return Err(io::Error::other(format!("the program did not return from its fork: {stop:?}")));
        }
        match sandbox::tracee::wait(pid)? {
            Stop::Signal(libc::SIGSTOP) => {}
            stop => return Err(io::Error::other(format!("the fork did not begin stopped: {stop:?}"))),
        }
        let child = Tracee::new(pid)?;
        child.set_registers(&without_restart(golden.registers()))?;
        Ok(child)
    }

    /// Gives a fork its own working directory and files. Files whose offsets it would share with its parent are
    /// reopened.
    pub fn isolate(self, child: &Tracee, at: &Registers, files: &ForkFiles, open: &Descriptors) -> io::Result<()> {
        let calls = Calls { child, at, gadget: self };
        let protection = (libc::PROT_READ | libc::PROT_WRITE) as u64;
        let mapping = (libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_FIXED_NOREPLACE) as u64;
        calls.make("mmap", libc::SYS_mmap, [PAGE, PAGE_BYTES, protection, mapping, u64::MAX, 0])?;
        for (number, path) in &files.fresh {
            calls.open(path, libc::O_WRONLY | libc::O_CREAT | libc::O_TRUNC | libc::O_APPEND, *number)?;
        }
        for descriptor in open.reopened() {
            calls.reopen(descriptor, files)?;
        }
        if let Some(directory) = &files.current_dir {
            calls.put_path(directory)?;
            calls.make("chdir", libc::SYS_chdir, [PAGE, 0, 0, 0, 0, 0])?;
        }
        calls.make("munmap", libc::SYS_munmap, [PAGE, PAGE_BYTES, 0, 0, 0, 0])?;
        child.set_registers(&without_restart(at))
    }
}

/// Makes system calls in a child, one after the other.
struct Calls<'a> {
    child: &'a Tracee,
    at: &'a Registers,
    gadget: Gadget,
}

impl Calls<'_> {
    fn make(&self, name: &str, number: i64, arguments: [u64; 6]) -> io::Result<i64> {
        match self.child.system_call_from(self.at, self.gadget.0, number, arguments)? {
            result @ -4095..0 => {
                let error = io::Error::from_raw_os_error(-result as i32);
                Err(io::Error::new(error.kind(), format!("{name} in a fork failed: {error}")))
            }
            result => Ok(result),
        }
    }

    fn put_path(&self, path: &Path) -> io::Result<()> {
        let path = CString::new(path.as_os_str().as_bytes()).map_err(io::Error::other)?;
        self.child.write(PAGE, path.as_bytes_with_nul())
    }

    /// Opens a file under a descriptor number and closes what had it.
    fn open(&self, path: &Path, flags: i32, number: i32) -> io::Result<()> {
        self.put_path(path)?;
        let here = libc::AT_FDCWD as u64;
        let opened = self.make("openat", libc::SYS_openat, [here, PAGE, flags as u64, 0o600, 0, 0])?;
        if opened != i64::from(number) {
            let close_on_exec = (flags & libc::O_CLOEXEC) as u64;
            self.make("dup3", libc::SYS_dup3, [opened as u64, number as u64, close_on_exec, 0, 0, 0])?;
            self.make("close", libc::SYS_close, [opened as u64, 0, 0, 0, 0, 0])?;
        }
        Ok(())
    }

    fn reopen(&self, descriptor: &Descriptor, files: &ForkFiles) -> io::Result<()> {
        let flags = descriptor.flags & !(libc::O_CREAT | libc::O_EXCL | libc::O_TRUNC);
        let path = match &descriptor.in_work {
            Some(relative) => files.work.join(relative),
            None => descriptor.path.clone(),
        };
        self.open(&path, flags, descriptor.number)?;
        if descriptor.offset > 0 {
            let to = [descriptor.number as u64, descriptor.offset, libc::SEEK_SET as u64, 0, 0, 0];
            self.make("lseek", libc::SYS_lseek, to)?;
        }
        Ok(())
    }
}

/// Registers that prevent the kernel from restarting a system call.
fn without_restart(registers: &Registers) -> Registers {
    Registers { orig_rax: u64::MAX, ..*registers }
}
