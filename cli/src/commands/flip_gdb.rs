//! `faultloom flip replay --gdb`: one injection again, stopped at the flip for a debugger.

use crate::commands::flip::StartedEngine;
use crate::commands::flip_replay;
use crate::context::Context;
use app::text::printable;
use bit_flips::contain;
use bit_flips::protocol::{Held, Reply, Request};
use campaign::engine::Event;
use campaign::{Engine, Spec};
use model::{Exit, Failure, Family};
use runs::RunDir;
use serde_json::json;
use std::io;
use std::process::Command;
use std::sync::atomic::AtomicBool;

/// The process ends when gdb does; without gdb, when the user has seen enough.
pub fn replay(
    context: &Context,
    spec: &Spec,
    dir: &RunDir,
    variant: u32,
    id: u32,
    before: bool,
) -> Result<Exit, Failure> {
    let stop = context.cancel.flag();
    let mut started = StartedEngine::start()?;
    let keeper = started.id();
    let engine = started.engine();
    let stopped = || Failure::new(Family::Aborted, "the replay was stopped");
    flip_replay::begun(engine, spec, dir, variant, &stop)?.ok_or_else(stopped)?;
    engine.ask(&Request::Hold { draw: spec.draw.clone(), id, after: !before })?;
    let held = held(engine, &stop)?.ok_or_else(stopped)?;
    let pid = contain::outer_pid(keeper, held.pid)
        .map_err(|e| Failure::environment(format!("the held process is not found: {e}")))?
        .ok_or_else(|| Failure::environment("the held process has ended before gdb could see it"))?;
    let thread = contain::outer_thread(pid, held.thread).ok().flatten().filter(|_| held.thread != held.pid);
    if context.common.json {
        println!("{}", json!({"pid": pid, "thread": thread.unwrap_or(pid), "held": held}));
    } else {
        print!("{}", told(&held));
    }
    match gdb(pid, thread).status() {
        Ok(_) => Ok(Exit::Pass),
        Err(e) if e.kind() == io::ErrorKind::NotFound => {
            context.say(format!(" gdb is not installed. The process stays until Ctrl-C: {}", words(&gdb(pid, thread))));
            ended(engine, &stop)
        }
        Err(e) => Err(Failure::environment(format!("gdb cannot be started: {e}"))),
    }
}

/// The stop it stands in is ours: the program must not see it. `thread`: the one that is struck, if not the first.
fn gdb(pid: i32, thread: Option<i32>) -> Command {
    let mut gdb = Command::new("gdb");
    let pid = pid.to_string();
    gdb.args(["-q", "-p", &pid, "-ex", "handle SIGSTOP nostop noprint nopass"]);
    if let Some(thread) = thread {
        // gdb has numbers of its own for threads, and no command that takes the kernel's
        let chosen = format!("[t.switch() for t in gdb.selected_inferior().threads() if t.ptid[1] == {thread}]");
        gdb.args(["-ex", &format!("python {chosen}")]);
    }
    gdb.args(["-ex", "x/i $pc"]);
    gdb
}

fn words(command: &Command) -> String {
    let quoted = command.get_args().map(|word| match word.to_string_lossy() {
        word if word.contains(' ') => format!(" '{word}'"),
        word => format!(" {word}"),
    });
    format!("gdb{}", quoted.collect::<String>())
}

fn told(held: &Held) -> String {
    let injection = &held.injection;
    let place = injection.symbol.as_ref().map_or_else(|| "no symbol".to_owned(), |symbol| printable(symbol));
    let source = injection.source.as_ref().map_or(String::new(), |source| format!(", {}", printable(source)));
    let what = format!("{} bit {} of {}", injection.kind, injection.bit, printable(&injection.instruction));
    let state = match &held.hit {
        None => format!("right before {what}"),
        Some(hit) => format!("right after {what}: {}", printable(hit)),
    };
    let mut told = format!(" stopped    {state}\n at         {place}{source}\n");
    if held.signal != 0 {
        told.push_str(&format!(" raised     signal {0}: in gdb, `signal {0}` delivers it\n", held.signal));
    }
    told
}

fn held(engine: &Engine, stop: &AtomicBool) -> Result<Option<Held>, Failure> {
    loop {
        match engine.wait(stop)? {
            Event::Stopped => return Ok(None),
            Event::Reply(reply) => {
                if let Reply::Held(held) = *reply {
                    return Ok(Some(*held));
                }
            }
        }
    }
}

fn ended(engine: &Engine, stop: &AtomicBool) -> Result<Exit, Failure> {
    loop {
        match engine.wait(stop)? {
            Event::Stopped => return Ok(Exit::Pass),
            Event::Reply(reply) if matches!(*reply, Reply::Done(_)) => return Ok(Exit::Pass),
            Event::Reply(_) => {}
        }
    }
}
