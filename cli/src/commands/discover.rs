//! `faultloom record --discover`: entry points, each with the command that records it.

use crate::context::Context;
use app::spec::NoOptions;
use app::text::printable;
use model::{Exit, Failure};
use serde_json::json;

pub async fn discover(context: &Context) -> Result<Exit, Failure> {
    let found = app::entry_points::discover(context, &NoOptions::default()).await?;
    if context.common.json {
        println!("{}", json!({"entry": found.entry, "points": found.points, "asked": found.is_up})); // words: allow, the key of published output
        return Ok(Exit::Pass);
    }
    if let Some(entry) = &found.entry {
        println!("{}: the target's entry\n   {}", printable(&entry.url), printable(&entry.command));
    }
    for point in &found.points {
        println!("{}: {}   ({})", printable(&point.service), printable(&point.name), printable(&point.seen));
        match &point.command {
            Some(command) => println!("   {}", printable(command)),
            None => println!("   its address is unknown: add `listens` to the service in the target file"),
        }
    }
    if found.has_target && !found.is_up {
        context.note("running gRPC services also list their methods: faultloom up");
    }
    Ok(Exit::Pass)
}
