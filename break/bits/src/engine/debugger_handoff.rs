//! Leaves a process at a flip for a debugger: stopped, and no longer traced.

use crate::engine::refusal::Refusal;
use crate::inject::{AppliedFault, Fault, NextAction, apply};
use crate::processor::instruction::Instruction;
use crate::tracing::fork::Gadget;
use crate::tracing::threads::StoppedProcess;
use model::Failure;
use process::ProcDir;
use sandbox::tracee::Pid;
use std::io;
use std::time::{Duration, Instant};

/// The state in which the process was left.
pub struct Handoff {
    /// What was hit, with its value before and after; if nothing was, why. None: it was left before the flip.
    pub hit: Option<String>,
    /// The undelivered signal that the flip raised. 0: none.
    pub signal: i32,
    /// The address at which it resumes.
    pub ip: u64,
}

/// Leaves a process whose thread is stopped right before `instruction`, after applying `fault` if one is given. It runs
/// on when a debugger or `SIGCONT` resumes it.
pub fn hand_off(
    stopped: &mut StoppedProcess,
    gadget: Gadget,
    instruction: &Instruction,
    fault: Option<&Fault>,
) -> Result<Handoff, Refusal> {
    let thread = &stopped.thread;
    let applied = fault.map(|fault| apply(thread, Some(&mut stopped.host), instruction, fault)).transpose()?;
    let (hit, signal) = match applied {
        None => (None, 0),
        Some(AppliedFault { hit, next: NextAction::Resume(signal), .. }) => (Some(hit), signal),
        Some(AppliedFault { hit, .. }) => {
            return Err(Failure::environment("the process cannot be stopped after the flip")
                .why(format!("the instruction ends it or waits: {hit}"))
                .next("stop it before the flip")
                .into());
        }
    };
    let ip = thread.registers()?.rip;
    // where only ancestors may attach (Yama), this permits others; elsewhere the call has no effect
    thread.system_call(gadget.0, libc::SYS_prctl, [PR_SET_PTRACER, PR_SET_PTRACER_ANY, 0, 0, 0, 0])?;
    // the engine no longer emulates the time stamp counter, which is a setting of each thread
    for thread in stopped.other_threads.iter().chain([thread]) {
        let enable = [PR_SET_TSC, PR_TSC_ENABLE, 0, 0, 0, 0];
        if thread.system_call(gadget.0, libc::SYS_prctl, enable)? < 0 {
            return Err(io::Error::other("the time stamp counter cannot be enabled").into());
        }
    }
    // whichever thread runs first receives the signal, which stops all
    thread.send(libc::SIGSTOP);
    for thread in stopped.other_threads.iter().chain([thread]) {
        thread.detach()?;
    }
    wait_until_stopped(stopped.process)?;
    Ok(Handoff { hit, signal, ip })
}

const PR_SET_PTRACER: u64 = 0x5961_6d61;
const PR_SET_PTRACER_ANY: u64 = u64::MAX;
const PR_SET_TSC: u64 = 26;
const PR_TSC_ENABLE: u64 = 1;
const STOP_TIMEOUT: Duration = Duration::from_secs(5);

/// Waits until all threads have stopped. None executes an instruction before that.
fn wait_until_stopped(process: Pid) -> io::Result<()> {
    let begin = Instant::now();
    let dir = ProcDir::open(process as u32)?;
    while !dir.thread_states()?.iter().all(|state| matches!(state, 'T' | 'Z' | 'X')) {
        if begin.elapsed() > STOP_TIMEOUT {
            return Err(io::Error::other("the process does not stop"));
        }
        std::thread::sleep(Duration::from_micros(200));
    }
    Ok(())
}
