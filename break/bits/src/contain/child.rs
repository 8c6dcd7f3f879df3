//! What a child does between fork and exec: it gives up everything that the engine can do, and becomes the program.
//!
//! Nothing is allocated there, and only system calls are made, in this order: what needs root before root is given up, the
//! filter last, so that the one `execve` it lets through is this one.

use super::{Contained, Place, User, checked, filter, view};
use crate::protocol::{Limits, Program};
use std::ffi::CString;
use std::fs::{File, OpenOptions};
use std::io;
use std::os::fd::{AsRawFd, RawFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

/// What the child could not do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(super) enum Step {
    Streams,
    Namespace,
    Directory,
    Limit,
    User,
    Trace,
    Filter,
    Execute,
}

impl Step {
    pub const ALL: [Step; 8] = [
        Step::Streams,
        Step::Namespace,
        Step::Directory,
        Step::Limit,
        Step::User,
        Step::Trace,
        Step::Filter,
        Step::Execute,
    ];

    pub fn words(self) -> &'static str {
        match self {
            Step::Streams => "its standard streams could not be connected",
            Step::Namespace => "it could not get mounts of its own",
            Step::Directory => "its working directory could not be entered",
            Step::Limit => "its limits could not be set",
            Step::User => "privileges could not be given up",
            Step::Trace => "the kernel does not let it be traced",
            Step::Filter => "the filter of system calls could not be installed",
            Step::Execute => "it could not be executed",
        }
    }
}

/// The step, and the number of the error.
pub(super) type Told = [u8; 5];

/// All that the child needs, made before the fork.
pub(super) struct Plan {
    argv: Texts,
    env: Texts,
    directory: CString,
    streams: [File; 3],
    limits: [(libc::__rlimit_resource_t, u64); 8],
    filter: Vec<libc::sock_filter>,
    user: User,
}

impl Plan {
    pub fn of(contained: &Contained, program: &Program, place: &Place) -> io::Result<Plan> {
        if program.argv.is_empty() {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, "no executable is given"));
        }
        let output = |path: &Path| {
            let mut new = OpenOptions::new();
            // an earlier program of the same directory may have put a link there
            new.write(true).create(true).truncate(true).mode(0o600).custom_flags(libc::O_NOFOLLOW);
            let made = new.open(path)?;
            contained.give(path)?;
            Ok::<_, io::Error>(made)
        };
        Ok(Plan {
            argv: Texts::of(program.argv.iter().cloned())?,
            env: Texts::of(program.env.iter().map(|(name, value)| format!("{name}={value}")))?,
            directory: CString::new(place.directory.as_os_str().as_bytes())?,
            streams: [
                File::open(place.stdin.unwrap_or(Path::new("/dev/null")))?,
                output(place.stdout)?,
                output(place.stderr)?,
            ],
            limits: limits(&program.limits, place.cpu_seconds),
            filter: filter::program(),
            user: contained.user,
        })
    }

    /// Never returns: the child is the program, or ends and tells why.
    pub fn become_program(&self, telling: RawFd) -> ! {
        let (step, error) = match self.prepare(telling) {
            Err(failed) => failed,
            Ok(()) => {
                let [argv, env] = [&self.argv.pointers, &self.env.pointers];
                // SAFETY: arrays that end with null, of strings that end with 0.
                unsafe { libc::execve(argv[0], argv.as_ptr(), env.as_ptr()) };
                (Step::Execute, io::Error::last_os_error())
            }
        };
        let mut told: Told = [step as u8, 0, 0, 0, 0];
        told[1..].copy_from_slice(&error.raw_os_error().unwrap_or(0).to_le_bytes());
        // SAFETY: as many bytes as is said; nothing of the parent's is flushed or run by _exit.
        unsafe {
            libc::write(telling, told.as_ptr().cast(), told.len());
            libc::_exit(127)
        }
    }

    fn prepare(&self, telling: RawFd) -> Result<(), (Step, io::Error)> {
        let at = |step: Step| move |error: io::Error| (step, error);
        self.connect(telling).map_err(at(Step::Streams))?;
        first_to_die();
        own_view().map_err(at(Step::Namespace))?;
        // SAFETY: the string ends with 0.
        checked(unsafe { libc::chdir(self.directory.as_ptr()) }.into()).map_err(at(Step::Directory))?;
        self.limit().map_err(at(Step::Limit))?;
        become_user(self.user).map_err(at(Step::User))?;
        be_traced().map_err(at(Step::Trace))?;
        self.install_filter().map_err(at(Step::Filter))
    }

    /// The three streams, and nothing else but `telling`, which is closed by exec.
    fn connect(&self, telling: RawFd) -> io::Result<()> {
        for (stream, number) in self.streams.iter().zip(0..) {
            // SAFETY: no memory is involved. The engine's own streams are open, so no other has a number below 3.
            checked(unsafe { libc::dup2(stream.as_raw_fd(), number) }.into())?;
        }
        for (first, last) in [(3, telling - 1), (telling + 1, RawFd::MAX)] {
            if first <= last {
                // SAFETY: descriptors of this process that nothing uses from now on.
                checked(unsafe { libc::syscall(libc::SYS_close_range, first, last, 0) })?;
            }
        }
        Ok(())
    }

    fn limit(&self) -> io::Result<()> {
        for &(what, most) in &self.limits {
            let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
            // SAFETY: the structure outlives both calls.
            unsafe {
                checked(libc::getrlimit(what, &mut limit).into())?;
                let most = most.min(limit.rlim_max);
                limit = libc::rlimit { rlim_cur: most, rlim_max: most };
                checked(libc::setrlimit(what, &limit).into())?;
            }
        }
        Ok(())
    }

    fn install_filter(&self) -> io::Result<()> {
        let filter = libc::sock_fprog { len: self.filter.len() as u16, filter: self.filter.as_ptr().cast_mut() };
        // SAFETY: as many instructions as is said; the kernel copies them.
        checked(unsafe { libc::syscall(libc::SYS_seccomp, libc::SECCOMP_SET_MODE_FILTER, FULL_SPEED, &filter) })
    }
}

/// Older kernels slow a filtered program down, as if it ran foreign code that must not measure others.
const FULL_SPEED: libc::c_ulong = libc::SECCOMP_FILTER_FLAG_SPEC_ALLOW;

/// Strings as `execve` wants them.
struct Texts {
    _texts: Vec<CString>,
    pointers: Vec<*const libc::c_char>,
}

impl Texts {
    fn of(texts: impl Iterator<Item = String>) -> io::Result<Texts> {
        let texts = texts.map(CString::new).collect::<Result<Vec<_>, _>>()?;
        let pointers = texts.iter().map(|text| text.as_ptr()).chain([std::ptr::null()]).collect();
        Ok(Texts { _texts: texts, pointers })
    }
}

/// Where the stack begins determines where the kernel maps the rest: the usual limit, whatever the host's is.
const STACK_BYTES: u64 = 8 << 20;
const OPEN_FILES: u64 = 1024;
const LOCKED_BYTES: u64 = 8 << 20;

fn limits(limits: &Limits, cpu_seconds: u64) -> [(libc::__rlimit_resource_t, u64); 8] {
    [
        (libc::RLIMIT_FSIZE, limits.file_bytes),
        (libc::RLIMIT_NPROC, limits.processes),
        (libc::RLIMIT_CORE, 0),
        (libc::RLIMIT_NOFILE, OPEN_FILES),
        (libc::RLIMIT_CPU, cpu_seconds),
        (libc::RLIMIT_STACK, STACK_BYTES),
        (libc::RLIMIT_MEMLOCK, LOCKED_BYTES),
        (libc::RLIMIT_AS, limits.memory_bytes),
    ]
}

/// When memory ends, the kernel ends this one before anything of the host's. Where it does not know how, nothing is lost.
fn first_to_die() {
    let most = b"1000";
    // SAFETY: strings of the lengths that are said; a descriptor of our own.
    unsafe {
        let file = libc::open(c"/proc/self/oom_score_adj".as_ptr(), libc::O_WRONLY | libc::O_CLOEXEC);
        libc::write(file, most.as_ptr().cast(), most.len());
        libc::close(file);
    }
}

/// A session of its own, and mounts of its own.
fn own_view() -> io::Result<()> {
    // SAFETY: no memory is involved; affects this process only.
    unsafe {
        libc::setsid();
        libc::umask(0o022);
        checked(libc::unshare(libc::CLONE_NEWNS).into())?;
    }
    view::of_one_program()
}

/// Gives up every privilege for good. In a user namespace with one user, that user is kept and loses what it could do.
fn become_user(user: User) -> io::Result<()> {
    // SAFETY: plain numbers, and structures that outlive their calls.
    unsafe {
        for capability in 0..=CAPABILITIES {
            libc::prctl(libc::PR_CAPBSET_DROP, capability, 0, 0, 0);
        }
        // one user's namespace forbids this, and its user has no other groups to lose there
        libc::syscall(libc::SYS_setgroups, 0, std::ptr::null::<libc::gid_t>());
        checked(libc::syscall(libc::SYS_setresgid, user.gid, user.gid, user.gid))?;
        checked(libc::syscall(libc::SYS_setresuid, user.uid, user.uid, user.uid))?;
        let (header, none) = (CapabilityHeader { version: CAPABILITY_VERSION_3, pid: 0 }, [0u32; 6]);
        checked(libc::syscall(libc::SYS_capset, &header, none.as_ptr()))?;
        checked(libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0).into())
    }
}

/// More than there are: what the kernel does not know cannot be dropped, nor had.
const CAPABILITIES: libc::c_ulong = 63;
const CAPABILITY_VERSION_3: u32 = 0x2008_0522;

#[repr(C)]
struct CapabilityHeader {
    version: u32,
    pid: i32,
}

/// Each has a bit in a word.
const SIGNALS: libc::c_int = 64;

/// The same addresses in every run, signals as a new program expects them, and the engine as its tracer, for which it waits.
fn be_traced() -> io::Result<()> {
    // SAFETY: plain numbers; an empty set and a `struct sigaction` of the kernel's (handler, flags, restorer, mask), all 0.
    unsafe {
        checked(libc::personality(libc::ADDR_NO_RANDOMIZE as libc::c_ulong).into())?;
        for signal in 1..=SIGNALS {
            // what is ignored here exec would pass on; two cannot be set. The C library hides two of its own from its function
            let usual = [0u64; 4];
            libc::syscall(libc::SYS_rt_sigaction, signal, &usual, 0, size_of::<u64>());
        }
        let none = 0u64;
        checked(libc::syscall(libc::SYS_rt_sigprocmask, libc::SIG_SETMASK, &none, 0, size_of_val(&none)))?;
        checked(libc::ptrace(libc::PTRACE_TRACEME, 0, 0, 0))?;
        checked(libc::kill(libc::getpid(), libc::SIGSTOP).into())
    }
}
