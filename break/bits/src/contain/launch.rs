//! Starts a program as the unprivileged user, below limits and the filter, and stops it at its first instruction.
//!
//! Between fork and exec nothing is allocated, and only system calls are made, in this order: what needs root before root is
//! given up, the filter last, so that the one `execve` it lets through is this one.

use super::{Contained, User, filter, start, view};
use crate::protocol::{Limits, Program};
use crate::tracee::{Pid, Stop, Tracee, wait};
use model::Failure;
use std::ffi::CString;
use std::fs::{File, OpenOptions};
use std::io::{self, Read};
use std::os::fd::{AsRawFd, RawFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

/// Where a program runs, and what it is connected with.
#[derive(Clone, Copy, Debug)]
pub struct Place<'a> {
    /// Its working directory, from [`Contained::directory`].
    pub directory: &'a Path,
    /// None: the end of input at once.
    pub stdin: Option<&'a Path>,
    /// Made anew, and given to the program's user.
    pub stdout: &'a Path,
    pub stderr: &'a Path,
    /// Processor time after which the kernel ends it, in whole seconds.
    pub cpu_seconds: u64,
}

/// A program that has not executed an instruction yet.
pub struct Launched {
    pub tracee: Tracee,
    /// Address of the program's own first instruction (`AT_ENTRY`); before it, the dynamic linker runs.
    pub entry: u64,
    /// Address of a `syscall` instruction that is mapped as long as the program runs.
    pub gadget: u64,
}

/// What the engine is told about a program from now on. After `PTRACE_CONT`, and besides its end and its signals:
///
/// - `PTRACE_EVENT_SECCOMP`: before a call of [`filter::Traced`], whose number is the event's message.
/// - `PTRACE_EVENT_FORK`, `VFORK`, `CLONE`: it has a new child or thread, whose id is the message. That is traced as well and
///   stops by itself with `SIGSTOP` before its first instruction, perhaps before this event is seen.
/// - `PTRACE_EVENT_EXEC`: it has become another program, which only happens if the engine lets it.
const OPTIONS: i32 = libc::PTRACE_O_EXITKILL
    | libc::PTRACE_O_TRACESECCOMP
    | libc::PTRACE_O_TRACECLONE
    | libc::PTRACE_O_TRACEFORK
    | libc::PTRACE_O_TRACEVFORK
    | libc::PTRACE_O_TRACEEXEC;

/// Starts `program` in `place`. Blocks until it stands at its first instruction.
pub fn launch(contained: &Contained, program: &Program, place: &Place) -> Result<Launched, Failure> {
    let plan = Plan::of(contained, program, place).map_err(|e| {
        Failure::environment(format!("{} cannot be started: {e}", name(program))).why("its files cannot be opened")
    })?;
    let (mut told, telling) = io::pipe().map_err(|e| Failure::environment(format!("no pipe can be made: {e}")))?;
    // SAFETY: the engine has one thread; the child makes system calls only, and ends or becomes the program.
    let pid = match unsafe { libc::fork() } {
        -1 => return Err(Failure::environment(format!("no process can be started: {}", io::Error::last_os_error()))),
        0 => plan.become_program(telling.as_raw_fd()),
        pid => pid,
    };
    drop(telling);
    match to_first_instruction(pid) {
        Ok(true) => start::prepare(pid).map_err(|e| {
            abandon(pid);
            Failure::environment(format!("{} was started and cannot be prepared: {e}", name(program)))
        }),
        Ok(false) => Err(told_failure(program, contained, &mut told)),
        Err(e) => {
            abandon(pid);
            Err(Failure::environment(format!("{} was started and cannot be followed: {e}", name(program))))
        }
    }
}

/// False: it ended on the way.
fn to_first_instruction(pid: Pid) -> io::Result<bool> {
    if wait(pid)? != Stop::Signal(libc::SIGSTOP) {
        return Ok(false);
    }
    request(libc::PTRACE_SETOPTIONS, pid, OPTIONS)?;
    loop {
        request(libc::PTRACE_CONT, pid, 0)?;
        match wait(pid)? {
            Stop::Event(libc::PTRACE_EVENT_EXEC) => break,
            Stop::Exited(_) | Stop::Killed(_) => return Ok(false),
            // the filter's stop before execve
            _ => (),
        }
    }
    // this stop is within execve: a step ends the call, and executes nothing yet
    request(libc::PTRACE_SINGLESTEP, pid, 0)?;
    Ok(wait(pid)?.trapped())
}

fn request(request: libc::c_uint, pid: Pid, data: i32) -> io::Result<()> {
    // SAFETY: the requests made here take plain numbers.
    checked(unsafe { libc::ptrace(request, pid, 0, libc::c_long::from(data)) })
}

/// Ends what is not to go on.
fn abandon(pid: Pid) {
    // SAFETY: our own child, not waited for yet.
    unsafe { libc::kill(pid, libc::SIGKILL) };
    while matches!(wait(pid), Ok(stop) if !stop.ended()) {}
}

fn name(program: &Program) -> &str {
    program.argv.first().map_or("a program without a name", String::as_str)
}

/// What the child could not do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
enum Step {
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
    const ALL: [Step; 8] = [
        Step::Streams,
        Step::Namespace,
        Step::Directory,
        Step::Limit,
        Step::User,
        Step::Trace,
        Step::Filter,
        Step::Execute,
    ];

    fn words(self) -> &'static str {
        match self {
            Step::Streams => "its standard streams could not be connected",
            Step::Namespace => "its /proc could not be made read-only",
            Step::Directory => "its working directory could not be entered",
            Step::Limit => "its limits could not be set",
            Step::User => "privileges could not be given up",
            Step::Trace => "the kernel does not let it be traced",
            Step::Filter => "the filter of system calls could not be installed",
            Step::Execute => "it could not be executed",
        }
    }
}

type Told = [u8; 5];

fn told_failure(program: &Program, contained: &Contained, from: &mut impl Read) -> Failure {
    let mut told: Told = [0; 5];
    let failure = |why: String| Failure::environment(format!("{} cannot be started", name(program))).why(why);
    if from.read_exact(&mut told).is_err() {
        return failure("it was ended before its first instruction".into());
    }
    let [step, number @ ..] = told;
    let step = Step::ALL[usize::from(step).min(Step::ALL.len() - 1)];
    let number = i32::from_le_bytes(number);
    let failure = failure(format!("{}: {}", step.words(), io::Error::from_raw_os_error(number)));
    match (step, number) {
        (Step::Trace, libc::EPERM) => failure.next(crate::inspect::may_trace_advice()),
        (Step::Execute, libc::EACCES) => match crate::inspect::barrier(name(program).as_ref(), contained.user) {
            Some(barrier) => failure.why(barrier.why).next(barrier.next),
            None => failure,
        },
        _ => failure,
    }
}

/// All that the child needs, made before the fork.
struct Plan {
    argv: Texts,
    env: Texts,
    directory: CString,
    streams: [File; 3],
    limits: [(libc::__rlimit_resource_t, u64); 8],
    filter: Vec<libc::sock_filter>,
    user: User,
}

impl Plan {
    fn of(contained: &Contained, program: &Program, place: &Place) -> io::Result<Plan> {
        if program.argv.is_empty() {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, "no executable is given"));
        }
        let output = |path: &Path| {
            let made = OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(path)?;
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
    fn become_program(&self, telling: RawFd) -> ! {
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
        checked(unsafe { libc::prctl(libc::PR_SET_SECCOMP, libc::SECCOMP_MODE_FILTER, &filter) }.into())
    }
}

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

/// A session of its own, and a mount namespace in which `/proc` cannot be written to.
fn own_view() -> io::Result<()> {
    // SAFETY: no memory is involved; affects this process only.
    unsafe {
        libc::setsid();
        libc::umask(0o022);
        checked(libc::unshare(libc::CLONE_NEWNS).into())?;
    }
    view::proc_read_only()
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

/// The same addresses in every run, signals as a new program expects them, and the engine as its tracer, for which it waits.
fn be_traced() -> io::Result<()> {
    // SAFETY: plain numbers; the empty set outlives its call.
    unsafe {
        checked(libc::personality(libc::ADDR_NO_RANDOMIZE as libc::c_ulong).into())?;
        for signal in 1..=64 {
            // the engine ignores some, which exec would pass on; two cannot be set
            libc::signal(signal, libc::SIG_DFL);
        }
        let none = 0u64;
        checked(libc::syscall(libc::SYS_rt_sigprocmask, libc::SIG_SETMASK, &none, 0, size_of_val(&none)))?;
        checked(libc::ptrace(libc::PTRACE_TRACEME, 0, 0, 0))?;
        checked(libc::kill(libc::getpid(), libc::SIGSTOP).into())
    }
}

fn checked(result: libc::c_long) -> io::Result<()> {
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}
