//! The flip engine: serves requests by profiling the program and injecting flips in forks of it.
//!
//! [`serve`] reads requests as lines of JSON and writes replies as lines of JSON.

mod children;
mod cpu_affinity;
mod debugger_handoff;
mod disturbed_run;
pub mod exhaustive;
mod golden_run;
mod injector;
mod outputs;
mod path_difference;
mod profile;
mod refusal;
mod run_dir;
mod site_info;
mod supervisor;
mod undisturbed_run;

use crate::engine_messages::{Program, RECORDS_DESCRIPTOR, Reply, Request, Timings};
use children::block_sigchld;
use cpu_affinity::Cores;
use injector::Injector;
use model::replay as replay_format;
use model::{Failure, Family};
use profile::ProfiledProgram;
use refusal::Refusal;
use sandbox::Sandbox;
use std::io::{self, BufRead, Write};
use std::os::unix::fs::PermissionsExt;
use std::time::{Duration, Instant};

const PROGRESS_EVERY: Duration = Duration::from_millis(250);

/// Serves requests until there are no more. Must be the only thread of the sandbox's supervisor. `shim` is the shared
/// object that servers run under; without it, programs with an input trace are refused.
pub fn serve(
    sandbox: &Sandbox,
    shim: Option<&[u8]>,
    requests: impl BufRead,
    mut replies: impl Write,
) -> io::Result<()> {
    tracing::debug!("flip engine started");
    block_sigchld();
    let mut cores = Cores::take();
    let mut send = |reply: &Reply| {
        serde_json::to_writer(&mut replies, reply)?;
        replies.write_all(b"\n")?;
        replies.flush()
    };
    let mut current: Option<(Program, ProfiledProgram)> = None;
    for line in requests.lines() {
        let line = line?;
        // taken, and put back after success: after a failure its state may be inconsistent
        let profiled = current.take();
        let inject = |run: &mut dyn FnMut(Injector) -> Result<Timings, Refusal>| {
            let (program, mut profiled) = profiled.ok_or_else(no_program)?;
            let timings = run(Injector::new(sandbox, &program, &mut profiled, &mut cores, &mut send)?)?;
            Ok((Reply::Done(timings), (program, profiled)))
        };
        let served = match serde_json::from_str(&line) {
            Ok(Request::Begin(program)) => prepare(sandbox, shim, *program).and_then(|program| {
                let mut last = Instant::now();
                let profiled = profile::profile(sandbox, &program, &mut |position, of| {
                    if last.elapsed() < PROGRESS_EVERY {
                        return Ok(());
                    }
                    last = Instant::now();
                    send(&Reply::Progress { position, of })
                })?;
                Ok((Reply::Profile(Box::new(profiled.profile.clone())), (program, profiled)))
            }),
            Ok(Request::Inject { draw, method, skip, only }) => {
                inject(&mut |injector| injector.inject(&draw, method, &skip, &only))
            }
            Ok(Request::Hold { draw, id, after }) => inject(&mut |injector| injector.hold(&draw, id, after)),
            Ok(Request::Exhaust { reply, types, bits, classes, skip, only }) => {
                inject(&mut |injector| injector.exhaust(reply, &types, bits, classes, &skip, &only))
            }
            Err(error) => Err(io::Error::from(error).into()),
        };
        match served {
            Ok((reply, now)) => {
                current = Some(now);
                send(&reply)?;
            }
            Err(refusal) => {
                tracing::debug!(reason = %refusal.0.what, "request refused");
                // the golden process and its forks, which no later request continues
                if let Err(error) = children::kill_all() {
                    tracing::debug!(%error, "processes are left");
                }
                send(&refused(refusal))?;
            }
        }
    }
    tracing::debug!("flip engine ends: its input was closed");
    Ok(())
}

fn no_program() -> Refusal {
    io::Error::other("a flip was requested before a program").into()
}

/// Adds the shim and the trace of a server, at paths that are the same in every run.
fn prepare(sandbox: &Sandbox, shim: Option<&[u8]>, mut program: Program) -> Result<Program, Refusal> {
    if let Some(replay) = &mut program.replay {
        let object = shim.ok_or_else(|| Failure::new(Family::Bug, "the flip engine was started without the shim"))?;
        let shim = sandbox.scratch.join(replay_format::SHIM_NAME);
        std::fs::write(&shim, object)?;
        let input = sandbox.scratch.join("input");
        std::fs::copy(&replay.input, &input).map_err(|e| {
            Failure::request(format!("{} cannot be read: {e}", replay.input.display())).next("name an input trace")
        })?;
        for path in [&shim, &input] {
            std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o444))?;
        }
        replay.input = input;
        program.env.extend(replay_format::environment(&shim, &replay.input, RECORDS_DESCRIPTOR, replay.width));
        program.sites.except.push(replay_format::SHIM_NAME.to_owned());
    }
    Ok(program)
}

fn refused(Refusal(failure): Refusal) -> Reply {
    let request = failure.family == Family::Request;
    Reply::Refused { what: failure.what, why: failure.why, next: failure.next, request }
}
