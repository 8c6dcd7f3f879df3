//! `faultloom flip replay --gdb`: one injection again, stopped at the flip for a debugger.

use crate::commands::flip::engine;
use crate::context::Context;
use app::text::printable;
use bit_flips::engine_messages::Held;
use campaign::Repeat;
use campaign::repeat::{HeldProcess, wait_for_end};
use model::{Exit, Failure, Family};
use serde_json::json;
use std::io;
use std::process::Command;

/// The process ends with gdb; without gdb, on Ctrl-C.
pub fn replay(context: &Context, repeat: &Repeat, before: bool) -> Result<Exit, Failure> {
    let stop = context.cancel.flag();
    let mut engine = engine()?;
    let held = repeat.hold(&mut engine, !before, &stop)?;
    let HeldProcess { held, pid, thread } =
        held.ok_or_else(|| Failure::new(Family::Aborted, "the replay was stopped"))?;
    if context.common.json {
        println!("{}", json!({"pid": pid, "thread": thread.unwrap_or(pid), "held": held}));
    } else {
        print!("{}", summary(&held));
    }
    match gdb(pid, thread).status() {
        Ok(_) => Ok(Exit::Pass),
        Err(e) if e.kind() == io::ErrorKind::NotFound => {
            context.say(format!(" gdb is not installed. The process stays until Ctrl-C: {}", words(&gdb(pid, thread))));
            wait_for_end(&mut engine, &stop)?;
            Ok(Exit::Pass)
        }
        Err(e) => Err(Failure::environment(format!("gdb cannot be started: {e}"))),
    }
}

/// gdb must not deliver the SIGSTOP by which the engine stopped the process. `thread`: the one that is hit, if not the first.
fn gdb(pid: i32, thread: Option<i32>) -> Command {
    let mut gdb = Command::new("gdb");
    let pid = pid.to_string();
    gdb.args(["-q", "-p", &pid, "-ex", "handle SIGSTOP nostop noprint nopass"]);
    if let Some(thread) = thread {
        // gdb numbers threads itself and has no command that takes the kernel's id
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

fn summary(held: &Held) -> String {
    let injection = &held.injection;
    let place = injection.symbol.as_ref().map_or_else(|| "no symbol".to_owned(), |symbol| printable(symbol));
    let source = injection.source.as_ref().map_or(String::new(), |source| format!(", {}", printable(source)));
    let what = format!("{} bit {} of {}", injection.kind, injection.bit, printable(&injection.instruction));
    let state = match &held.hit {
        None => format!("right before {what}"),
        Some(hit) => format!("right after {what}: {}", printable(hit)),
    };
    let mut text = format!(" stopped    {state}\n at         {place}{source}\n");
    if held.signal != 0 {
        text.push_str(&format!(" raised     signal {0}: in gdb, `signal {0}` delivers it\n", held.signal));
    }
    text
}
