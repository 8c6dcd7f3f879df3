//! A process that is left at a flip for a debugger: stopped, and traced by nobody.

use crate::fork::Gadget;
use crate::instruction::Instruction;
use crate::refusal::Refusal;
use crate::strike::{Blow, Next, Struck, strike};
use crate::tracee::Tracee;
use model::Failure;

/// What was done before it was left.
pub struct Left {
    /// What was hit, with its value before and after; why not, where nothing was. None: it was left before the flip.
    pub hit: Option<String>,
    /// A signal that the flip has raised and that is not delivered. 0: none.
    pub signal: i32,
    /// The address at which it goes on.
    pub ip: u64,
}

/// Leaves `process`, which stands right before `instruction`; with a `blow`, after it was struck. It goes on when a debugger
/// or `SIGCONT` lets it.
pub fn leave(
    process: &Tracee,
    gadget: Gadget,
    instruction: &Instruction,
    blow: Option<&Blow>,
) -> Result<Left, Refusal> {
    one_thread(process)?;
    let (hit, signal) = match blow.map(|blow| strike(process, instruction, blow)).transpose()? {
        None => (None, 0),
        Some(Struck { hit, next: Next::Resume(signal), .. }) => (Some(hit), signal),
        Some(Struck { hit, .. }) => {
            return Err(Failure::environment("the process cannot be held after the flip")
                .why(format!("the instruction ends it, or waits: {hit}"))
                .next("hold it before the flip")
                .into());
        }
    };
    let ip = process.registers()?.rip;
    // where only ancestors may attach (Yama), others must be let; elsewhere the call does nothing
    process.system_call(gadget.0, libc::SYS_prctl, [PR_SET_PTRACER, PR_SET_PTRACER_ANY, 0, 0, 0, 0])?;
    process.send(libc::SIGSTOP);
    process.detach()?;
    Ok(Left { hit, signal, ip })
}

const PR_SET_PTRACER: u64 = 0x5961_6d61;
const PR_SET_PTRACER_ANY: u64 = u64::MAX;

fn one_thread(process: &Tracee) -> Result<(), Refusal> {
    match std::fs::read_dir(format!("/proc/{}/task", process.pid))?.count() {
        1 => Ok(()),
        threads => Err(Failure::environment("the process cannot be held")
            .why(format!("it has {threads} threads, which are traced one by one"))
            .next("run the server under --replay, where threads are turns of one")
            .into()),
    }
}
