//! A process or thread under ptrace: its registers, its memory, and how it is resumed.
#![allow(unsafe_code)] // ptrace and waitpid are system calls without a checked interface; each call is wrapped once, here

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::FileExt;
use std::sync::Arc;

pub type Pid = libc::pid_t;
pub type Registers = libc::user_regs_struct;

/// The state that a wait reported.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stop {
    Exited(i32),
    Killed(i32),
    /// Stopped by a signal that is not delivered yet.
    Signal(i32),
    /// `PTRACE_EVENT_*`.
    Event(i32),
}

impl Stop {
    pub fn from_status(status: i32) -> Stop {
        if libc::WIFEXITED(status) {
            Stop::Exited(libc::WEXITSTATUS(status))
        } else if libc::WIFSIGNALED(status) {
            Stop::Killed(libc::WTERMSIG(status))
        } else if status >> 16 != 0 {
            Stop::Event(status >> 16)
        } else {
            Stop::Signal(libc::WSTOPSIG(status))
        }
    }

    pub fn ended(self) -> bool {
        matches!(self, Stop::Exited(_) | Stop::Killed(_))
    }

    pub fn description(self) -> String {
        match self {
            Stop::Exited(status) => format!("it exits with status {status}"),
            Stop::Killed(signal) => format!("it is killed by signal {signal}"),
            Stop::Signal(signal) => format!("it gets signal {signal}"),
            Stop::Event(event) => format!("it stops for event {event}"),
        }
    }

    /// The trap of a step or a breakpoint.
    pub fn trapped(self) -> bool {
        self == Stop::Signal(libc::SIGTRAP)
    }
}

/// A traced process or thread. All methods but [`Tracee::poll`] require it to be stopped, and only its tracer thread
/// may call them.
#[derive(Clone)]
pub struct Tracee {
    pub pid: Pid,
    memory: Arc<File>,
}

impl Tracee {
    /// For a process that this thread already traces.
    pub fn new(pid: Pid) -> io::Result<Tracee> {
        let memory = OpenOptions::new().read(true).write(true).open(format!("/proc/{pid}/mem"))?;
        Ok(Tracee { pid, memory: Arc::new(memory) })
    }

    pub fn registers(&self) -> io::Result<Registers> {
        let mut registers = std::mem::MaybeUninit::<Registers>::zeroed();
        // SAFETY: the kernel fills the whole structure, whose size is its own.
        unsafe {
            request(libc::PTRACE_GETREGS, self.pid, 0, registers.as_mut_ptr() as u64)?;
            Ok(registers.assume_init())
        }
    }

    pub fn set_registers(&self, registers: &Registers) -> io::Result<()> {
        request(libc::PTRACE_SETREGS, self.pid, 0, std::ptr::from_ref(registers) as u64)
    }

    /// Reads memory at an address; fails where nothing is mapped. Ignores protection.
    pub fn read(&self, address: u64, into: &mut [u8]) -> io::Result<()> {
        self.memory.read_exact_at(into, offset(address)?)
    }

    /// Ignores protection: a private mapping gets its own copy of the page.
    pub fn write(&self, address: u64, bytes: &[u8]) -> io::Result<()> {
        self.memory.write_all_at(bytes, offset(address)?)
    }

    /// Writes memory where the program itself may write. Fails elsewhere, unlike [`Tracee::write`].
    pub fn write_as_itself(&self, address: u64, bytes: &[u8]) -> io::Result<()> {
        let from = libc::iovec { iov_base: bytes.as_ptr().cast_mut().cast(), iov_len: bytes.len() };
        let to = libc::iovec { iov_base: address as *mut libc::c_void, iov_len: bytes.len() };
        // SAFETY: reads the live `bytes`; the address is one of the other process.
        match unsafe { libc::process_vm_writev(self.pid, &from, 1, &to, 1, 0) } {
            -1 => Err(io::Error::last_os_error()),
            n if n as usize == bytes.len() => Ok(()),
            _ => Err(io::Error::from_raw_os_error(libc::EFAULT)),
        }
    }

    /// Reads eight bytes at an address. Costs less than [`Tracee::read`]; fails where not all of them are mapped.
    pub fn read_u64(&self, address: u64) -> io::Result<u64> {
        let mut word = 0u64;
        // SAFETY: the kernel itself, unlike libc's `ptrace`, writes the result where the last argument points.
        match unsafe { libc::syscall(libc::SYS_ptrace, libc::PTRACE_PEEKDATA, self.pid, address, &raw mut word) } {
            -1 => Err(io::Error::last_os_error()),
            _ => Ok(word),
        }
    }

    /// Ignores protection, as [`Tracee::write`] does.
    pub fn write_u64(&self, address: u64, word: u64) -> io::Result<()> {
        request(libc::PTRACE_POKEDATA, self.pid, address, word)
    }

    /// Reads up to `into.len()` bytes: fewer where the mapping ends.
    pub fn read_some(&self, address: u64, into: &mut [u8]) -> usize {
        let Ok(offset) = offset(address) else { return 0 };
        let whole = self.memory.read_at(into, offset).unwrap_or(0);
        if whole == 0 && !into.is_empty() {
            // a read that begins in a mapping and leaves it may fail as a whole
            let page = 4096 - (address & 4095) as usize;
            return if page < into.len() { self.memory.read_at(&mut into[..page], offset).unwrap_or(0) } else { 0 };
        }
        whole
    }

    /// Executes one instruction, or one iteration of a repeated one, or stops at the signal that it raises. Blocks.
    pub fn step(&self) -> io::Result<Stop> {
        request(libc::PTRACE_SINGLESTEP, self.pid, 0, 0)?;
        self.wait()
    }

    /// Starts a step without waiting for it: a system call may block.
    pub fn start_step(&self) -> io::Result<()> {
        self.start_step_with(0)
    }

    /// Starts a step with `signal` (0: none) delivered.
    pub fn start_step_with(&self, signal: i32) -> io::Result<()> {
        request(libc::PTRACE_SINGLESTEP, self.pid, 0, signal as u64)
    }

    /// Sets the code and address of the signal that the program is resumed with. It must be stopped by a signal.
    pub fn set_signal_details(&self, signal: i32, code: i32, address: u64) -> io::Result<()> {
        let word = |low: i32, high: i32| u64::from(low as u32) | u64::from(high as u32) << 32;
        let mut details = [0u64; size_of::<libc::siginfo_t>() / 8];
        details[..3].copy_from_slice(&[word(signal, 0), word(code, 0), address]);
        request(libc::PTRACE_SETSIGINFO, self.pid, 0, details.as_ptr() as u64)
    }

    /// Resumes it with `signal` (0: none) delivered.
    pub fn resume(&self, signal: i32) -> io::Result<()> {
        request(libc::PTRACE_CONT, self.pid, 0, signal as u64)
    }

    pub fn resume_and_wait(&self, signal: i32) -> io::Result<Stop> {
        self.resume(signal)?;
        self.wait()
    }

    pub fn wait(&self) -> io::Result<Stop> {
        wait(self.pid)
    }

    /// Returns a pending report without waiting.
    pub fn poll(&self) -> io::Result<Option<Stop>> {
        let mut status = 0;
        // SAFETY: `status` outlives the call.
        match unsafe { libc::waitpid(self.pid, &mut status, libc::__WALL | libc::WNOHANG) } {
            0 => Ok(None),
            n if n == self.pid => Ok(Some(Stop::from_status(status))),
            _ => Err(io::Error::last_os_error()),
        }
    }

    /// The message of an event: a new child's id, or an exit status.
    pub fn event_message(&self) -> io::Result<u64> {
        let mut message = 0u64;
        request(libc::PTRACE_GETEVENTMSG, self.pid, 0, std::ptr::from_mut(&mut message) as u64)?;
        Ok(message)
    }

    pub fn set_options(&self, options: i32) -> io::Result<()> {
        request(libc::PTRACE_SETOPTIONS, self.pid, 0, options as u64)
    }

    /// Reads the register state of a set (such as `NT_X86_XSTATE`) and returns how many bytes the processor has.
    pub fn register_set(&self, set: i32, into: &mut [u8]) -> io::Result<usize> {
        let mut part = libc::iovec { iov_base: into.as_mut_ptr().cast(), iov_len: into.len() };
        request(libc::PTRACE_GETREGSET, self.pid, set as u64, std::ptr::from_mut(&mut part) as u64)?;
        Ok(part.iov_len)
    }

    pub fn set_register_set(&self, set: i32, from: &[u8]) -> io::Result<()> {
        let mut part = libc::iovec { iov_base: from.as_ptr().cast_mut().cast(), iov_len: from.len() };
        request(libc::PTRACE_SETREGSET, self.pid, set as u64, std::ptr::from_mut(&mut part) as u64)
    }

    /// Makes a system call in the stopped process by running the `syscall` instruction at `gadget`, then restores its
    /// registers. Returns the kernel's result; errors are negative.
    pub fn system_call(&self, gadget: u64, number: i64, arguments: [u64; 6]) -> io::Result<i64> {
        let saved = self.registers()?;
        let result = self.system_call_from(&saved, gadget, number, arguments)?;
        self.set_registers(&saved)?;
        Ok(result)
    }

    /// Makes a system call from given registers without restoring them: saves two requests per call in a sequence.
    pub fn system_call_from(&self, from: &Registers, gadget: u64, number: i64, arguments: [u64; 6]) -> io::Result<i64> {
        self.set_registers(&call_registers(from, gadget, number, arguments))?;
        loop {
            match self.step()? {
                stop if stop.trapped() => return Ok(self.registers()?.rax as i64),
                // the filter's stop before the call, which is made
                Stop::Event(libc::PTRACE_EVENT_SECCOMP) => {}
                stop => {
                    return Err(io::Error::other(format!("a system call made for the program ended with {stop:?}")));
                }
            }
        }
    }

    /// The mask of its blocked signals.
    pub fn blocked(&self) -> io::Result<u64> {
        let mut mask = 0u64;
        request(libc::PTRACE_GETSIGMASK, self.pid, size_of::<u64>() as u64, std::ptr::from_mut(&mut mask) as u64)?;
        Ok(mask)
    }

    pub fn set_blocked(&self, mask: u64) -> io::Result<()> {
        request(libc::PTRACE_SETSIGMASK, self.pid, size_of::<u64>() as u64, std::ptr::from_ref(&mask) as u64)
    }

    /// Whether it holds a robust lock, which the kernel would release if it ended.
    pub fn holds_robust_lock(&self) -> bool {
        let (mut head, mut bytes) = (0u64, 0usize);
        // SAFETY: both numbers outlive the call.
        let got = unsafe { libc::syscall(libc::SYS_get_robust_list, self.pid, &raw mut head, &raw mut bytes) };
        // an empty list points to its own head; a failed call means that there is no list
        got == 0 && head != 0 && self.read_u64(head).is_ok_and(|first| first != head)
    }

    /// Stops tracing it. It runs on unless a signal stops it.
    pub fn detach(&self) -> io::Result<()> {
        self.detach_with(0)
    }

    /// Stops tracing it and delivers the signal that it is stopped by. Fails if it is not stopped.
    pub fn detach_with(&self, signal: i32) -> io::Result<()> {
        request(libc::PTRACE_DETACH, self.pid, 0, signal as u64)
    }

    /// Stops a [`seize`]d thread; a wait then reports it.
    pub fn interrupt(&self) -> io::Result<()> {
        request(libc::PTRACE_INTERRUPT, self.pid, 0, 0)
    }

    /// Sends it a signal.
    pub fn send(&self, signal: i32) {
        // SAFETY: no memory is involved; the process is our own child or that of one.
        unsafe { libc::kill(self.pid, signal) };
    }

    /// Kills it.
    pub fn kill(&self) {
        // SAFETY: no memory is involved; the process is our own child or that of one.
        unsafe { libc::kill(self.pid, libc::SIGKILL) };
    }
}

/// Registers with which the next step at `gadget` makes a system call. `orig_rax` prevents the restart of an earlier
/// call.
pub fn call_registers(from: &Registers, gadget: u64, number: i64, arguments: [u64; 6]) -> Registers {
    let [rdi, rsi, rdx, r10, r8, r9] = arguments;
    Registers { rip: gadget, rax: number as u64, orig_rax: u64::MAX, rdi, rsi, rdx, r10, r8, r9, ..*from }
}

/// Traces a running thread without stopping it. It runs on untraced when this process ends.
pub fn seize(thread: Pid) -> io::Result<()> {
    request(libc::PTRACE_SEIZE, thread, 0, 0)
}

/// Waits for one process or thread. Blocks.
pub fn wait(pid: Pid) -> io::Result<Stop> {
    let mut status = 0;
    loop {
        // SAFETY: `status` outlives the call.
        if unsafe { libc::waitpid(pid, &mut status, libc::__WALL) } >= 0 {
            return Ok(Stop::from_status(status));
        }
        let error = io::Error::last_os_error();
        if error.kind() != io::ErrorKind::Interrupted {
            return Err(error);
        }
    }
}

fn request(request: libc::c_uint, pid: Pid, address: u64, data: u64) -> io::Result<()> {
    // SAFETY: callers pass addresses of live structures of the size that the request requires, or plain numbers.
    match unsafe { libc::ptrace(request, pid, address, data) } {
        -1 => Err(io::Error::last_os_error()),
        _ => Ok(()),
    }
}

/// The upper half of the address space belongs to the kernel and is no valid file offset.
fn offset(address: u64) -> io::Result<u64> {
    if address >> 63 == 0 { Ok(address) } else { Err(io::Error::from_raw_os_error(libc::EFAULT)) }
}

/// Registers that are all zero, to build others from.
pub fn no_registers() -> Registers {
    // SAFETY: the structure consists of integers only.
    unsafe { std::mem::zeroed() }
}
