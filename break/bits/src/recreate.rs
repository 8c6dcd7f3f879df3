//! The other threads of the golden process, made anew in a fork of it, which keeps only the one that forks.
//!
//! They get what the kernel knows of a thread: registers, vector registers, blocked signals, the word that is cleared at their
//! end, the stack of signal handlers. What the C library keeps of them is in memory, and stays as it is: their numbers too,
//! so that locks know their owners. To the kernel they have others.

use crate::fork::Gadget;
use crate::golden::Golden;
use crate::threads::Thread;
use crate::tracee::{Registers, Stop, Tracee, call_registers, wait};
use crate::xstate::Xstate;
use std::io;

const LIKE_THE_OTHERS: i32 = libc::CLONE_VM
    | libc::CLONE_FS
    | libc::CLONE_FILES
    | libc::CLONE_SIGHAND
    | libc::CLONE_THREAD
    | libc::CLONE_SYSVSEM
    | libc::CLONE_CHILD_CLEARTID;
/// Below the stack pointer, memory is a function's own as far as this (System V ABI).
const RED_ZONE: u64 = 128;
const PR_GET_TID_ADDRESS: u64 = 40;

impl Gadget {
    /// All that the fork `child` lacks. They are stopped where those of the golden process stand.
    pub fn recreate(self, golden: &Golden, child: &Tracee) -> io::Result<Vec<Tracee>> {
        let at = golden.registers();
        let own = [golden.own.cleared, 0, 0, 0, 0, 0];
        child.system_call_from(at, self.0, libc::SYS_set_tid_address, own)?;
        let made = golden.threads.standing().map(|thread| self.again(child, at, thread)).collect();
        child.set_registers(&Registers { orig_rax: u64::MAX, ..*at })?;
        made
    }

    /// The word that the kernel clears when a thread ends, which the dynamic linker has named. 0: it has none, or does not say.
    pub fn cleared(self, thread: &Tracee) -> io::Result<u64> {
        let at = thread.registers()?;
        let place = scratch(&at, 8);
        let kept = thread.read_u64(place)?;
        let asked = [PR_GET_TID_ADDRESS, place, 0, 0, 0, 0];
        let result = thread.system_call(self.0, libc::SYS_prctl, asked)?;
        let word = thread.read_u64(place)?;
        thread.write(place, &kept.to_le_bytes())?;
        Ok(if result == 0 { word } else { 0 })
    }

    fn again(self, child: &Tracee, at: &Registers, like: &Thread) -> io::Result<Tracee> {
        let arguments = [LIKE_THE_OTHERS as u64, like.registers.rsp, 0, like.own.cleared, 0, 0];
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
        let thread = Tracee::of(thread)?;
        Xstate::of(&like.tracee)?.store(&thread)?;
        thread.set_blocked(like.tracee.blocked()?)?;
        if let Some(stack) = like.own.signal_stack {
            self.name_signal_stack(&thread, &like.registers, stack)?;
        }
        thread.set_registers(&Registers { orig_rax: u64::MAX, ..like.registers })?;
        Ok(thread)
    }

    fn name_signal_stack(self, thread: &Tracee, at: &Registers, stack: [u64; 3]) -> io::Result<()> {
        let mut kept = [0; 24];
        let place = scratch(at, kept.len() as u64);
        thread.read(place, &mut kept)?;
        thread.write(place, stack.map(u64::to_le_bytes).as_flattened())?;
        let result = thread.system_call_from(at, self.0, libc::SYS_sigaltstack, [place, 0, 0, 0, 0, 0])?;
        thread.write(place, &kept)?;
        if result == 0 { Ok(()) } else { Err(io::Error::from_raw_os_error(-result as i32)) }
    }
}

/// Memory that nothing uses at this moment. Whoever borrows it puts back what it held.
fn scratch(at: &Registers, bytes: u64) -> u64 {
    (at.rsp - RED_ZONE - bytes) & !7
}

fn failed(child: &Tracee, stop: Stop) -> io::Error {
    let result = child.registers().map_or(0, |registers| registers.rax as i64);
    io::Error::other(format!("a thread could not be made in a fork: {stop:?}, {result}"))
}
