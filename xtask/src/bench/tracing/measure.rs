//! Measures a workload in epochs, rounds and windows.
//!
//! The processes of all modes run during a whole epoch. One mode is loaded at a time, in short windows whose order is
//! shuffled in each round. Only figures of the same round are compared. Each epoch starts new processes, because the
//! memory layout of a process affects its speed and would otherwise appear as a difference between modes.

use super::build::{self, TracingConfig};
use super::worker::{Worker, number};
use super::workload::{Language, Mode, Workload};
use crate::bench::statistics::Shuffle;
use serde::Serialize;

/// Duration of one warm-up window.
const WARM_UP_WINDOW_MS: u64 = 1000;

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

/// One window of each mode, in the order of the workload's modes.
pub type Round = Vec<Sample>;

/// Rounds that were measured with the same processes.
#[derive(Default, Serialize)]
pub struct Epoch {
    /// Tags of the extra packages linked into each mode's services. Empty unless the workload is relinked.
    pub linked: Vec<Vec<&'static str>>,
    pub rounds: Vec<Round>,
}

/// Counts of recorded data, to verify that no tracer lost any.
#[derive(Clone, Default)]
pub struct Tally {
    pub otel_requests: u64,
    pub spans: u64,
    pub histories: u64,
    pub history_bytes: u64,
    pub events: u64,
}

impl Tally {
    /// Fails if data is missing. A tracer that drops data does less work, which makes the comparison invalid.
    pub fn verify(&self, workload: &Workload) -> Result<(), String> {
        let calls = workload.calls_per_request();
        let unsampled = 2 * calls * self.otel_requests; // a client and a server span per call
        let expected = unsampled / u64::from(workload.sample);
        // sampling is random: five standard deviations
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
    let http = sink.request("http")?["address"].as_str().unwrap_or_default().to_owned();
    // the order of starts and warm-ups affects memory layout, so it is random as well
    let mut started = Vec::new();
    for i in order.permutation(workload.modes.len()) {
        started.push((i, Set::start(workload, workload.modes[i], trust_file, &sink.address, &http)?));
    }
    started.sort_by_key(|(i, _)| *i);
    let mut sets: Vec<Set> = started.into_iter().map(|(_, set)| set).collect();
    // modes alternate, because a process that is idle for long gets slow again (V8 discards code, hosts reclaim pages)
    for _ in 0..workload.warm_up_ms.div_ceil(WARM_UP_WINDOW_MS) {
        for i in order.permutation(sets.len()) {
            sets[i].window(&mut sink, 0, workload.warm_up_ms.min(WARM_UP_WINDOW_MS), tally)?;
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
    tally.spans += number(&sink.request("spans")?, "spans") as u64;
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
            let config = TracingConfig { service, peers, trust_file, grpc_sink, http_sink, sample };
            build::environment(language, mode, &config)
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

    /// Runs one window in which only this mode has load.
    fn window(&mut self, sink: &mut Worker, lead_ms: u64, window_ms: u64, tally: &mut Tally) -> Result<Sample, String> {
        let before = self.cpu()?;
        let sink_before = sink.cpu()?;
        let w = self.load.request(&format!("run {lead_ms} {window_ms}"))?;
        if self.mode == Mode::OpenTelemetry {
            for worker in self.services.iter_mut().chain([&mut self.load]) {
                worker.request("flush")?; // the cost of the export belongs to this window
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
        // an untraced workload must record nothing
        let dormant = Workload::all().into_iter().find(|w| !w.has(Mode::Faultloom)).unwrap();
        assert!(Tally::default().verify(&dormant).is_ok());
        assert!(good.verify(&dormant).is_err());
        // about one in four
        let quarter = Workload { sample: 4, ..chain.clone() };
        let sampled = Tally { otel_requests: 40_000, spans: 60_300, ..good.clone() };
        assert!(sampled.verify(&quarter).is_ok());
        assert!(Tally { spans: 30_000, ..sampled }.verify(&quarter).is_err());
    }
}
