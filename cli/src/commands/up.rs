//! `faultloom up`, `down`, `ps`: the services of a target.

use crate::args::Up;
use crate::context::Context;
use app::services::{self, DetachedTarget, UpTarget};
use app::spec::NoOptions;
use app::text::plural;
use model::{Exit, Failure};
use serde_json::json;
use std::process::Command;
use std::time::Duration;
use target::{Down, Target, UpState};

pub async fn up(context: &Context, args: &Up) -> Result<Exit, Failure> {
    let result = run(context, args).await;
    if let (true, Err(failure)) = (args.behind, &result) {
        println!("{}", services::failure_json(failure));
    }
    result
}

async fn run(context: &Context, args: &Up) -> Result<Exit, Failure> {
    let target = services::load(context, &NoOptions::default())?;
    if args.detach {
        let detached = services::start_detached(context, &target, supervisor(context, &target)?).await?;
        print_detached(context, &detached);
        return Ok(Exit::Pass);
    }
    let count = target.services().len() as u64;
    context.note(format!(
        "{}: starting {}; Ctrl-C stops and removes everything",
        target.name,
        plural(count, "service")
    ));
    let up = services::start(context, target).await?;
    // the process in front of a detached one prints the table
    if !args.behind {
        print_up(context, &up);
    }
    let result = up.keep_running(context).await;
    up.stop().await?;
    result.map(|()| Exit::Pass)
}

/// The command that supervises a detached target.
fn supervisor(context: &Context, target: &Target) -> Result<Command, Failure> {
    let own = std::env::current_exe()
        .map_err(|e| Failure::environment(format!("the faultloom binary cannot be found: {e}")))?;
    let mut command = Command::new(own);
    command.arg("--home").arg(&context.home).arg("--target").arg(&target.file).args(["up", "--behind"]);
    Ok(command)
}

fn print_up(context: &Context, up: &UpTarget) {
    if context.common.json {
        println!("{}", serde_json::to_string(&up.state).unwrap_or_default());
    } else if !context.common.quiet {
        up.state.iter().for_each(table);
        println!("{}   next: {}", healthy(up.services, up.start_time), context.command("record"));
    }
}

fn print_detached(context: &Context, detached: &DetachedTarget) {
    if context.common.json {
        println!("{}", serde_json::to_string(&detached.state).unwrap_or_default());
    } else if !context.common.quiet {
        table(&detached.state);
        println!(
            "{}   next: {}   (`{}` stops them)",
            healthy(detached.state.services.len() as u64, detached.start_time),
            context.command("record"),
            context.command("down")
        );
    }
}

fn healthy(services: u64, start_time: Duration) -> String {
    format!("{} healthy after {:.1} s", plural(services, "service"), start_time.as_secs_f64())
}

pub async fn down(context: &Context) -> Result<Exit, Failure> {
    let (text, value) = match services::stop(context, &NoOptions::default()).await? {
        Down::NothingUp => ("nothing was up".to_owned(), json!({"down": null})),
        Down::Stopped { target, services } => (
            format!("{target}: {} stopped", plural(services.len() as u64, "service")),
            json!({"down": target, "services": services}),
        ),
        Down::CleanedUp { target, services } => (
            format!(
                "{target}: its supervisor had ended; {} stopped",
                plural(services.len() as u64, "left-over service")
            ),
            json!({"down": target, "services": services}),
        ),
    };
    if context.common.json {
        println!("{value}")
    } else {
        println!("{text}")
    }
    Ok(Exit::Pass)
}

pub async fn ps(context: &Context) -> Result<Exit, Failure> {
    let listed = services::list(context, &NoOptions::default())?;
    if context.common.json {
        println!("{}", json!({"up": listed.is_up, "state": listed.state}));
    } else if listed.is_up {
        listed.state.iter().for_each(table);
    } else {
        println!("nothing is up   next: {}", context.command("up"));
    }
    Ok(Exit::Pass)
}

fn times(count: u32) -> String {
    if count == 1 { "once".to_owned() } else { format!("{count} times") }
}

fn table(state: &UpState) {
    println!("  {:<16} {:>7}  {:<9} {:<22} log", "service", "pid", "state", "listens");
    for s in &state.services {
        let restarts = if s.restarts > 0 { format!("   restarted {}", times(s.restarts)) } else { String::new() };
        let condition = if s.given_up {
            "given up"
        } else if !s.is_alive() {
            "dead"
        } else if s.healthy {
            "healthy"
        } else {
            "starting"
        };
        let listens = s.addresses.iter().map(ToString::to_string).collect::<Vec<_>>().join(" ");
        let pid = s.process.map_or("–".to_owned(), |process| process.pid.to_string());
        let log = s.log.as_ref().map_or("attached: started elsewhere".to_owned(), |log| log.display().to_string());
        println!("  {:<16} {:>7}  {:<9} {:<22} {log}{restarts}", s.name, pid, condition, listens);
    }
}
