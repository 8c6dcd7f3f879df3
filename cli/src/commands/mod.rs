//! One file per verb.

mod agent;
mod completions;
mod diff;
mod discover;
mod doctor;
mod env;
mod export;
mod faults;
mod fleet;
mod flip;
mod flip_engine;
mod flip_gdb;
mod flip_live;
mod flip_replay;
mod flip_tracer;
mod import;
mod init;
mod man;
mod map;
mod map_hosts;
mod record;
mod report;
mod runs;
mod schema;
mod show;
mod sweep;
mod ui;
mod up;
mod wrap;

use crate::args::{Agent, AgentPart, Args, Command, FlipPart};
use crate::context::Context;
use crate::signals::OnInterrupt;
use model::{Exit, Failure};

pub fn run(args: Args) -> Result<Exit, Failure> {
    let target = args.common.target.is_some();
    let context = Context::new(args.common);
    if uses_home(&args.command) {
        ::runs::secure(&context.home)?;
    }
    // these replace this process or must not share it with a runtime
    match &args.command {
        Command::Reaper => app::target_session::reaper(),
        Command::FlipEngine => return flip_engine::serve(),
        Command::FlipTracer => return flip_tracer::serve(),
        Command::Go(passed) => return wrap::go(&passed.arguments),
        Command::Env(args) => return env::env(&context, args),
        Command::Schema(args) => return schema::schema(args),
        Command::Completions(args) => return completions::completions(args),
        Command::Man(args) => return man::man(args),
        Command::Agent(args) => match &args.part {
            Some(AgentPart::Serve(_)) => {}
            Some(AgentPart::Trust(args)) => return fleet::trust(&context, args),
            Some(AgentPart::Unit(_)) | None => return agent::agent(&context, args),
        },
        Command::Python(passed) => return wrap::python(&passed.arguments),
        _ => {}
    }
    let runtime =
        tokio::runtime::Runtime::new().map_err(|e| Failure::environment(format!("no runtime can be started: {e}")))?;
    let result = runtime.block_on(async {
        // the other verbs leave nothing behind: a signal ends them at once
        if let Some(on_interrupt) = on_interrupt(&args.command, target) {
            let stop = crate::signals::stop_signal()?;
            tokio::spawn(crate::signals::cancel_on_interrupt(context.cancel.clone(), stop, on_interrupt));
        }
        match args.command {
            Command::Up(args) => up::up(&context, &args).await,
            Command::Down => up::down(&context).await,
            Command::Ps => up::ps(&context).await,
            Command::Init(args) => init::init(&context, &args).await,
            Command::Record(args) if args.discover => discover::discover(&context).await,
            Command::Record(args) => record::record(&context, &args).await,
            Command::Sweep(args) => sweep::sweep(&context, &args).await,
            Command::Flip(args) => match &args.part {
                Some(FlipPart::Replay(replay)) => flip_replay::replay(&context, replay).await,
                Some(FlipPart::Live(live)) => flip_live::live(&context, live).await,
                None => flip::flip(&context, &args).await,
            },
            Command::Runs(args) => runs::runs(&context, &args).await,
            Command::Show(args) => show::show(&context, &args).await,
            Command::Diff(args) => diff::diff(&context, &args).await,
            Command::Ui(args) => ui::ui(&context, &args).await,
            Command::Report(args) => report::report(&context, &args).await,
            Command::Export(args) => export::export(&context, &args).await,
            Command::Import(args) => import::import(&context, &args).await,
            Command::Map(args) => map::map(&context, &args).await,
            Command::Doctor if target => doctor::target(&context).await,
            Command::Doctor => doctor::machine(&context).await,
            Command::Faults(args) => faults::faults(&context, &args).await,
            Command::Agent(Agent { part: Some(AgentPart::Serve(args)), .. }) => fleet::serve(&context, &args).await,
            Command::Reaper
            | Command::FlipEngine
            | Command::FlipTracer
            | Command::Go(_)
            | Command::Python(_)
            | Command::Env(_)
            | Command::Schema(_)
            | Command::Completions(_)
            | Command::Man(_)
            | Command::Agent(_) => {
                unreachable!("handled above")
            }
        }
    });
    context.clear_progress();
    result
}

/// Whether the command reads or writes files below `--home`. It then begins by closing what other users can read.
fn uses_home(command: &Command) -> bool {
    match command {
        Command::Agent(args) => matches!(args.part, Some(AgentPart::Serve(_) | AgentPart::Trust(_))),
        Command::Reaper
        | Command::FlipEngine
        | Command::FlipTracer
        | Command::Go(_)
        | Command::Python(_)
        | Command::Init(_)
        | Command::Completions(_)
        | Command::Man(_)
        | Command::Schema(_) => false,
        _ => true,
    }
}

/// What Ctrl-C does to verbs that start, hold or wait for something. None: its default action.
fn on_interrupt(command: &Command, target: bool) -> Option<OnInterrupt> {
    match command {
        // finished work is stored, and they can be resumed
        Command::Sweep(_) | Command::Flip(_) => Some(OnInterrupt::CancelThenExit),
        Command::Up(_) | Command::Map(_) => Some(OnInterrupt::Cancel),
        Command::Record(args) if !args.discover => Some(OnInterrupt::Cancel),
        Command::Doctor if target => Some(OnInterrupt::Cancel),
        _ => None,
    }
}
