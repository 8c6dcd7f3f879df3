//! `faultloom agent`: the host's daemon, in the foreground.
//!
//! The order of the start matters. The collector needs the most capabilities, so it starts first. Capabilities that it
//! does not need are dropped before other threads start, and before data from outside, such as a database's replies, is
//! read.

use crate::args::{Agent, AgentPart, AgentUnit, Observing, ObservingMode};
use crate::context::Context;
use ::agent::{
    Daemon, FleetWriter, HostLock, Observer, Reporter, Settings, SocketObserver, capabilities, stores, systemd_unit,
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
use tokio::signal::unix::{SignalKind, signal};

pub fn agent(context: &Context, args: &Agent) -> Result<Exit, Failure> {
    if let Some(AgentPart::Unit(unit)) = &args.part {
        return print_unit(unit);
    }
    sockets::memory::limit_heap();
    let _lock = HostLock::take(&args.lock)?;
    let state = make_state(context, args)?;
    let mode = mode(args.observing.mode);
    capabilities::reduce(&match mode {
        Mode::Auto => vec![Source::Ebpf, Source::Polling],
        Mode::Only(source) => vec![source],
    })?;
    let observer = SocketObserver::start(mode)?;
    log(context, &format!("watching by {}", observer.source()));
    observer.remarks.iter().for_each(|remark| log(context, &format!("  {remark}")));
    capabilities::reduce(&[observer.source()])?;
    // one thread, because capabilities belong to a thread
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|e| Failure::environment(format!("no runtime can be started: {e}")))?;
    runtime.block_on(run(context, args, observer, state))
}

async fn run(context: &Context, args: &Agent, observer: SocketObserver, state: PathBuf) -> Result<Exit, Failure> {
    let stop = stop(args.length)?;
    let store = flowdb::FlowDb::open(&state.join(stores::DATABASE).to_string_lossy()).await?;
    let fleet = match &args.database {
        Some(url) => Some(fleet(url, &state)?),
        None => None,
    };
    log(context, &format!("windows of {:?} are kept in {}; Ctrl-C ends", args.observing.interval, state.display()));
    let settings = Settings { interval: args.observing.interval, once: args.once, state };
    let printer = Printer { json: context.common.json, once: args.once };
    Daemon::new(observer, store, fleet, settings, printer).run(stop).await;
    Ok(Exit::Pass)
}

/// On standard error, also with `--json`: a daemon's messages belong into its log.
fn log(context: &Context, line: &str) {
    if !context.common.quiet {
        eprintln!("{line}");
    }
}

fn fleet(url: &str, state: &Path) -> Result<FleetWriter, Failure> {
    if !cfg!(feature = "postgres") {
        return Err(Failure::environment("this faultloom was built without PostgreSQL")
            .next("build it with `--features postgres`, or leave --database out"));
    }
    let spool = Spool::open(&state.join(stores::SPOOL), flowdb::spool::DEFAULT_LIMIT_BYTES)?;
    Ok(FleetWriter::start(spool, stores::FleetDatabase::new(url)))
}

fn mode(chosen: ObservingMode) -> Mode {
    match chosen {
        ObservingMode::Auto => Mode::Auto,
        ObservingMode::Ebpf => Mode::Only(Source::Ebpf),
        ObservingMode::Polling => Mode::Only(Source::Polling),
        ObservingMode::Tuples => Mode::Only(Source::Tuples),
    }
}

/// `/var/lib/faultloom` for root, who observes the whole host; below `--home` for other users.
pub fn state_folder(context: &Context, chosen: Option<&Path>) -> PathBuf {
    match chosen {
        Some(folder) => folder.to_owned(),
        None if rustix::process::geteuid().is_root() => PathBuf::from("/var/lib/faultloom"),
        None => context.common.home.join("agent"),
    }
}

/// Writable by its owner and readable by its group only, because it records who communicates with whom.
fn make_state(context: &Context, args: &Agent) -> Result<PathBuf, Failure> {
    let state = state_folder(context, args.state.as_deref());
    std::fs::DirBuilder::new().recursive(true).mode(0o750).create(&state).map_err(|e| {
        Failure::environment(format!("cannot create the folder {}", state.display()))
            .why(e.to_string())
            .next("choose another one with --state DIR")
    })?;
    Ok(state)
}

/// Completes at Ctrl-C, SIGTERM, or after `length`. From this call on, these signals do not end the process.
fn stop(length: Option<Duration>) -> Result<impl Future<Output = ()>, Failure> {
    let listen = |kind| signal(kind).map_err(|e| Failure::environment(format!("signals cannot be caught: {e}")));
    let mut interrupt = listen(SignalKind::interrupt())?;
    let mut terminate = listen(SignalKind::terminate())?;
    Ok(async move {
        let over = async {
            match length {
                Some(length) => tokio::time::sleep(length).await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            _ = interrupt.recv() => {}
            _ = terminate.recv() => {}
            () = over => {}
        }
    })
}

fn print_unit(args: &AgentUnit) -> Result<Exit, Failure> {
    let Observing { mode, interval } = &args.observing;
    let program = std::env::current_exe()
        .map_err(|e| Failure::environment(format!("the path of this program cannot be read: {e}")))?;
    // a unit is for one mode; without a choice it is the best one, and the agent refuses to start where it does not
    // work
    let source = match self::mode(*mode) {
        Mode::Auto => Source::Ebpf,
        Mode::Only(source) => source,
    };
    print!("{}", systemd_unit::unit(source, &program, &format!("{}ms", interval.as_millis()), args.fleet));
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

/// Writes while it serializes, because windows may be large. A closed output is ignored.
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
    let lossy = if window.losses.flows_missing() { "; some were lost" } else { "" };
    let count = plural(window.flows.len() as u64, "flow");
    let seconds = (window.to_ms - window.from_ms) as f64 / 1e3;
    format!("{head}{}{count} in {seconds:.1} s, observed by {}{lossy}\n", lines.concat(), window.source)
}
