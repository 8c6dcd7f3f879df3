//! `faultloom flip replay`: one injection again, in a fresh process instead of a fork.

use crate::args::FlipReplay as Args;
use crate::commands::flip::engine;
use crate::commands::flip_gdb;
use crate::context::Context;
use crate::render::flip_story as draw;
use app::kinds::flip::spec_of;
use app::text::printable;
use campaign::{Repeat, Spec};
use model::{Exit, Failure, Family};
use serde_json::json;

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
    let repeat = Repeat { spec: &spec, dir: &dir, variant, id };
    let before = repeat.logged()?;
    if args.gdb {
        return flip_gdb::replay(context, &repeat, args.before);
    }
    let stop = context.cancel.flag();
    let Some(again) = repeat.run(&mut engine()?, &stop)? else {
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
