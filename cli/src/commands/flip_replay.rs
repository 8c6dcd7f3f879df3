//! `faultloom flip replay`: repeats one injection in a fresh process.

use super::flip_gdb;
use crate::args::FlipReplay as Args;
use crate::context::Context;
use crate::render::flip_story as render;
use app::kinds::flip::repeat::{self as use_case, HoldSpec, RepeatSpec};
use app::spec::Version;
use app::text::printable;
use model::{Exit, Failure};
use serde_json::json;

pub async fn replay(context: &Context, args: &Args) -> Result<Exit, Failure> {
    if args.gdb {
        let spec = HoldSpec { version: Version, injection: args.of.clone(), before: args.before };
        return flip_gdb::replay(context, use_case::hold(context, &spec).await?);
    }
    let spec = RepeatSpec { version: Version, injection: args.of.clone() };
    let repeated = use_case::repeat(context, &spec).await?;
    let same = repeated.is_same();
    if context.common.json {
        println!("{}", json!({"same": same, "before": repeated.before, "again": repeated.again}));
    } else {
        print!("{}", render::story(&repeated.again));
        match same {
            true => println!("\n the same outcome as in the campaign"),
            false => {
                println!("\n another outcome than in the campaign: {}", printable(&render::outcome(&repeated.before)));
            }
        }
    }
    Ok(if same { Exit::Pass } else { Exit::Fail })
}
