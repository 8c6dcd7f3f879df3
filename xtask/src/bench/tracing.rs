//! What tracing costs: a chain of three Go gRPC services under 32 closed-loop clients, untraced twice (A/A control), with
//! Faultloom tracing every request, with Faultloom installed but the request untraced, and with OpenTelemetry tracing
//! every request. bench/README.md says how it measures and what the figures mean.
//!
//! The processes of all modes run through a whole epoch, one mode is loaded at a time, in short windows whose order is
//! shuffled anew in each round; only figures of one round are compared. An epoch begins with fresh processes, so that the
//! luck of one process (where its memory lies) does not pass for a difference. `FAULTLOOM_BENCH=quick` only proves that
//! the bench runs.

use super::statistics::Interval;
use super::{Goal, finish};
use crate::shell::{quiet, root};
use serde_json::{Value, json};
use std::io::{BufRead, BufReader, Write};
use std::path::PathBuf;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// From the outermost to the innermost.
const SERVICES: [&str; 3] = ["orders", "prices", "stock"];
/// A client and a server span per call.
const SPANS_PER_REQUEST: u64 = 2 * SERVICES.len() as u64;

#[derive(Clone, Copy, PartialEq)]
enum Mode {
    UntracedA,
    UntracedB,
    Faultloom,
    Dormant,
    OpenTelemetry,
}

const MODES: [Mode; 5] = [Mode::UntracedA, Mode::UntracedB, Mode::Faultloom, Mode::Dormant, Mode::OpenTelemetry];

impl Mode {
    fn name(self) -> &'static str {
        match self {
            Mode::UntracedA => "untraced a",
            Mode::UntracedB => "untraced b",
            Mode::Faultloom => "faultloom 1/1",
            Mode::Dormant => "faultloom, untraced",
            Mode::OpenTelemetry => "opentelemetry 1/1",
        }
    }

    /// Binaries of services and load generator. The load generator is always a file of its own: processes of one file share
    /// its pages, and so the processor's caches, and a variant in which all four do has an advantage of a few percent.
    fn binaries(self) -> (&'static str, &'static str) {
        match self {
            Mode::UntracedA | Mode::UntracedB => ("chain-plain", "load-plain"),
            Mode::Faultloom => ("chain-faultloom", "load-faultloom"),
            Mode::Dormant => ("chain-faultloom", "load-plain"),
            Mode::OpenTelemetry => ("chain-otel", "load-otel"),
        }
    }
}

struct Plan {
    epochs: usize,
    rounds: usize,
    warm_ms: u64,
    window_ms: u64,
}

/// One window of one mode.
#[derive(Clone, Default)]
struct Sample {
    per_s: f64,
    cpu_us: f64,
    load_cpu_us: f64,
    sink_cpu_us: f64,
    p50_us: f64,
    p99_us: f64,
}

type Round = [Sample; MODES.len()];

/// What is checked: that nothing was lost that was paid for.
#[derive(Default)]
struct Tally {
    otel_requests: u64,
    spans: u64,
    histories: u64,
    history_bytes: u64,
    events: u64,
}

pub fn bench() -> Result<(), String> {
    let short = std::env::var("FAULTLOOM_BENCH").is_ok_and(|v| v == "quick");
    let plan = if short {
        Plan { epochs: 1, rounds: 3, warm_ms: 30, window_ms: 150 }
    } else {
        Plan { epochs: 6, rounds: 30, warm_ms: 30, window_ms: 150 }
    };
    let seed = SystemTime::now().duration_since(UNIX_EPOCH).map_or(1, |d| d.as_secs());
    println!(
        "tracing: {} epochs of {} rounds, windows of {} ms, seed {seed}",
        plan.epochs, plan.rounds, plan.window_ms
    );
    build()?;
    let trust = write_trust()?;
    let mut order = Shuffle(seed);
    let mut rounds = Vec::new();
    let mut tally = Tally::default();
    let begin = Instant::now();
    for _ in 0..plan.epochs {
        epoch(&plan, &trust, &mut order, &mut rounds, &mut tally)?;
    }
    tally.verify()?;
    report(&plan, seed, short, begin.elapsed(), &rounds, &tally)
}

fn report(plan: &Plan, seed: u64, short: bool, took: Duration, rounds: &[Round], tally: &Tally) -> Result<(), String> {
    let of = |f: &dyn Fn(&Round) -> f64| Interval::of(&rounds.iter().map(f).collect::<Vec<f64>>());
    let at = |round: &Round, mode: Mode| round[mode as usize].clone();
    let untraced = |r: &Round| (at(r, Mode::UntracedA).per_s + at(r, Mode::UntracedB).per_s) / 2.0;
    let untraced_cpu = |r: &Round| (at(r, Mode::UntracedA).cpu_us + at(r, Mode::UntracedB).cpu_us) / 2.0;
    let loss = |mode: Mode| move |r: &Round| 100.0 * (1.0 - at(r, mode).per_s / untraced(r));
    let added = |mode: Mode| move |r: &Round| 100.0 * (at(r, mode).cpu_us / untraced_cpu(r) - 1.0);

    println!("\n {:<20} {:>9} {:>12} {:>12} {:>9} {:>9}", "", "req/s", "cpu us/req", "load us/req", "p50 us", "p99 us");
    let mut modes = serde_json::Map::new();
    for mode in MODES {
        let median = |f: fn(&Sample) -> f64| of(&|r| f(&r[mode as usize])).median;
        let [per_s, cpu, load, sink, p50, p99] = [
            median(|s| s.per_s),
            median(|s| s.cpu_us),
            median(|s| s.load_cpu_us),
            median(|s| s.sink_cpu_us),
            median(|s| s.p50_us),
            median(|s| s.p99_us),
        ];
        println!(" {:<20} {per_s:>9.0} {cpu:>12.1} {load:>12.1} {p50:>9.0} {p99:>9.0}", mode.name());
        modes.insert(
            mode.name().to_owned(),
            json!({ "requests_per_s": per_s, "services_cpu_us_per_request": cpu, "load_cpu_us_per_request": load,
                "sink_cpu_us_per_request": sink, "latency_us_p50": p50, "latency_us_p99": p99 }),
        );
    }

    let control = of(&|r| 100.0 * (1.0 - at(r, Mode::UntracedB).per_s / at(r, Mode::UntracedA).per_s));
    let control_cpu = of(&|r| 100.0 * (at(r, Mode::UntracedB).cpu_us / at(r, Mode::UntracedA).cpu_us - 1.0));
    let dormant = of(&loss(Mode::Dormant));
    let dormant_cpu = of(&added(Mode::Dormant));
    let [faultloom, otel] = [Mode::Faultloom, Mode::OpenTelemetry].map(|m| of(&loss(m)));
    let [faultloom_cpu, otel_cpu] = [Mode::Faultloom, Mode::OpenTelemetry].map(|m| of(&added(m)));
    let ratio = of(&|r| loss(Mode::Faultloom)(r) / loss(Mode::OpenTelemetry)(r));
    let ratio_cpu = of(&|r| added(Mode::Faultloom)(r) / added(Mode::OpenTelemetry)(r));
    let bytes_per_event = tally.history_bytes as f64 / tally.events as f64;

    println!("\n {:<38} {:>9}   95 % interval", "medians of rounds", "");
    for (name, value) in [
        ("control: loss of throughput, b to a, %", &control),
        ("faultloom 1/1: loss, %", &faultloom),
        ("opentelemetry 1/1: loss, %", &otel),
        ("loss ratio", &ratio),
        ("faultloom, untraced: loss, %", &dormant),
        ("control: CPU, b to a, %", &control_cpu),
        ("faultloom 1/1: CPU added, %", &faultloom_cpu),
        ("opentelemetry 1/1: CPU added, %", &otel_cpu),
        ("ratio of CPU added", &ratio_cpu),
        ("faultloom, untraced: CPU added, %", &dormant_cpu),
    ] {
        println!(" {name:<38} {:>9.3}   {:.3} to {:.3}", value.median, value.low, value.high);
    }
    let arrived = tally.spans as f64 / (tally.otel_requests * SPANS_PER_REQUEST) as f64;
    println!(
        " spans that reached the sink: {:.2} %; {} histories checked, all complete",
        100.0 * arrived,
        tally.histories
    );
    let conclusive = control.within(2.0);
    if !conclusive {
        println!(" inconclusive about ±2 %: the control itself is wider, this machine was too noisy");
    }

    let goals = [
        Goal::at_most("loss_ratio_to_otel", ratio.median, 0.35),
        Goal {
            name: "dormant_loss_percent",
            value: dormant.median,
            goal: "interval inside ±2, and that of the control".to_owned(),
            met: conclusive && dormant.within(2.0),
        },
        Goal::at_most("bytes_per_event", bytes_per_event, 30.0),
    ];
    let figures = json!({
        "modes": modes,
        "control_loss_percent": control, "control_cpu_percent": control_cpu, "conclusive": conclusive,
        "faultloom_loss_percent": faultloom, "otel_loss_percent": otel, "loss_ratio_to_otel": ratio,
        "faultloom_cpu_percent": faultloom_cpu, "otel_cpu_percent": otel_cpu, "cpu_ratio_to_otel": ratio_cpu,
        "dormant_loss_percent": dormant, "dormant_cpu_percent": dormant_cpu,
        "bytes_per_event": bytes_per_event, "histories_checked": tally.histories, "spans_arrived": arrived,
        "clients": 32, "epochs": plan.epochs, "rounds": rounds.len(), "window_ms": plan.window_ms,
        "measuring_s": took.as_secs_f64().round(),
    });
    finish(if short { "quick-tracing" } else { "tracing" }, seed, &goals, figures)
}

impl Tally {
    /// A tracer that loses what it recorded did less work: then the comparison means nothing.
    fn verify(&self) -> Result<(), String> {
        let expected = self.otel_requests * SPANS_PER_REQUEST;
        if self.spans * 100 < expected * 95 || self.spans > expected {
            return Err(format!("the sink has {} of {expected} spans", self.spans));
        }
        if self.histories == 0 || self.events != self.histories * 4 * SERVICES.len() as u64 {
            return Err(format!("{} histories hold {} events", self.histories, self.events));
        }
        Ok(())
    }
}

// ---- measuring

fn epoch(
    plan: &Plan,
    trust: &str,
    order: &mut Shuffle,
    rounds: &mut Vec<Round>,
    tally: &mut Tally,
) -> Result<(), String> {
    let mut sink = Worker::start("sink", &["sink"], &[])?;
    let mut sets = Vec::new();
    for mode in MODES {
        sets.push(Set::start(mode, trust, &sink.address)?);
    }
    for set in &mut sets {
        set.window(&mut sink, 0, 20 * plan.warm_ms, tally)?; // pools filled, connections opened
    }
    for _ in 0..plan.rounds {
        let mut round = Round::default();
        for i in order.permutation(MODES.len()) {
            round[i] = sets[i].window(&mut sink, plan.warm_ms, plan.window_ms, tally)?;
        }
        rounds.push(round);
    }
    tally.spans += number(&sink.ask("spans")?, "spans") as u64;
    Ok(())
}

/// The processes of one mode.
struct Set {
    mode: Mode,
    services: Vec<Worker>,
    load: Worker,
}

impl Set {
    fn start(mode: Mode, trust: &str, sink: &str) -> Result<Set, String> {
        let (service, load) = mode.binaries();
        let endpoint = format!("http://{sink}");
        let mut services: Vec<Worker> = Vec::new();
        let mut peers = String::new();
        for name in SERVICES.iter().rev() {
            let next = services.last().map(|w| w.address.clone());
            let arguments: Vec<&str> = std::iter::once("node").chain(next.as_deref()).collect();
            let worker = Worker::start(service, &arguments, &environment(mode, name, &peers, trust, &endpoint))?;
            peers = format!("{}={name}", worker.address);
            services.push(worker);
        }
        let first = services.last().map(|w| w.address.clone()).unwrap_or_default();
        let load = Worker::start(load, &["load", &first], &environment(mode, "load", &peers, trust, &endpoint))?;
        Ok(Set { mode, services, load })
    }

    /// Loads this mode alone.
    fn window(&mut self, sink: &mut Worker, warm_ms: u64, window_ms: u64, tally: &mut Tally) -> Result<Sample, String> {
        let before = self.cpu()?;
        let sink_before = sink.cpu()?;
        let w = self.load.ask(&format!("run {warm_ms} {window_ms}"))?;
        if self.mode == Mode::OpenTelemetry {
            for worker in self.services.iter_mut().chain([&mut self.load]) {
                worker.ask("flush")?; // its cost belongs to this window, not to the next one
            }
        }
        let after = self.cpu()?;
        let total = number(&w, "total");
        if total == 0.0 {
            return Err(format!("{}: no request in a window", self.mode.name()));
        }
        tally.histories += number(&w, "histories_checked") as u64;
        tally.history_bytes += number(&w, "history_bytes") as u64;
        tally.events += number(&w, "history_events") as u64;
        if self.mode == Mode::OpenTelemetry {
            tally.otel_requests += total as u64;
        }
        Ok(Sample {
            per_s: number(&w, "requests") / number(&w, "seconds"),
            cpu_us: (after.0 - before.0) / total,
            load_cpu_us: (after.1 - before.1) / total,
            sink_cpu_us: (sink.cpu()? - sink_before) / total,
            p50_us: number(&w, "latency_us_p50"),
            p99_us: number(&w, "latency_us_p99"),
        })
    }

    /// CPU time so far in µs, of the services and of the load generator.
    fn cpu(&mut self) -> Result<(f64, f64), String> {
        let mut services = 0.0;
        for worker in &mut self.services {
            services += worker.cpu()?;
        }
        Ok((services, self.load.cpu()?))
    }
}

fn environment(mode: Mode, service: &str, peers: &str, trust: &str, endpoint: &str) -> Vec<(&'static str, String)> {
    let pairs: &[(&'static str, &str)] = match mode {
        Mode::UntracedA | Mode::UntracedB => &[],
        Mode::Faultloom | Mode::Dormant => {
            &[("FAULTLOOM_SERVICE", service), ("FAULTLOOM_PEERS", peers), ("FAULTLOOM_TRUST_FILE", trust)]
        }
        Mode::OpenTelemetry => &[("OTEL_SERVICE_NAME", service), ("OTEL_EXPORTER_OTLP_ENDPOINT", endpoint)],
    };
    pairs.iter().map(|(name, value)| (*name, (*value).to_owned())).collect()
}

fn number(value: &Value, name: &str) -> f64 {
    value[name].as_f64().unwrap_or(0.0)
}

// ---- processes

/// One process of the chain. It ends when its input does: also if this process dies.
struct Worker {
    child: Child,
    input: Option<ChildStdin>,
    output: BufReader<ChildStdout>,
    address: String,
}

impl Worker {
    fn start(binary: &str, arguments: &[&str], environment: &[(&str, String)]) -> Result<Worker, String> {
        let program = place().join(binary);
        let failed = |e: std::io::Error| format!("{}: {e}", program.display());
        let mut child = Command::new(&program)
            .args(arguments)
            .env_clear() // nothing of the caller's shell tunes one mode
            .envs(environment.iter().map(|(name, value)| (name, value)))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .map_err(failed)?;
        let (input, output) = (child.stdin.take(), child.stdout.take());
        let Some(output) = output else { return Err(format!("{binary}: no output")) };
        let mut worker = Worker { child, input, output: BufReader::new(output), address: String::new() };
        worker.address = worker.answer()?["address"].as_str().unwrap_or_default().to_owned();
        Ok(worker)
    }

    fn ask(&mut self, command: &str) -> Result<Value, String> {
        let sent = self.input.as_mut().map(|i| writeln!(i, "{command}"));
        match sent {
            Some(Ok(())) => self.answer(),
            _ => Err(format!("a process of the chain ended before '{command}'")),
        }
    }

    fn answer(&mut self) -> Result<Value, String> {
        let mut line = String::new();
        self.output.read_line(&mut line).map_err(|e| format!("a process of the chain: {e}"))?;
        serde_json::from_str(&line).map_err(|_| "a process of the chain ended; what it said stands above".to_owned())
    }

    fn cpu(&mut self) -> Result<f64, String> {
        Ok(number(&self.ask("cpu")?, "cpu_us"))
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        drop(self.input.take());
        let deadline = Instant::now() + Duration::from_secs(2);
        while Instant::now() < deadline {
            if !matches!(self.child.try_wait(), Ok(None)) {
                return;
            }
            std::thread::sleep(Duration::from_millis(5));
        }
        let _ = self.child.kill(); // by its handle; the wait below ends either way
        let _ = self.child.wait();
    }
}

// ---- building

fn place() -> PathBuf {
    root().join("out/bench/tracing")
}

fn build() -> Result<(), String> {
    let bin = place();
    std::fs::create_dir_all(&bin).map_err(|e| format!("{}: {e}", bin.display()))?;
    let path = |name: &str| bin.join(name).display().to_string();
    let wrapper = path("faultloom-go");
    let go = |folder: &str, program: &str, name: &str, rest: &[&str]| {
        let mut command = Command::new(program);
        command.args(["build", "-o", &path(name)]).args(rest).current_dir(root().join(folder)).stdin(Stdio::null());
        quiet(&mut command).map(|_| ())
    };
    go("sdk/go", "go", "faultloom-go", &["./cmd/faultloom-go"])?;
    go("bench/tracing", "go", "chain-plain", &["./chain"])?;
    go("bench/tracing", "go", "chain-otel", &["-tags", "otel", "./chain"])?;
    go("bench/tracing", "go", "load-faultloom", &["-tags", "faultloom", "./chain"])?;
    go("bench/tracing", &wrapper, "chain-faultloom", &["./chain"])?;
    for (from, to) in [("chain-plain", "load-plain"), ("chain-otel", "load-otel"), ("chain-otel", "sink")] {
        std::fs::copy(bin.join(from), bin.join(to)).map_err(|e| format!("{to}: {e}"))?;
    }
    Ok(())
}

/// Trust settings with a key of this run.
fn write_trust() -> Result<String, String> {
    let path = place().join("trust");
    let failed = |e: std::io::Error| format!("{}: {e}", path.display());
    let mut key = [0u8; 32];
    std::fs::File::open("/dev/urandom")
        .and_then(|mut f| std::io::Read::read_exact(&mut f, &mut key))
        .map_err(failed)?;
    let hex: String = key.iter().map(|b| format!("{b:02x}")).collect();
    std::fs::write(&path, format!("environment bench\nkey trace t1 {hex}\nfaults on\n")).map_err(failed)?;
    Ok(path.display().to_string())
}

/// SplitMix64, for the order of the modes.
struct Shuffle(u64);

impl Shuffle {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }

    fn permutation(&mut self, n: usize) -> Vec<usize> {
        let mut list: Vec<usize> = (0..n).collect();
        for i in (1..n).rev() {
            list.swap(i, (self.next() % (i as u64 + 1)) as usize);
        }
        list
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_round_has_every_mode_once() {
        let mut order = Shuffle(7);
        for _ in 0..100 {
            let mut list = order.permutation(MODES.len());
            list.sort_unstable();
            assert_eq!(list, [0, 1, 2, 3, 4]);
        }
    }

    #[test]
    fn lost_spans_and_incomplete_histories_fail_the_bench() {
        let good = Tally { otel_requests: 100, spans: 598, histories: 10, history_bytes: 2000, events: 120 };
        assert!(good.verify().is_ok());
        assert!(Tally { spans: 500, ..good }.verify().is_err());
        let good = Tally { otel_requests: 100, spans: 600, histories: 10, history_bytes: 2000, events: 116 };
        assert!(good.verify().is_err());
        assert!(Tally { histories: 0, events: 0, ..good }.verify().is_err());
    }
}
