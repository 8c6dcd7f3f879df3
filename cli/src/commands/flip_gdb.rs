//! `faultloom flip replay --gdb`: one injection, stopped at the flip for a debugger.

use crate::context::Context;
use app::kinds::flip::repeat::HeldInjection;
use app::text::printable;
use bit_flips::engine_messages::Held;
use model::{Exit, Failure};
use serde_json::json;
use std::io;
use std::process::Command;

/// The process ends with gdb; without gdb, on Ctrl-C.
pub fn replay(context: &Context, mut injection: HeldInjection) -> Result<Exit, Failure> {
    let (pid, thread) = (injection.process.pid, injection.process.thread);
    if context.common.json {
        println!("{}", json!({"pid": pid, "thread": thread.unwrap_or(pid), "held": injection.process.held}));
    } else {
        print!("{}", summary(&injection.process.held));
    }
    match gdb(pid, thread).status() {
        Ok(_) => Ok(Exit::Pass),
        Err(e) if e.kind() == io::ErrorKind::NotFound => {
            context
                .note(format!(" gdb is not installed. The process stays until Ctrl-C: {}", words(&gdb(pid, thread))));
            injection.wait(context)?;
            Ok(Exit::Pass)
        }
        Err(e) => Err(Failure::environment(format!("gdb cannot be started: {e}"))),
    }
}

/// gdb must not deliver the SIGSTOP by which the engine stopped the process. `thread`: the one that is hit, if not the
/// first.
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

/// How the process differs from one of the campaign from here on.
const WITHOUT_ENGINE: &str = " from here  the engine answers no more calls: those for time, waits, ids, random numbers and signals fail\n            \
     (ENOSYS), and rdtsc reads the processor's counter\n";

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
    text.push_str(WITHOUT_ENGINE);
    text
}
