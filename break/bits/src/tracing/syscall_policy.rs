//! Which system calls a program may make, and what those of the golden process change for the engine.
//!
//! No process may signal, start or replace another. The golden process must also be exactly repeatable, so calls that
//! prevent that end its run.

use crate::engine_messages::Program;
use crate::tracing::golden::{GoldenProcess, SyscallObserver, TraceError};
use crate::tracing::thread_calls::timespec;
use sandbox::TracedCall;
use sandbox::tracee::{Pid, Registers, Stop, Tracee};
use std::io;
use std::time::{Duration, Instant};

/// Decides a call before which the filter has stopped `tracee`, a thread of `process`, and denies it if need be: a
/// process may only signal itself. Returns whether the call is permitted. The caller resumes the thread.
pub fn decide(tracee: &Tracee, process: Pid) -> io::Result<bool> {
    let permitted = match TracedCall::from_message(tracee.event_message()?) {
        Some(TracedCall::Signal) => sandbox::signals_itself(tracee, process)?,
        Some(TracedCall::Fork | TracedCall::Exec | TracedCall::Answered) | None => false,
    };
    if !permitted {
        sandbox::deny(tracee)?;
    }
    Ok(permitted)
}

/// A kernel thread that becomes a virtual thread of the shim ends soon; one that does not is a real thread.
const THREAD_ENDS: Duration = Duration::from_secs(5);

/// Calls that create a descriptor without a file name, or remove a file's name.
const SHARING: [i64; 16] = [
    libc::SYS_pipe,
    libc::SYS_pipe2,
    libc::SYS_socket,
    libc::SYS_socketpair,
    libc::SYS_accept,
    libc::SYS_accept4,
    libc::SYS_eventfd,
    libc::SYS_eventfd2,
    libc::SYS_epoll_create,
    libc::SYS_epoll_create1,
    libc::SYS_timerfd_create,
    libc::SYS_signalfd4,
    libc::SYS_inotify_init1,
    libc::SYS_memfd_create,
    libc::SYS_unlink,
    libc::SYS_unlinkat,
];

pub struct SyscallPolicy {
    /// Descriptors may have changed since they were last read.
    pub descriptors_changed: bool,
    /// There may be a new descriptor that a fork would share.
    pub shares: bool,
    /// Executable memory may have changed since it was last read.
    pub code_changed: bool,
    /// The program has written output to a client.
    pub replied: bool,
    /// Under the replay shim, which turns kernel threads into virtual ones.
    replay: bool,
    /// The descriptor that output to clients is written to.
    output: i32,
    /// How many threads it has started.
    pub threads: u64,
}

impl SyscallPolicy {
    pub fn new(program: &Program) -> SyscallPolicy {
        SyscallPolicy {
            descriptors_changed: true,
            shares: false,
            code_changed: false,
            replied: false,
            replay: program.replay.is_some(),
            output: program.output_descriptor(),
            threads: 0,
        }
    }
}

impl SyscallObserver for SyscallPolicy {
    fn call_returned(&mut self, golden: &mut GoldenProcess, before: &Registers, result: i64) -> Result<(), TraceError> {
        let protection = before.rdx as i32;
        let executable = protection & libc::PROT_EXEC != 0;
        let writable = protection & libc::PROT_WRITE != 0;
        let shared = before.r10 as i32 & libc::MAP_SHARED != 0;
        let writes = matches!(before.rax as i64, libc::SYS_write | libc::SYS_writev);
        self.replied |= writes && before.rdi as i32 == self.output;
        if golden.affects_cache(before) {
            return Err(TraceError::Unsupported(
                "it maps or changes memory that the engine uses: --stepper block uses none, and is slower".into(),
            ));
        }
        match before.rax as i64 {
            libc::SYS_mmap | libc::SYS_mprotect | libc::SYS_pkey_mprotect if executable && writable => {
                Err(TraceError::Unsupported(
                    "it generates code at run time (memory that is both writable and executable)".into(),
                ))
            }
            libc::SYS_mmap if shared && writable => {
                Err(TraceError::Unsupported("it maps memory that its forks would share (MAP_SHARED)".into()))
            }
            libc::SYS_mmap if executable => {
                self.code_changed = true;
                forget_code(golden, result as u64, before.rsi);
                Ok(())
            }
            libc::SYS_mprotect | libc::SYS_pkey_mprotect | libc::SYS_munmap => {
                self.code_changed |= executable;
                forget_code(golden, before.rdi, before.rsi);
                Ok(())
            }
            libc::SYS_set_tid_address => {
                golden.kernel_state.cleared_at_exit = before.rdi;
                Ok(())
            }
            libc::SYS_sigaltstack if result == 0 && before.rdi != 0 => {
                golden.kernel_state.signal_stack = Some(signal_stack(golden, before.rdi)?);
                Ok(())
            }
            libc::SYS_shmat => Err(TraceError::Unsupported("it uses shared memory (shmat)".into())),
            libc::SYS_clock_gettime => {
                if let Some(shown) = timespec(&golden.tracee, before.rsi) {
                    golden.record_clock(before.rdi as libc::clockid_t, shown);
                }
                Ok(())
            }
            libc::SYS_brk | libc::SYS_futex => Ok(()),
            call if sandbox::ANSWERED.contains(&call) => Ok(()),
            call => {
                self.descriptors_changed = true;
                self.shares |= result >= 0 && SHARING.contains(&call);
                Ok(())
            }
        }
    }

    fn call_stopped(&mut self, golden: &mut GoldenProcess, event: i32, before: &Registers) -> Result<(), TraceError> {
        match event {
            libc::PTRACE_EVENT_SECCOMP if sandbox::is_answered(&golden.tracee)? => Ok(golden.answer_call()?),
            libc::PTRACE_EVENT_SECCOMP => match decide(&golden.tracee, golden.process)? {
                true => Ok(()),
                false => Err(TraceError::Unsupported("it starts, replaces or signals another process".into())),
            },
            libc::PTRACE_EVENT_CLONE if self.replay => {
                let thread = Tracee::new(golden.tracee.event_message()? as i32)?;
                run_thread_to_end(&thread)?;
                match golden.tracee.registers() {
                    Ok(_) => Ok(()),
                    Err(_) => Err(TraceError::Unsupported(
                        "it starts a thread that the replay shim did not adopt, and that ended the process".into(),
                    )),
                }
            }
            libc::PTRACE_EVENT_CLONE => {
                self.threads += 1;
                golden.host.thread_started();
                golden.adopt(before)
            }
            _ => Ok(()),
        }
    }
}

fn forget_code(golden: &mut GoldenProcess, begin: u64, bytes: u64) {
    golden.forget(begin..begin.saturating_add(bytes));
}

fn signal_stack(golden: &GoldenProcess, at: u64) -> Result<[u64; 3], TraceError> {
    let mut words = [0; 3];
    for (word, offset) in words.iter_mut().zip([0, 8, 16]) {
        *word = golden.tracee.read_u64(at + offset)?;
    }
    Ok(words)
}

/// Runs a new thread to its end before the one that started it is resumed, so that their order is always the same.
fn run_thread_to_end(thread: &Tracee) -> Result<(), TraceError> {
    let begin = Instant::now();
    loop {
        match thread.poll()? {
            Some(stop) if stop.ended() => return Ok(()),
            Some(Stop::Signal(libc::SIGSTOP)) | Some(Stop::Event(_)) => thread.resume(0)?,
            Some(Stop::Signal(signal)) => thread.resume(signal)?,
            Some(_) | None if begin.elapsed() < THREAD_ENDS => std::thread::sleep(Duration::from_micros(50)),
            Some(_) | None => {
                return Err(TraceError::Unsupported("it starts a thread that the replay shim did not adopt".into()));
            }
        }
    }
}
