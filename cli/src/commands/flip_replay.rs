//! `faultloom flip replay`: one injection again, in a fresh process instead of a fork.

use crate::args::FlipReplay as Args;
use crate::commands::flip::StartedEngine;
use crate::commands::flip_gdb;
use crate::context::Context;
use crate::render::flip_story as draw;
use app::kinds::flip::spec_of;
use app::text::printable;
use bit_flips::protocol::{Profile, Reply, Request, Way};
use campaign::engine::Event;
use campaign::log::{Golden, INJECTIONS};
use campaign::{Engine, Judge, Spec, course, run};
use model::campaign::{Logged, Role};
use model::{Exit, Failure, Family};
use runs::RunDir;
use serde_json::json;
use std::sync::atomic::AtomicBool;

pub async fn replay(context: &Context, args: &Args) -> Result<Exit, Failure> {
    let (run, name, id) = parse(&args.of)?;
    let store = context.store().await?;
    let run = store.find(run).await?;
    let (spec, dir) = (spec_of(&run)?, store.dir(run.id));
    if spec.live.is_some() {
        let program =
            spec.variants.iter().flat_map(|v| v.program.argv.first()).next().map_or("PROGRAM", String::as_str);
        return Err(Failure::request(format!(
            "run {} struck a running process: that cannot be repeated",
            run.id.short()
        ))
        .why("a process at work is never twice in the same state; `show` tells what was hit")
        .next(format!("flips that can be repeated, in a copy of it: faultloom flip --replay INPUT -- {program}")));
    }
    let variant = variant(&spec, name)?;
    let before = logged(&dir, variant, id)?;
    if args.gdb {
        return flip_gdb::replay(context, &spec, &dir, variant, id, args.before);
    }
    let stop = context.cancel.flag();
    let Some(again) = again(&spec, &dir, variant, id, &stop)? else {
        return Err(Failure::new(Family::Aborted, "the replay was stopped"));
    };
    let same = before.outcome == again.outcome
        && before.effect.ending == again.effect.ending
        && before.deviation == again.deviation;
    if context.common.json {
        println!("{}", json!({"same": same, "before": before, "again": again}));
    } else {
        print!("{}", draw::story(&again));
        match same {
            true => println!("\n the same outcome as in the campaign"),
            false => println!("\n another outcome than in the campaign: {}", printable(&draw::outcome(&before))),
        }
    }
    Ok(if same { Exit::Pass } else { Exit::Fail })
}

/// `RUN:ID` or `RUN:VARIANT:ID`.
fn parse(text: &str) -> Result<(&str, Option<&str>, u32), Failure> {
    let parts: Vec<&str> = text.split(':').collect();
    let (run, name, id) = match parts.as_slice() {
        [run, id] => (*run, None, *id),
        [run, name, id] => (*run, Some(*name), *id),
        _ => ("", None, ""),
    };
    let id = id.parse().ok().filter(|_| !run.is_empty());
    id.map(|id| (run, name, id)).ok_or_else(|| {
        Failure::request(format!("'{text}' is not RUN:ID or RUN:VARIANT:ID"))
            .next("such as: faultloom flip replay last:17")
    })
}

fn variant(spec: &Spec, name: Option<&str>) -> Result<u32, Failure> {
    let names = || spec.variants.iter().map(|v| v.name.as_str()).collect::<Vec<_>>().join(", ");
    let index = match name {
        None if spec.variants.len() == 1 => Some(0),
        None => None,
        Some(name) => spec.variants.iter().position(|v| v.name == name),
    };
    index.map(|index| index as u32).ok_or_else(|| match name {
        Some(name) => {
            Failure::request(format!("the campaign has no variant '{name}'")).next(format!("it has: {}", names()))
        }
        None => Failure::request("the campaign has several variants")
            .next(format!("name one, as in RUN:VARIANT:ID: {}", names())),
    })
}

fn logged(dir: &RunDir, variant: u32, id: u32) -> Result<Logged, Failure> {
    let mut found = None;
    dir.each_record(INJECTIONS, |logged: Logged| {
        if (logged.variant, logged.id) == (variant, id) {
            found = Some(logged);
        }
    })?;
    match found {
        Some(logged) if logged.role == Role::Flip => Ok(logged),
        Some(_) => Err(Failure::request(format!("{id} is no injection: nothing was flipped there"))),
        None => Err(Failure::request(format!("the campaign has no injection {id}"))),
    }
}

/// The variant's program, which runs as it did in the campaign. None: somebody wanted it to stop.
pub fn begun(
    engine: &mut Engine,
    spec: &Spec,
    dir: &RunDir,
    index: u32,
    stop: &AtomicBool,
) -> Result<Option<Profile>, Failure> {
    let variant = &spec.variants[index as usize];
    variant.is_unchanged()?;
    let profile = run::begin(engine, &variant.program, stop, &mut |_| {})?;
    if let Some(profile) = &profile {
        course::same_golden(&dir.read_json(&Golden::file(index))?, &Golden::of(profile))?;
    }
    Ok(profile)
}

/// None: somebody wanted it to stop.
fn again(spec: &Spec, dir: &RunDir, index: u32, id: u32, stop: &AtomicBool) -> Result<Option<Logged>, Failure> {
    let judge = Judge::new(&spec.rules)?;
    let mut started = StartedEngine::start()?;
    let engine = started.engine();
    let Some(profile) = begun(engine, spec, dir, index, stop)? else { return Ok(None) };
    engine.ask(&Request::Inject { draw: spec.draw.clone(), way: Way::Fresh, skip: Vec::new(), only: vec![id] })?;
    let mut again = None;
    loop {
        match engine.wait(stop)? {
            Event::Stopped => return Ok(None),
            Event::Reply(reply) => match *reply {
                Reply::Injected(injected) if injected.id == id => {
                    again = Some(run::judged(&judge, index, &profile, &injected));
                }
                Reply::Done(_) => break,
                _ => {}
            },
        }
    }
    again.map(Some).ok_or_else(|| Failure::unknown(format!("injection {id} was not brought about again")))
}

#[cfg(test)]
mod tests {
    use super::parse;

    #[test]
    fn an_injection_is_named_by_its_run() {
        assert_eq!(parse("last:17").unwrap(), ("last", None, 17));
        assert_eq!(parse("a1b2:mc:0").unwrap(), ("a1b2", Some("mc"), 0));
        for text in ["", "17", "last", "last:x", ":1", "a:b:c:1", "last:-1"] {
            assert_eq!(parse(text).unwrap_err().exit(), model::Exit::Usage, "{text}");
        }
    }
}
