//! Measuring a workload: epochs of rounds of windows.
//!
//! The processes of all modes run through a whole epoch, one mode is loaded at a time, in short windows whose order is
//! shuffled anew in each round; only figures of one round are compared. An epoch begins with fresh processes, so that the
//! luck of one process (where its memory lies) does not pass for a difference.

use super::build::{self, Surroundings};
use super::worker::{Worker, number};
use super::workload::{Language, Mode, Workload};
use crate::bench::statistics::Shuffle;
use serde::Serialize;

/// A turn of the warm-up.
const WARM_TURN_MS: u64 = 1000;

/// One window of one mode.
#[derive(Clone, Default, Serialize)]
pub struct Sample {
    pub per_s: f64,
    pub cpu_us: f64,
    pub load_cpu_us: f64,
    pub sink_cpu_us: f64,
    pub p50_us: f64,
    pub p99_us: f64,
}

/// A window of each mode, in the order of the workload's modes.
pub type Round = Vec<Sample>;

/// The rounds of the same processes.
#[derive(Default, Serialize)]
pub struct Epoch {
    /// What each mode's services were linked with beside what they need; empty unless the workload is linked anew.
    pub linked: Vec<Vec<&'static str>>,
    pub rounds: Vec<Round>,
}

/// What is checked: that nothing was lost that was paid for.
#[derive(Clone, Default)]
pub struct Tally {
    pub otel_requests: u64,
    pub spans: u64,
    pub histories: u64,
    pub history_bytes: u64,
    pub events: u64,
}

impl Tally {
    /// A tracer that loses what it recorded did less work: then the comparison means nothing.
    pub fn verify(&self, workload: &Workload) -> Result<(), String> {
        let calls = workload.calls_per_request();
        let whole = 2 * calls * self.otel_requests; // a client and a server span per call
        let expected = whole / u64::from(workload.sample);
        // which requests are sampled is up to chance
        let tolerance = if workload.sample == 1 { 0.0 } else { 5.0 * (expected as f64 * 2.0 * calls as f64).sqrt() };
        let (least, most) = (0.95 * expected as f64 - tolerance, expected as f64 + tolerance);
        if workload.has(Mode::OpenTelemetry) && ((self.spans as f64) < least || self.spans as f64 > most) {
            return Err(format!("the sink has {} of {expected} spans", self.spans));
        }
        if workload.has(Mode::Faultloom) != (self.histories > 0) || self.events != self.histories * 4 * calls {
            return Err(format!("{} histories hold {} events", self.histories, self.events));
        }
        Ok(())
    }
}

pub fn run(workload: &Workload, trust_file: &str, order: &mut Shuffle) -> Result<(Vec<Epoch>, Tally), String> {
    let mut tally = Tally::default();
    let epochs =
        (0..workload.epochs).map(|_| epoch(workload, trust_file, order, &mut tally)).collect::<Result<_, _>>()?;
    tally.verify(workload)?;
    Ok((epochs, tally))
}

fn epoch(workload: &Workload, trust_file: &str, order: &mut Shuffle, tally: &mut Tally) -> Result<Epoch, String> {
    let linked = if workload.relinked { build::relink(workload.modes, order)? } else { Vec::new() };
    let mut sink = Worker::start(&build::sink(), &[])?;
    let http = sink.ask("http")?["address"].as_str().unwrap_or_default().to_owned();
    // whoever starts first, or is warmed up last, may have the better memory: that is drawn as well
    let mut started = Vec::new();
    for i in order.permutation(workload.modes.len()) {
        started.push((i, Set::start(workload, workload.modes[i], trust_file, &sink.address, &http)?));
    }
    started.sort_by_key(|(i, _)| *i);
    let mut sets: Vec<Set> = started.into_iter().map(|(_, set)| set).collect();
    // in turns: a process that waits for long is slow again (V8 throws code away, hosts reclaim pages)
    for _ in 0..workload.warm_up_ms.div_ceil(WARM_TURN_MS) {
        for i in order.permutation(sets.len()) {
            sets[i].window(&mut sink, 0, workload.warm_up_ms.min(WARM_TURN_MS), tally)?;
        }
    }
    let mut rounds = Vec::new();
    for _ in 0..workload.rounds {
        let mut round = vec![Sample::default(); sets.len()];
        for i in order.permutation(sets.len()) {
            round[i] = sets[i].window(&mut sink, workload.lead_ms, workload.window_ms, tally)?;
        }
        rounds.push(round);
    }
    tally.spans += number(&sink.ask("spans")?, "spans") as u64;
    Ok(Epoch { linked, rounds })
}

/// The processes of one mode.
struct Set {
    mode: Mode,
    services: Vec<Worker>,
    load: Worker,
}

impl Set {
    fn start(
        workload: &Workload,
        mode: Mode,
        trust_file: &str,
        grpc_sink: &str,
        http_sink: &str,
    ) -> Result<Set, String> {
        let environment = |language, service: &str, peers: &str| {
            let sample = workload.sample;
            let surroundings = Surroundings { service, peers, trust_file, grpc_sink, http_sink, sample };
            build::environment(language, mode, &surroundings)
        };
        let mut services: Vec<Worker> = Vec::new();
        let mut peers = String::new();
        for (depth, name) in workload.services.iter().enumerate().rev() {
            let mut argv = build::service(workload, mode);
            argv.push("node".to_owned());
            argv.extend(services.last().map(|next| next.address.clone()));
            if depth == 0 && workload.calls > 1 {
                argv.push(workload.calls.to_string());
            }
            let worker = Worker::start(&argv, &environment(workload.language, name, &peers))?;
            peers = format!("{}={name}", worker.address);
            services.push(worker);
        }
        let mut argv = build::load(mode);
        argv.push("load".to_owned());
        argv.extend(services.last().map(|first| first.address.clone()));
        argv.push(workload.services.len().to_string());
        argv.push(workload.calls_per_request().to_string());
        argv.push(workload.sample.to_string());
        let load = Worker::start(&argv, &environment(Language::Go, "load", &peers))?;
        Ok(Set { mode, services, load })
    }

    /// Loads this mode alone.
    fn window(&mut self, sink: &mut Worker, lead_ms: u64, window_ms: u64, tally: &mut Tally) -> Result<Sample, String> {
        let before = self.cpu()?;
        let sink_before = sink.cpu()?;
        let w = self.load.ask(&format!("run {lead_ms} {window_ms}"))?;
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lost_spans_and_incomplete_histories_fail_the_bench() {
        let chain = &Workload::all()[0];
        let good = Tally { otel_requests: 100, spans: 598, histories: 10, history_bytes: 2000, events: 120 };
        assert!(good.verify(chain).is_ok());
        assert!(Tally { spans: 500, ..good.clone() }.verify(chain).is_err());
        assert!(Tally { events: 116, ..good.clone() }.verify(chain).is_err());
        assert!(Tally { histories: 0, events: 0, ..good.clone() }.verify(chain).is_err());
        // where nothing is traced nothing may come
        let dormant = Workload::all().into_iter().find(|w| !w.has(Mode::Faultloom)).unwrap();
        assert!(Tally::default().verify(&dormant).is_ok());
        assert!(good.verify(&dormant).is_err());
        // one in four, give or take
        let quarter = Workload { sample: 4, ..chain.clone() };
        let sampled = Tally { otel_requests: 40_000, spans: 60_300, ..good.clone() };
        assert!(sampled.verify(&quarter).is_ok());
        assert!(Tally { spans: 30_000, ..sampled }.verify(&quarter).is_err());
    }
}
