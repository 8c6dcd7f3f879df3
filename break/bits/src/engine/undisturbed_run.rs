//! Runs the undisturbed program natively: its output, and whether disturbed runs can be compared with it at all.

use crate::engine::golden_run::launch;
use crate::engine::outputs::CollectedOutput;
use crate::engine::refusal::Refusal;
use crate::engine::run_dir::{self, RunDir};
use crate::engine::supervisor::{EndedRun, FaultListener, RunLimits, Supervisor};
use crate::engine_messages::{Limits, Program};
use crate::tracing::threads::StoppedProcess;
use model::Failure;
use model::flip::Ending;
use sandbox::{Sandbox, VirtualHost};
use std::time::{Duration, Instant};

/// A run that ended by itself.
pub struct UndisturbedRun {
    pub output: CollectedOutput,
    pub exit_status: i32,
    pub stderr: String,
    pub cpu: Duration,
}

struct Undisturbed;

impl FaultListener for Undisturbed {
    fn fault_applied(&mut self, _: String, _: bool) {}
}

/// Fails if the program ends by a signal, does not end, or affects other processes.
pub fn run(sandbox: &Sandbox, program: &Program) -> Result<UndisturbedRun, Refusal> {
    let limits = &program.limits;
    let limit = Duration::from_secs(limits.seconds);
    let run_dir = RunDir::create(sandbox, run_dir::ALONE, &program.files)?;
    // the kernel's limit takes effect after ours, which reports the reason
    let launched = launch(sandbox, program, &run_dir, limits.seconds + 1)?;
    let begin = Instant::now();
    let mut supervisor = Supervisor::new(RunLimits { cpu: limit, wall: limit, threads: usize::MAX });
    let host = VirtualHost::new(program.replay.is_some());
    supervisor.add(StoppedProcess::single_threaded(launched.tracee, host), Undisturbed, 0)?;
    let ended = loop {
        if let Some(ended) = supervisor.ended(Duration::from_secs(1))?.pop() {
            break ended;
        }
    };
    let asleep = ended.cpu < limit && begin.elapsed() < limit;
    let stderr = String::from_utf8_lossy(&run_dir.stderr()).into_owned();
    let exit_status = match exit_status(&ended, limits, asleep) {
        Ok(status) => status,
        Err(failure) => {
            let excerpt =
                if stderr.trim().is_empty() { String::new() } else { format!("; it wrote: {}", stderr.trim()) };
            let why = failure.why.clone().unwrap_or_default();
            return Err(failure.why(format!("{why}{excerpt}")).into());
        }
    };
    let output = run_dir.collect(limits.file_bytes)?;
    run_dir.remove();
    Ok(UndisturbedRun { output, exit_status, stderr, cpu: ended.cpu })
}

/// Fails if the program did not end by itself.
fn exit_status(ended: &EndedRun<Undisturbed>, limits: &Limits, asleep: bool) -> Result<i32, Failure> {
    let (what, why, next) = match ended.ending {
        _ if ended.refused_calls > 0 => (
            "the program starts, replaces or signals other processes".into(),
            format!(
                "{} of its system calls did, and a disturbed program must not reach any other",
                ended.refused_calls
            ),
            "run it in the foreground and as one process",
        ),
        Ending::Exit(status) => return Ok(status),
        Ending::Signal(libc::SIGXFSZ) => (
            format!("the undisturbed program writes more than {} bytes to one file", limits.file_bytes),
            "the output of every run is stored and compared".into(),
            "reduce its output",
        ),
        Ending::Signal(signal) => (
            format!("the undisturbed program is killed by signal {signal}"),
            "disturbed runs can be compared only with a run that completes without a signal".into(),
            "run it by hand with the same arguments, input and environment",
        ),
        Ending::Hang if asleep => (
            "the undisturbed program waits for something that does not happen".into(),
            "it is idle for so long that every disturbed run would count as a hang".into(),
            "remove sleeps, and pass its input: --stdin, or for a server --replay",
        ),
        Ending::Hang => (
            format!("the undisturbed program does not end within {} s", limits.seconds),
            "a campaign runs it thousands of times".into(),
            "reduce its work; a server ends under --replay",
        ),
    };
    Err(Failure::environment(what).why(why).next(next))
}
