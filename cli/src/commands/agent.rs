//! `faultloom agent`: the host's daemon, in the foreground.
//!
//! The order of its start matters. The collector requires the most capabilities and starts first. Those that are not
//! needed are dropped before anything is opened that could be attacked (a database's answers) and before other threads
//! start.

use crate::args::{Agent, AgentPart, AgentUnit, Collection, ModeArg};
use crate::context::Context;
use crate::signals::stop_signal;
use ::agent::{
    Daemon, FleetWriter, HostLock, Observer, Reporter, Settings, SocketObserver, capabilities, daemon_set, stores,
    systemd_unit,
};
use app::text::{plural, printable, time};
use app::time_arg::now_ms;
use flowdb::Spool;
use flows::{Side, Source, Window};
use model::{Exit, Failure};
use sockets::backend::Mode;
use std::collections::BTreeMap;
use std::io::{BufWriter, Write as _};
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

pub fn agent(context: &Context, args: &Agent) -> Result<Exit, Failure> {
    if let Some(AgentPart::Unit(unit)) = &args.part {
        return print_unit(unit);
    }
    sockets::memory::limit_heap();
    let _lock = HostLock::take(&args.lock)?;
    let state = create_state(context, args)?;
    let mode = mode(args.collection.mode);
    capabilities::reduce(&match mode {
        Mode::Auto => vec![Source::Ebpf, Source::Polling],
        Mode::Only(source) => vec![source],
    })?;
    let observer = SocketObserver::start(mode)?;
    print_status(context, &format!("source of connections: {}", observer.source()));
    observer.remarks.iter().for_each(|remark| print_status(context, &format!("  {remark}")));
    capabilities::reduce(&[observer.source()])?;
    // one thread, because capabilities belong to a thread
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|e| Failure::environment(format!("cannot start the runtime: {e}")))?;
    runtime.block_on(run(context, args, observer, state))
}

async fn run(context: &Context, args: &Agent, observer: SocketObserver, state: PathBuf) -> Result<Exit, Failure> {
    let stop = stop(args.length)?;
    let store = flowdb::FlowDb::open(&state.join(stores::DATABASE).to_string_lossy()).await?;
    let fleet = match &args.database {
        Some(url) => Some(fleet(url, &state)?),
        None => None,
    };
    let interval = args.collection.interval;
    print_status(context, &format!("recording windows of {interval:?} in {}; Ctrl-C stops", state.display()));
    let settings = Settings { interval, once: args.once, state };
    let printer = Printer { json: context.common.json, once: args.once };
    Daemon::new(observer, store, fleet, settings, printer).run(stop).await;
    Ok(Exit::Pass)
}

/// Status goes to standard error, which is the log of a daemon: windows may go to standard output.
fn print_status(context: &Context, line: &str) {
    if !context.common.quiet {
        eprintln!("{line}");
    }
}

fn fleet(url: &str, state: &Path) -> Result<FleetWriter, Failure> {
    if !cfg!(feature = "postgres") {
        return Err(Failure::environment("this faultloom was built without PostgreSQL")
            .next("build it with `--features postgres`, or omit --database"));
    }
    let spool = Spool::open(&state.join(stores::SPOOL), flowdb::spool::DEFAULT_LIMIT_BYTES)?;
    Ok(FleetWriter::start(spool, stores::FleetDatabase::new(url)))
}

fn mode(argument: ModeArg) -> Mode {
    match argument {
        ModeArg::Auto => Mode::Auto,
        ModeArg::Ebpf => Mode::Only(Source::Ebpf),
        ModeArg::Polling => Mode::Only(Source::Polling),
        ModeArg::Tuples => Mode::Only(Source::Tuples),
    }
}

/// The directory named by `--state`; by default the system's directory for root, and one below the store's home for
/// other users.
pub fn state_directory(context: &Context, argument: Option<&Path>) -> PathBuf {
    match argument {
        Some(directory) => directory.to_owned(),
        None if rustix::process::geteuid().is_root() => PathBuf::from("/var/lib/faultloom"),
        None => context.common.home.join("agent"),
    }
}

/// Creates the state directory, which only its owner can write and only its group can read: the windows are sensitive.
fn create_state(context: &Context, args: &Agent) -> Result<PathBuf, Failure> {
    let state = state_directory(context, args.state.as_deref());
    std::fs::DirBuilder::new().recursive(true).mode(0o750).create(&state).map_err(|e| {
        Failure::environment(format!("cannot create the directory {}", state.display()))
            .why(e.to_string())
            .next("choose another one with --state DIR")
    })?;
    Ok(state)
}

/// Ready at Ctrl-C, SIGTERM, or after `length`.
fn stop(length: Option<Duration>) -> Result<impl Future<Output = ()>, Failure> {
    let signal = stop_signal()?;
    Ok(async move {
        match length {
            Some(length) => drop(tokio::time::timeout(length, signal).await),
            None => signal.await,
        }
    })
}

fn print_unit(args: &AgentUnit) -> Result<Exit, Failure> {
    let Collection { mode, interval } = &args.collection;
    let program = std::env::current_exe()
        .map_err(|e| Failure::environment(format!("cannot determine the path of this program: {e}")))?;
    // a unit has the capabilities of one source; without a choice that is the best one, and the agent fails at its
    // start if the host does not permit it
    let source = match self::mode(*mode) {
        Mode::Auto => Source::Ebpf,
        Mode::Only(source) => source,
    };
    let interval = format!("{}ms", interval.as_millis());
    match args.form.as_str() {
        "kubernetes" if args.fleet => {
            return Err(Failure::request("--fleet is not available for Kubernetes")
                .why("its address may contain a password, which belongs into a Secret")
                .next("add FAULTLOOM_DATABASE to the container by hand, with a secretKeyRef")
                .field("fleet"));
        }
        "kubernetes" => print!("{}", daemon_set::manifests(source, &args.image, &interval)),
        _ => print!("{}", systemd_unit::unit(source, &program, &interval, args.fleet)),
    }
    Ok(Exit::Pass)
}

struct Printer {
    json: bool,
    once: bool,
}

impl Reporter for Printer {
    fn window(&mut self, window: &Window) {
        if self.json {
            print_json(window);
        } else if self.once {
            print!("{}", table(window));
        }
    }

    fn message(&mut self, text: &str) {
        eprintln!("{}  {}", time(now_ms()), text.replace('\n', "\n    "));
    }
}

/// Prints one line. It is written during serialization, because windows may be large. A closed output does not stop the
/// agent.
fn print_json(window: &Window) {
    let mut output = BufWriter::new(std::io::stdout().lock());
    let _ = serde_json::to_writer(&mut output, window).map_err(std::io::Error::from).and_then(|()| writeln!(output));
}

/// One line per flow, services first.
fn table(window: &Window) -> String {
    let names: BTreeMap<_, _> = window.services.iter().map(|s| (&s.key, printable(&s.name))).collect();
    let mut lines: Vec<String> = window
        .flows
        .iter()
        .map(|flow| {
            let service = names.get(&flow.service).map_or("?", |name| name);
            let (arrow, active) = match flow.side {
                Side::Active => ("→", String::new()),
                Side::Passive => ("←", flow.link.active.map_or(String::new(), |ip| format!(" from {ip}"))),
            };
            let address = format!("{}{active}", printable(&flow.link.passive.to_string()));
            let c = &flow.counts;
            format!("{service:<40.40} {arrow} {address:<44.44} {:>8} {:>8} {:>8}\n", c.open, c.opened, c.failed)
        })
        .collect();
    lines.sort();
    let head = format!("{:<40}   {:<44} {:>8} {:>8} {:>8}\n", "service", "", "open", "opened", "failed");
    let losses = if window.losses.flows_missing() { "; some were lost" } else { "" };
    let count = plural(window.flows.len() as u64, "flow");
    let seconds = (window.to_ms - window.from_ms) as f64 / 1e3;
    format!("{head}{}{count} in {seconds:.1} s, source {}{losses}\n", lines.concat(), window.source)
}
