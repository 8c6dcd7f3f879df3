//! What the golden process may not do if it is to be repeated exactly, and what its system calls change for the engine.

use crate::gate;
use crate::golden::{Calls, Golden, Trouble};
use crate::place::RECORDS;
use crate::tracee::{Registers, Stop, Tracee};
use crate::waiting::timespec;
use std::time::{Duration, Instant};

/// A thread that becomes a turn of the shim's ends soon; one that does not is a thread of its own.
const THREAD_ENDS: Duration = Duration::from_secs(5);

/// What makes a descriptor of a thing without a name, or takes the name of a file away.
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

#[derive(Default)]
pub struct Watch {
    /// Descriptors may have changed since they were last read.
    pub descriptors_changed: bool,
    /// There may be a descriptor now that a fork would share.
    pub shares: bool,
    /// Executable memory may have changed since it was last read.
    pub code_changed: bool,
    /// Something was written for a client to see.
    pub replied: bool,
    /// Under the replay shim, where a thread becomes a turn.
    pub replay: bool,
    /// How many it has started.
    pub threads: u64,
}

impl Watch {
    pub fn new(replay: bool) -> Watch {
        Watch { descriptors_changed: true, shares: false, code_changed: false, replied: false, replay, threads: 0 }
    }
}

impl Calls for Watch {
    fn returned(&mut self, golden: &mut Golden, before: &Registers, result: i64) -> Result<(), Trouble> {
        let protection = before.rdx as i32;
        let executable = protection & libc::PROT_EXEC != 0;
        let writable = protection & libc::PROT_WRITE != 0;
        let shared = before.r10 as i32 & libc::MAP_SHARED != 0;
        let shown = if self.replay { RECORDS } else { libc::STDOUT_FILENO };
        self.replied |= matches!(before.rax as i64, libc::SYS_write | libc::SYS_writev) && before.rdi as i32 == shown;
        match before.rax as i64 {
            libc::SYS_mmap | libc::SYS_mprotect | libc::SYS_pkey_mprotect if executable && writable => {
                Err(Trouble::Call("it makes code while it runs (memory that is both writable and executable)".into()))
            }
            libc::SYS_mmap if shared && writable => {
                Err(Trouble::Call("it maps memory that its forks would share (MAP_SHARED)".into()))
            }
            libc::SYS_mmap if executable => {
                self.code_changed = true;
                self.forget(golden, result as u64, before.rsi);
                Ok(())
            }
            libc::SYS_mprotect | libc::SYS_pkey_mprotect | libc::SYS_munmap => {
                self.code_changed |= executable;
                self.forget(golden, before.rdi, before.rsi);
                Ok(())
            }
            libc::SYS_set_tid_address => {
                golden.own.cleared = before.rdi;
                Ok(())
            }
            libc::SYS_sigaltstack if result == 0 && before.rdi != 0 => {
                golden.own.signal_stack = Some(signal_stack(golden, before.rdi)?);
                Ok(())
            }
            libc::SYS_shmat => Err(Trouble::Call("it uses shared memory (shmat)".into())),
            libc::SYS_clock_gettime => {
                if let Some(shown) = timespec(&golden.tracee, before.rsi) {
                    golden.saw(before.rdi as libc::clockid_t, shown);
                }
                Ok(())
            }
            libc::SYS_gettimeofday | libc::SYS_time | libc::SYS_brk | libc::SYS_futex => Ok(()),
            call => {
                self.descriptors_changed = true;
                self.shares |= result >= 0 && SHARING.contains(&call);
                Ok(())
            }
        }
    }

    fn event(&mut self, golden: &mut Golden, event: i32, before: &Registers) -> Result<(), Trouble> {
        match event {
            libc::PTRACE_EVENT_SECCOMP => match gate::admits(&golden.tracee, golden.process)? {
                true => Ok(()),
                false => Err(Trouble::Call("it starts, replaces or signals another process".into())),
            },
            libc::PTRACE_EVENT_CLONE if self.replay => {
                let thread = Tracee::of(golden.tracee.event_message()? as i32)?;
                thread_ends(&thread)
            }
            libc::PTRACE_EVENT_CLONE => {
                self.threads += 1;
                golden.adopt(before)
            }
            _ => Ok(()),
        }
    }
}

impl Watch {
    fn forget(&self, golden: &mut Golden, begin: u64, bytes: u64) {
        golden.forget(begin..begin.saturating_add(bytes));
    }
}

fn signal_stack(golden: &Golden, at: u64) -> Result<[u64; 3], Trouble> {
    let mut words = [0; 3];
    for (word, offset) in words.iter_mut().zip([0, 8, 16]) {
        *word = golden.tracee.read_u64(at + offset)?;
    }
    Ok(words)
}

/// Runs a new thread to its end before the one that started it goes on: their order is then the same every time.
fn thread_ends(thread: &Tracee) -> Result<(), Trouble> {
    let begun = Instant::now();
    loop {
        match thread.poll()? {
            Some(stop) if stop.ended() => return Ok(()),
            Some(Stop::Signal(libc::SIGSTOP)) | Some(Stop::Event(_)) => thread.resume(0)?,
            Some(Stop::Signal(signal)) => thread.resume(signal)?,
            Some(_) | None if begun.elapsed() < THREAD_ENDS => std::thread::sleep(Duration::from_micros(50)),
            Some(_) | None => {
                return Err(Trouble::Call("it starts a thread that the replay shim did not adopt".into()));
            }
        }
    }
}
