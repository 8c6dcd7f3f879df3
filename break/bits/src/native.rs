//! The undisturbed program, run by itself: what it writes, and whether disturbed runs can be compared with it at all.

use crate::contain::Contained;
use crate::outputs::Collected;
use crate::place::Room;
use crate::profile::launch;
use crate::protocol::{Limits, Program};
use crate::refusal::Refusal;
use crate::supervise::{Bounds, Ended, Hit, Supervisor, Whole};
use model::Failure;
use model::flip::Ending;
use std::time::{Duration, Instant};

struct Undisturbed;

impl Hit for Undisturbed {
    fn struck(&mut self, _: String, _: bool) {}
}

/// What it writes, and its CPU time. Refused: what ends by a signal or not at all, and what reaches out to other processes.
pub fn native(contained: &Contained, program: &Program, name: &str) -> Result<(Collected, Duration), Refusal> {
    let limits = &program.limits;
    let most = Duration::from_secs(limits.seconds);
    let room = Room::create(contained, name, &program.files)?;
    // the kernel's own bound comes after ours: ours tells what it was
    let launched = launch(contained, program, &room, limits.seconds + 1)?;
    let begun = Instant::now();
    let mut supervisor = Supervisor::new(Bounds { cpu: most, wall: most, threads: usize::MAX });
    supervisor.add(Whole::of(launched.tracee), Undisturbed, 0)?;
    let ended = loop {
        if let Some(ended) = supervisor.ended(Duration::from_secs(1))?.pop() {
            break ended;
        }
    };
    let asleep = ended.cpu < most && begun.elapsed() < most;
    if let Some(failure) = refusal(&ended, limits, asleep) {
        let words = room.stderr();
        let words = String::from_utf8_lossy(&words);
        let said = if words.trim().is_empty() { String::new() } else { format!("; it wrote: {}", words.trim()) };
        let why = failure.why.clone().unwrap_or_default();
        return Err(failure.why(format!("{why}{said}")).into());
    }
    let collected = room.collected(limits.file_bytes)?;
    room.remove();
    Ok((collected, ended.cpu))
}

fn refusal(ended: &Ended<Undisturbed>, limits: &Limits, asleep: bool) -> Option<Failure> {
    let (what, why, next) = match ended.ending {
        _ if ended.refused_calls > 0 => (
            "the program starts, replaces or signals other processes".into(),
            format!("{} of its system calls did, and a disturbed program may reach no other", ended.refused_calls),
            "run it in the foreground and as one process",
        ),
        Ending::Exit(_) => return None,
        Ending::Signal(libc::SIGXFSZ) => (
            format!("the undisturbed program writes more than {} bytes to one file", limits.file_bytes),
            "every run's output is kept and compared".into(),
            "let it write less",
        ),
        Ending::Signal(signal) => (
            format!("the undisturbed program is ended by signal {signal}"),
            "only what runs through by itself can be compared with disturbed runs".into(),
            "run it by hand with the same arguments, input and environment",
        ),
        Ending::Hang if asleep => (
            "the undisturbed program waits for something that does not come".into(),
            "it does nothing for so long that a disturbed run would be taken for a hang".into(),
            "let it not sleep, and give it its input: --stdin, or for a server --replay",
        ),
        Ending::Hang => (
            format!("the undisturbed program does not end within {} s", limits.seconds),
            "a campaign runs it thousands of times".into(),
            "give it less to do; a server ends under --replay",
        ),
    };
    Some(Failure::environment(what).why(why).next(next))
}
