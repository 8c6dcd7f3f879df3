//! Recreates the golden process's other threads in a fork, which has only the thread that forked.
//!
//! Each gets the kernel's state of its original: registers, vector registers, blocked signals, the word that is cleared
//! when it ends, the stack of signal handlers. The C library's state is in memory and unchanged, thread ids included,
//! so that locks keep their owners. The kernel's thread ids differ.

use crate::processor::xstate::Xstate;
use crate::tracing::fork::Gadget;
use crate::tracing::golden::GoldenProcess;
use crate::tracing::threads::Thread;
use sandbox::tracee::{Registers, Stop, Tracee, call_registers, wait};
use std::io;

const CLONE_FLAGS: i32 = libc::CLONE_VM
    | libc::CLONE_FS
    | libc::CLONE_FILES
    | libc::CLONE_SIGHAND
    | libc::CLONE_THREAD
    | libc::CLONE_SYSVSEM
    | libc::CLONE_CHILD_CLEARTID;
/// A function may use this much memory below the stack pointer (System V ABI).
const RED_ZONE: u64 = 128;
const PR_GET_TID_ADDRESS: u64 = 40;

impl Gadget {
    /// Creates all threads that the fork `child` lacks, stopped where those of the golden process are.
    pub fn clone_threads(self, golden: &GoldenProcess, child: &Tracee) -> io::Result<Vec<Tracee>> {
        let at = golden.registers();
        let arguments = [golden.kernel_state.cleared_at_exit, 0, 0, 0, 0, 0];
        child.system_call_from(at, self.0, libc::SYS_set_tid_address, arguments)?;
        let threads = golden.threads.stopped().map(|thread| self.clone_thread(child, at, thread)).collect();
        child.set_registers(&Registers { orig_rax: u64::MAX, ..*at })?;
        threads
    }

    /// The word that the kernel clears when a thread ends, as the dynamic linker has set it. 0: none, or unknown.
    pub fn cleared_at_exit(self, thread: &Tracee) -> io::Result<u64> {
        let at = thread.registers()?;
        let address = scratch(&at, 8);
        let saved = thread.read_u64(address)?;
        let arguments = [PR_GET_TID_ADDRESS, address, 0, 0, 0, 0];
        let result = thread.system_call(self.0, libc::SYS_prctl, arguments)?;
        let word = thread.read_u64(address)?;
        thread.write(address, &saved.to_le_bytes())?;
        Ok(if result == 0 { word } else { 0 })
    }

    fn clone_thread(self, child: &Tracee, at: &Registers, original: &Thread) -> io::Result<Tracee> {
        let arguments = [CLONE_FLAGS as u64, original.registers.rsp, 0, original.kernel_state.cleared_at_exit, 0, 0];
        child.set_registers(&call_registers(at, self.0, libc::SYS_clone, arguments))?;
        match child.step()? {
            Stop::Event(libc::PTRACE_EVENT_CLONE) => {}
            stop => return Err(failed(child, stop)),
        }
        let thread = child.event_message()? as i32;
        match child.step()? {
            stop if stop.trapped() => {}
            stop => return Err(failed(child, stop)),
        }
        match wait(thread)? {
            Stop::Signal(libc::SIGSTOP) => {}
            stop => return Err(io::Error::other(format!("a thread of a fork did not begin stopped: {stop:?}"))),
        }
        let thread = Tracee::new(thread)?;
        Xstate::of(&original.tracee)?.store(&thread)?;
        thread.set_blocked(original.tracee.blocked()?)?;
        if let Some(stack) = original.kernel_state.signal_stack {
            self.set_signal_stack(&thread, &original.registers, stack)?;
        }
        thread.set_registers(&Registers { orig_rax: u64::MAX, ..original.registers })?;
        Ok(thread)
    }

    fn set_signal_stack(self, thread: &Tracee, at: &Registers, stack: [u64; 3]) -> io::Result<()> {
        let mut saved = [0; 24];
        let address = scratch(at, saved.len() as u64);
        thread.read(address, &mut saved)?;
        thread.write(address, stack.map(u64::to_le_bytes).as_flattened())?;
        let result = thread.system_call_from(at, self.0, libc::SYS_sigaltstack, [address, 0, 0, 0, 0, 0])?;
        thread.write(address, &saved)?;
        if result == 0 { Ok(()) } else { Err(io::Error::from_raw_os_error(-result as i32)) }
    }
}

/// Address of memory that the program does not use at this moment. The caller restores its content.
fn scratch(at: &Registers, bytes: u64) -> u64 {
    (at.rsp - RED_ZONE - bytes) & !7
}

fn failed(child: &Tracee, stop: Stop) -> io::Error {
    let result = child.registers().map_or(0, |registers| registers.rax as i64);
    io::Error::other(format!("a thread could not be made in a fork: {stop:?}, {result}"))
}
