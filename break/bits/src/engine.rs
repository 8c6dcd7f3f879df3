//! The engine's conversation: requests come as lines, replies go as lines.

use crate::children::block_sigchld;
use crate::contain::Contained;
use crate::cores::Cores;
use crate::inject::Injector;
use crate::place::RECORDS;
use crate::profile::{self, Known};
use crate::protocol::{Program, Reply, Request, Spent};
use crate::refusal::Refusal;
use crate::shim;
use model::{Failure, Family};
use std::io::{self, BufRead, Write};
use std::os::unix::fs::PermissionsExt;

/// Serves requests until there are no more. Must be the only thread of the first process of its namespace.
pub fn serve(contained: &Contained, requests: impl BufRead, mut replies: impl Write) -> io::Result<()> {
    block_sigchld();
    let mut cores = Cores::take();
    let mut tell = |reply: &Reply| {
        serde_json::to_writer(&mut replies, reply)?;
        replies.write_all(b"\n")?;
        replies.flush()
    };
    let mut begun: Option<(Program, Known)> = None;
    for line in requests.lines() {
        let line = line?;
        // taken, and given back by what went well: after a failure nobody knows how much of it is still true
        let before = begun.take();
        let flips = |act: &mut dyn FnMut(Injector) -> Result<Spent, Refusal>| {
            let (program, mut known) = before.ok_or_else(unnamed)?;
            let spent = act(Injector::new(contained, &program, &mut known, &mut cores, &mut tell)?)?;
            Ok((Reply::Done(spent), (program, known)))
        };
        let served = match serde_json::from_str(&line) {
            Ok(Request::Begin(program)) => prepared(contained, *program).and_then(|program| {
                let known = profile::profile(contained, &program)?;
                Ok((Reply::Profile(Box::new(known.profile.clone())), (program, known)))
            }),
            Ok(Request::Inject { draw, way, skip, only }) => {
                flips(&mut |injector| injector.inject(&draw, way, &skip, &only))
            }
            Ok(Request::Hold { draw, id, after }) => flips(&mut |injector| injector.hold(&draw, id, after)),
            Ok(Request::Exhaust { reply, types, bits, classes, skip, only }) => {
                flips(&mut |injector| injector.exhaust(reply, &types, bits, classes, &skip, &only))
            }
            Err(error) => Err(io::Error::from(error).into()),
        };
        match served {
            Ok((reply, now)) => {
                begun = Some(now);
                tell(&reply)?;
            }
            Err(refusal) => tell(&refused(refusal))?,
        }
    }
    Ok(())
}

fn unnamed() -> Refusal {
    io::Error::other("a flip was asked for, and no program is begun").into()
}

/// A server runs with the shim and its trace, which lie where every run finds them at the same path.
fn prepared(contained: &Contained, mut program: Program) -> Result<Program, Refusal> {
    if let Some(replay) = &mut program.replay {
        let shim = shim::write(&contained.scratch)?;
        let input = contained.scratch.join("input");
        std::fs::copy(&replay.input, &input).map_err(|e| {
            Failure::request(format!("{} cannot be read: {e}", replay.input.display())).next("name an input trace")
        })?;
        for path in [&shim, &input] {
            std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o444))?;
        }
        replay.input = input;
        program.env.extend(shim::environment(&shim, &replay.input, RECORDS, replay.width));
        program.sites.except.push(shim::NAME.to_owned());
    }
    Ok(program)
}

fn refused(Refusal(failure): Refusal) -> Reply {
    let request = failure.family == Family::Request;
    Reply::Refused { what: failure.what, why: failure.why, next: failure.next, request }
}
