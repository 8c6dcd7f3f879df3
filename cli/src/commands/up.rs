//! `faultloom up`, `down`, `ps`: the services of a target.

use crate::args::Up;
use crate::context::Context;
use crate::signals;
use app::target_session;
use app::text::plural;
use model::{Exit, Failure, Family};
use serde_json::json;
use std::collections::HashMap;
use std::io::{BufRead, BufReader};
use std::process::Stdio;
use std::time::{Duration, Instant};
use target::{Down, Supervisor, Target};

/// A service that crashes more often than this within [`CRASH_WINDOW`] is given up.
const CRASHES_MAX: usize = 5;
const CRASH_WINDOW: Duration = Duration::from_secs(60);
const LOOK_EVERY: Duration = Duration::from_millis(100);

pub async fn up(context: &Context, args: &Up) -> Result<Exit, Failure> {
    let result = run(context, args).await;
    if let (true, Err(failure)) = (args.behind, &result) {
        println!("{}", told(failure));
    }
    result
}

async fn run(context: &Context, args: &Up) -> Result<Exit, Failure> {
    let state_dir = target_session::state_dir(context);
    if let Some(state) = target::read_state(&state_dir)?.filter(target::is_alive) {
        return Err(Failure::environment(format!("{} is up already", state.target))
            .next("`faultloom ps` shows it, `faultloom down` stops it"));
    }
    let file = context
        .target_file()
        .ok_or_else(|| Failure::request("there is no target.yaml here").next("name a target file with -t FILE"))?;
    let target = Target::load(&file)?;
    runs::make_home(&context.common.home)?;
    if args.detach {
        return detach(context, &target).await;
    }
    let count = target.services().len() as u64;
    context.say(format!("{}: starting {}; Ctrl-C stops and removes everything", target.name, plural(count, "service")));
    let begin = Instant::now();
    let options = target_session::start_options(context, &target)?;
    let supervisor = tokio::select! {
        started = Supervisor::start(target, options) => started?,
        () = signals::interrupted() => return Err(Failure::new(Family::Aborted, "stopped while the target was starting")),
    };
    if args.behind {
        // the one in front shows the table
    } else if context.common.json {
        println!("{}", serde_json::to_string(&target::read_state(&state_dir)?).unwrap_or_default());
    } else if !context.common.quiet {
        table(&target::read_state(&state_dir)?);
        println!(
            "{} healthy after {:.1} s   next: {}",
            plural(count, "service"),
            begin.elapsed().as_secs_f64(),
            context.command("record")
        );
    }
    let result = keep(context, &supervisor).await;
    supervisor.stop().await?;
    result
}

/// Until Ctrl-C: restarts what crashes, and says so. What cannot be kept up is given up; the rest stays.
async fn keep(context: &Context, supervisor: &Supervisor) -> Result<Exit, Failure> {
    let mut crashes: HashMap<String, Vec<Instant>> = HashMap::new();
    let interrupted = signals::interrupted();
    tokio::pin!(interrupted);
    loop {
        tokio::select! {
            () = &mut interrupted => return Ok(Exit::Pass),
            () = tokio::time::sleep(LOOK_EVERY) => {}
        }
        for crash in supervisor.crashed() {
            context.say(format!(
                "   {} crashed by itself ({}); its log: {}",
                crash.service,
                crash.status,
                crash.log.display()
            ));
            let own = crashes.entry(crash.service.clone()).or_default();
            own.push(Instant::now());
            own.retain(|at| at.elapsed() <= CRASH_WINDOW);
            let restarted = match own.len() {
                ..=CRASHES_MAX => supervisor.restart(&crash.service).await,
                _ => Err(Failure::environment(format!("{} keeps crashing", crash.service))
                    .why(crash.log_tail.join("\n"))
                    .next(format!("read {}; `down` and `up` try it again", crash.log.display()))),
            };
            match restarted {
                Ok(()) => context.say(format!("   {} is back", crash.service)),
                Err(failure) => {
                    supervisor.give_up(&crash).await?;
                    eprintln!("{failure}\n   {} is given up, the rest stays up", crash.service);
                }
            }
        }
    }
}

/// Starts `up` as a process of its own and waits until everything is healthy.
async fn detach(context: &Context, target: &Target) -> Result<Exit, Failure> {
    let exe = std::env::current_exe()
        .map_err(|e| Failure::environment(format!("the faultloom binary cannot be found: {e}")))?;
    let home = &context.common.home;
    let log_path = home.join("up.log");
    let log = std::fs::File::create(&log_path)
        .map_err(|e| Failure::environment(format!("{} cannot be written: {e}", log_path.display())))?;
    use std::os::unix::process::CommandExt;
    let mut child = std::process::Command::new(exe)
        .args([
            "--home".as_ref(),
            home.as_os_str(),
            "--target".as_ref(),
            target.file.as_os_str(),
            "up".as_ref(),
            "--behind".as_ref(),
        ])
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(log)
        .process_group(0)
        .spawn()
        .map_err(|e| Failure::environment(format!("the supervisor cannot be started: {e}")))?;
    let patience: Duration =
        target.services().iter().map(|s| s.start_timeout).max().unwrap_or_default() + Duration::from_secs(5);
    let begin = Instant::now();
    let interrupted = signals::interrupted();
    tokio::pin!(interrupted);
    loop {
        if let Ok(Some(status)) = child.try_wait() {
            // one line is read, not all: the reaper may hold the pipe a little longer
            let mut said = String::new();
            if let Some(pipe) = child.stdout.take() {
                let _ = BufReader::new(pipe).read_line(&mut said);
            }
            return Err(passed_on(&said).unwrap_or_else(|| {
                Failure::environment(format!("the target did not come up ({status})"))
                    .why(format!("its supervisor ended without a reason; what it said is in {}", log_path.display()))
                    .next(context.command("up"))
            }));
        }
        // one that was killed may have left its state, and its reaper is about to remove it
        let ours = |state: &target::UpState| u32::try_from(state.supervisor.pid).is_ok_and(|pid| pid == child.id());
        let state = target::read_state(&target_session::state_dir(context))?.filter(ours);
        if state
            .as_ref()
            .is_some_and(|s| s.services.len() == target.services().len() && s.services.iter().all(|s| s.healthy))
        {
            if context.common.json {
                println!("{}", serde_json::to_string(&state).unwrap_or_default());
            } else if !context.common.quiet {
                table(&state);
                println!(
                    "{} healthy after {:.1} s   next: {}   (`{}` stops them)",
                    plural(target.services().len() as u64, "service"),
                    begin.elapsed().as_secs_f64(),
                    context.command("record"),
                    context.command("down")
                );
            }
            return Ok(Exit::Pass);
        }
        if begin.elapsed() > patience {
            let _ = child.kill(); // its reaper stops the services
            return Err(
                Failure::environment("the target did not come up in time").next(format!("read {}", log_path.display()))
            );
        }
        tokio::select! {
            () = tokio::time::sleep(Duration::from_millis(30)) => {}
            () = &mut interrupted => {
                if let Some(pid) = i32::try_from(child.id()).ok().and_then(rustix::process::Pid::from_raw) {
                    let _ = rustix::process::kill_process(pid, rustix::process::Signal::TERM);
                }
                let _ = child.wait();
                return Err(Failure::new(Family::Aborted, "stopped while the target was starting"));
            }
        }
    }
}

/// Why `up` behind a detached one failed, whole.
fn told(failure: &Failure) -> serde_json::Value {
    json!({
        "what": failure.what, "why": failure.why, "next": failure.next,
        "exit": failure.exit().code(), "bug": failure.family == Family::Bug,
    })
}

/// The error that `up` in the background ended with, as if it had been in the foreground.
fn passed_on(said: &str) -> Option<Failure> {
    let told: serde_json::Value = serde_json::from_str(said).ok()?;
    let text = |key: &str| told[key].as_str().map(str::to_owned);
    let family = [Family::Request, Family::Aborted, Family::Unknown]
        .into_iter()
        .find(|f| told["exit"] == Failure::new(*f, "").exit().code())
        .unwrap_or(if told["bug"] == true { Family::Bug } else { Family::Environment });
    Some(Failure { family, what: text("what")?, why: text("why"), next: text("next") })
}

pub async fn down(context: &Context) -> Result<Exit, Failure> {
    let done = target::down(&target_session::state_dir(context)).await?;
    let (text, value) = match &done {
        Down::NothingUp => ("nothing was up".to_owned(), json!({"down": null})),
        Down::Stopped { target, services } => (
            format!("{target}: {} stopped", plural(services.len() as u64, "service")),
            json!({"down": target, "services": services}),
        ),
        Down::CleanedUp { target, services } => (
            format!(
                "{target}: its supervisor was gone; {} stopped",
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
    let state = target::read_state(&target_session::state_dir(context))?;
    let up = state.as_ref().is_some_and(target::is_alive);
    if context.common.json {
        println!("{}", json!({"up": up, "state": state}));
    } else if up {
        table(&state);
    } else {
        println!("nothing is up   next: {}", context.command("up"));
    }
    Ok(Exit::Pass)
}

fn table(state: &Option<target::UpState>) {
    let Some(state) = state else { return };
    println!("  {:<16} {:>7}  {:<9} {:<22} log", "service", "pid", "state", "listens");
    for s in &state.services {
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
        println!("  {:<16} {:>7}  {:<9} {:<22} {log}", s.name, pid, condition, listens);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_went_wrong_behind_is_passed_on_whole() {
        for family in [Family::Request, Family::Environment, Family::Aborted, Family::Unknown, Family::Bug] {
            let failure = Failure::new(family, "a\nerror: b").why("c\n  next: d\n").next("e");
            assert_eq!(passed_on(&told(&failure).to_string()), Some(failure));
        }
        assert_eq!(passed_on(""), None);
        assert_eq!(passed_on("error: x\n"), None);
    }
}
