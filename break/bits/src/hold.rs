//! A process that is left at a flip for a debugger: stopped, and traced by nobody.

use crate::fork::Gadget;
use crate::instruction::Instruction;
use crate::refusal::Refusal;
use crate::strike::{Blow, Next, Struck, strike};
use crate::supervise::Whole;
use crate::tracee::Pid;
use model::Failure;
use std::io;
use std::time::{Duration, Instant};

/// What was done before it was left.
pub struct Left {
    /// What was hit, with its value before and after; why not, where nothing was. None: it was left before the flip.
    pub hit: Option<String>,
    /// A signal that the flip has raised and that is not delivered. 0: none.
    pub signal: i32,
    /// The address at which it goes on.
    pub ip: u64,
}

/// Leaves a process whose thread to be struck stands right before `instruction`; with a `blow`, after it was struck. It goes on
/// when a debugger or `SIGCONT` lets it.
pub fn leave(whole: &Whole, gadget: Gadget, instruction: &Instruction, blow: Option<&Blow>) -> Result<Left, Refusal> {
    let thread = &whole.struck;
    let (hit, signal) = match blow.map(|blow| strike(thread, instruction, blow)).transpose()? {
        None => (None, 0),
        Some(Struck { hit, next: Next::Resume(signal), .. }) => (Some(hit), signal),
        Some(Struck { hit, .. }) => {
            return Err(Failure::environment("the process cannot be held after the flip")
                .why(format!("the instruction ends it, or waits: {hit}"))
                .next("hold it before the flip")
                .into());
        }
    };
    let ip = thread.registers()?.rip;
    // where only ancestors may attach (Yama), others must be let; elsewhere the call does nothing
    thread.system_call(gadget.0, libc::SYS_prctl, [PR_SET_PTRACER, PR_SET_PTRACER_ANY, 0, 0, 0, 0])?;
    // whichever thread goes on first takes the signal, which stops all
    whole.struck.send(libc::SIGSTOP);
    for thread in whole.others.iter().chain([thread]) {
        thread.detach()?;
    }
    stand_still(whole.process)?;
    Ok(Left { hit, signal, ip })
}

const PR_SET_PTRACER: u64 = 0x5961_6d61;
const PR_SET_PTRACER_ANY: u64 = u64::MAX;
/// How long threads may take to come to a stand.
const STAND_MAX: Duration = Duration::from_secs(5);

/// Waits until all threads that are left have stopped: none runs an instruction before that.
fn stand_still(process: Pid) -> io::Result<()> {
    let begun = Instant::now();
    let stands =
        |status: &str| status.rsplit_once(')').is_some_and(|(_, rest)| rest.trim_start().starts_with(['T', 'Z', 'X']));
    loop {
        let mut all = true;
        for thread in std::fs::read_dir(format!("/proc/{process}/task"))? {
            all &= stands(&std::fs::read_to_string(thread?.path().join("stat"))?);
        }
        match all {
            true => return Ok(()),
            false if begun.elapsed() > STAND_MAX => {
                return Err(io::Error::other("the process does not come to a stand"));
            }
            false => std::thread::sleep(Duration::from_micros(200)),
        }
    }
}
