//! What a child does between fork and exec: it drops the supervisor's privileges and becomes the program.
//!
//! Nothing is allocated there, and only system calls are made. Those that need root come before root is dropped, and
//! the filter last, so that the one `execve` it permits is this one.

use crate::{Limits, Program, Sandbox, User, checked, filter, view};
use std::ffi::CString;
use std::fs::{File, OpenOptions};
use std::io;
use std::os::fd::{AsRawFd, RawFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

/// The steps that can fail.
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

    pub fn description(self) -> &'static str {
        match self {
            Step::Streams => "its standard streams could not be connected",
            Step::Namespace => "its own mounts could not be set up",
            Step::Directory => "its working directory could not be entered",
            Step::Limit => "its limits could not be set",
            Step::User => "privileges could not be given up",
            Step::Trace => "the kernel forbids tracing it",
            Step::Filter => "the filter of system calls could not be installed",
            Step::Execute => "it could not be executed",
        }
    }
}

/// The failed step, and the error number.
pub(super) type ErrorReport = [u8; 5];

/// Everything the child needs, prepared before the fork.
pub(super) struct ChildPlan {
    argv: CStrings,
    env: CStrings,
    directory: CString,
    streams: [File; 3],
    limits: [(libc::__rlimit_resource_t, u64); 8],
    filter: Vec<libc::sock_filter>,
    user: User,
}

impl ChildPlan {
    pub fn new(sandbox: &Sandbox, program: &Program) -> io::Result<ChildPlan> {
        if program.argv.is_empty() {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, "no executable is given"));
        }
        let output = |path: &Path| {
            let mut options = OpenOptions::new();
            // an earlier program in the same directory may have put a link there
            options.write(true).create(true).truncate(true).mode(0o600).custom_flags(libc::O_NOFOLLOW);
            let file = options.open(path)?;
            sandbox.give(path)?;
            Ok::<_, io::Error>(file)
        };
        Ok(ChildPlan {
            argv: CStrings::new(program.argv.iter().cloned())?,
            env: CStrings::new(program.env.iter().map(|(name, value)| format!("{name}={value}")))?,
            directory: CString::new(program.directory.as_os_str().as_bytes())?,
            streams: [
                File::open(program.stdin.unwrap_or(Path::new("/dev/null")))?,
                output(program.stdout)?,
                output(program.stderr)?,
            ],
            limits: limits(&program.limits),
            filter: filter::program(),
            user: sandbox.user,
        })
    }

    /// Never returns: the child becomes the program, or reports why it cannot and exits.
    pub fn become_program(&self, error_sink: RawFd) -> ! {
        let (step, error) = match self.prepare(error_sink) {
            Err(failed) => failed,
            Ok(()) => {
                let [argv, env] = [&self.argv.pointers, &self.env.pointers];
                // SAFETY: arrays that end with null, of strings that end with 0.
                unsafe { libc::execve(argv[0], argv.as_ptr(), env.as_ptr()) };
                (Step::Execute, io::Error::last_os_error())
            }
        };
        let mut report: ErrorReport = [step as u8, 0, 0, 0, 0];
        report[1..].copy_from_slice(&error.raw_os_error().unwrap_or(0).to_le_bytes());
        // SAFETY: as many bytes as stated; nothing of the parent's is flushed or run by _exit.
        unsafe {
            libc::write(error_sink, report.as_ptr().cast(), report.len());
            libc::_exit(127)
        }
    }

    fn prepare(&self, error_sink: RawFd) -> Result<(), (Step, io::Error)> {
        let at = |step: Step| move |error: io::Error| (step, error);
        self.connect(error_sink).map_err(at(Step::Streams))?;
        prefer_oom_kill();
        enter_own_view().map_err(at(Step::Namespace))?;
        // SAFETY: the string ends with 0.
        checked(unsafe { libc::chdir(self.directory.as_ptr()) }.into()).map_err(at(Step::Directory))?;
        self.set_limits().map_err(at(Step::Limit))?;
        drop_privileges(self.user).map_err(at(Step::User))?;
        start_traced().map_err(at(Step::Trace))?;
        self.install_filter().map_err(at(Step::Filter))
    }

    /// Connects the three streams and closes everything else but `error_sink`, which exec closes.
    fn connect(&self, error_sink: RawFd) -> io::Result<()> {
        for (stream, number) in self.streams.iter().zip(0..) {
            // SAFETY: no memory is involved. The supervisor's own streams are open, so no other has a number below 3.
            checked(unsafe { libc::dup2(stream.as_raw_fd(), number) }.into())?;
        }
        for (first, last) in [(3, error_sink - 1), (error_sink + 1, RawFd::MAX)] {
            if first <= last {
                // SAFETY: descriptors of this process that nothing uses afterwards.
                checked(unsafe { libc::syscall(libc::SYS_close_range, first, last, 0) })?;
            }
        }
        Ok(())
    }

    fn set_limits(&self) -> io::Result<()> {
        for &(resource, value) in &self.limits {
            let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
            // SAFETY: the structure outlives both calls.
            unsafe {
                checked(libc::getrlimit(resource, &mut limit).into())?;
                let value = value.min(limit.rlim_max);
                limit = libc::rlimit { rlim_cur: value, rlim_max: value };
                checked(libc::setrlimit(resource, &limit).into())?;
            }
        }
        Ok(())
    }

    fn install_filter(&self) -> io::Result<()> {
        let filter = libc::sock_fprog { len: self.filter.len() as u16, filter: self.filter.as_ptr().cast_mut() };
        // SAFETY: as many instructions as stated; the kernel copies them.
        checked(unsafe { libc::syscall(libc::SYS_seccomp, libc::SECCOMP_SET_MODE_FILTER, FULL_SPEED, &filter) })
    }
}

/// Older kernels enable a speculation mitigation for filtered programs, which slows them down; this opts out.
const FULL_SPEED: libc::c_ulong = libc::SECCOMP_FILTER_FLAG_SPEC_ALLOW;

/// Strings in the form that `execve` takes.
struct CStrings {
    _strings: Vec<CString>,
    pointers: Vec<*const libc::c_char>,
}

impl CStrings {
    fn new(strings: impl Iterator<Item = String>) -> io::Result<CStrings> {
        let strings = strings.map(CString::new).collect::<Result<Vec<_>, _>>()?;
        let pointers = strings.iter().map(|string| string.as_ptr()).chain([std::ptr::null()]).collect();
        Ok(CStrings { _strings: strings, pointers })
    }
}

/// Independent of the host's limit: the stack's limit determines where the kernel maps everything else.
const STACK_BYTES: u64 = 8 << 20;
const OPEN_FILES: u64 = 1024;
const LOCKED_BYTES: u64 = 8 << 20;

fn limits(limits: &Limits) -> [(libc::__rlimit_resource_t, u64); 8] {
    [
        (libc::RLIMIT_FSIZE, limits.file_bytes),
        (libc::RLIMIT_NPROC, limits.processes),
        (libc::RLIMIT_CORE, 0),
        (libc::RLIMIT_NOFILE, OPEN_FILES),
        (libc::RLIMIT_CPU, limits.cpu_seconds),
        (libc::RLIMIT_STACK, STACK_BYTES),
        (libc::RLIMIT_MEMLOCK, LOCKED_BYTES),
        (libc::RLIMIT_AS, limits.memory_bytes),
    ]
}

/// Makes the program the OOM killer's first choice. Kernels without the file ignore this.
fn prefer_oom_kill() {
    let score = b"1000";
    // SAFETY: strings of the stated lengths; a descriptor of our own.
    unsafe {
        let file = libc::open(c"/proc/self/oom_score_adj".as_ptr(), libc::O_WRONLY | libc::O_CLOEXEC);
        libc::write(file, score.as_ptr().cast(), score.len());
        libc::close(file);
    }
}

/// Creates a session and a mount namespace of its own.
fn enter_own_view() -> io::Result<()> {
    // SAFETY: no memory is involved; affects this process only.
    unsafe {
        libc::setsid();
        libc::umask(0o022);
        checked(libc::unshare(libc::CLONE_NEWNS).into())?;
    }
    view::isolate_program()
}

/// Drops every privilege permanently. In a user namespace with one user, that user stays and loses its capabilities.
fn drop_privileges(user: User) -> io::Result<()> {
    // SAFETY: plain numbers, and structures that outlive their calls.
    unsafe {
        for capability in 0..=CAPABILITIES {
            libc::prctl(libc::PR_CAPBSET_DROP, capability, 0, 0, 0);
        }
        // a single-user namespace forbids this, and its user has no other groups there
        libc::syscall(libc::SYS_setgroups, 0, std::ptr::null::<libc::gid_t>());
        checked(libc::syscall(libc::SYS_setresgid, user.gid, user.gid, user.gid))?;
        checked(libc::syscall(libc::SYS_setresuid, user.uid, user.uid, user.uid))?;
        let (header, none) = (CapabilityHeader { version: CAPABILITY_VERSION_3, pid: 0 }, [0u32; 6]);
        checked(libc::syscall(libc::SYS_capset, &header, none.as_ptr()))?;
        checked(libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0).into())
    }
}

/// More than exist: dropping one that does not exist has no effect.
const CAPABILITIES: libc::c_ulong = 63;
const CAPABILITY_VERSION_3: u32 = 0x2008_0522;

#[repr(C)]
struct CapabilityHeader {
    version: u32,
    pid: i32,
}

const SIGNALS: libc::c_int = 64;

/// From `linux/prctl.h`.
const PR_SET_TSC: libc::c_int = 26;
const PR_TSC_SIGSEGV: libc::c_ulong = 2;

/// Fixes addresses across runs, makes the time stamp counter trap, resets signals to their defaults, and stops until
/// the supervisor traces it.
fn start_traced() -> io::Result<()> {
    // SAFETY: plain numbers; an empty set and a `struct sigaction` of the kernel's (handler, flags, restorer, mask),
    // all 0.
    unsafe {
        checked(libc::personality(libc::ADDR_NO_RANDOMIZE as libc::c_ulong).into())?;
        // reading the time stamp counter raises a signal, so that the supervisor can give the virtual time
        checked(libc::prctl(PR_SET_TSC, PR_TSC_SIGSEGV, 0, 0, 0).into())?;
        for signal in 1..=SIGNALS {
            // exec passes ignored signals on. Two cannot be set, and the C library's function rejects two of its own
            let default = [0u64; 4];
            libc::syscall(libc::SYS_rt_sigaction, signal, &default, 0, size_of::<u64>());
        }
        let none = 0u64;
        checked(libc::syscall(libc::SYS_rt_sigprocmask, libc::SIG_SETMASK, &none, 0, size_of_val(&none)))?;
        checked(libc::ptrace(libc::PTRACE_TRACEME, 0, 0, 0))?;
        checked(libc::kill(libc::getpid(), libc::SIGSTOP).into())
    }
}
