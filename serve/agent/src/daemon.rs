//! The daemon's loop, which runs until it is stopped: collect, build a window, write it.
//!
//! Everything runs in one thread, because Linux capabilities belong to a thread and collecting takes milliseconds. Only
//! the fleet's store, which may be slow or unavailable, has its own task.

use crate::backoff::Backoff;
use crate::clock::WindowClock;
use crate::fleet_writer::FleetWriter;
use crate::local_writer::LocalWriter;
use crate::metrics::{self, Metrics};
use crate::stores::WindowStore;
use flows::{Observation, Source, Window};
use model::Failure;
use std::future::Future;
use std::path::PathBuf;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};
use tokio::time::{MissedTickBehavior, interval_at};
use uuid::Uuid;

#[derive(Clone, Debug)]
pub struct Settings {
    pub interval: Duration,
    /// Stop after one window.
    pub once: bool,
    /// Directory of the counters' file.
    pub state: PathBuf,
}

/// Interval between removals of expired data.
const RETENTION_INTERVAL: Duration = Duration::from_secs(3_600);

/// Collects the data of the daemon.
pub trait Observer {
    fn source(&self) -> Source;
    /// Returns the activity since the last call. Blocks while it reads from the kernel: about 40 ms at 20,000
    /// connections.
    fn collect(&mut self) -> Result<Observation, Failure>;
    /// Announces that the next call of [`Observer::collect`] is the last one, so nothing may wait for a later one.
    fn prepare_last(&mut self) {}
    /// Returns unused memory to the system. Called before and after a window is written, which allocates memory too.
    fn trim_memory(&mut self) {}
}

/// Receives the daemon's output.
pub trait Reporter {
    /// Called for every window before it is written.
    fn window(&mut self, window: &Window);
    /// A failure or a recovery, for the operator.
    fn message(&mut self, text: &str);
}

pub struct Daemon<O, S, R> {
    observer: O,
    writer: LocalWriter<S>,
    fleet: Option<FleetWriter>,
    reporter: R,
    settings: Settings,
    agent: Uuid,
    sequence: u64,
    clock: WindowClock,
    started: Instant,
    collecting: Backoff,
    writing_metrics: Backoff,
    removing_expired: Backoff,
    last_removal: Option<Instant>,
    metrics: Metrics,
}

impl<O: Observer, S: WindowStore, R: Reporter> Daemon<O, S, R> {
    pub fn new(observer: O, store: S, fleet: Option<FleetWriter>, settings: Settings, reporter: R) -> Daemon<O, S, R> {
        Daemon {
            observer,
            writer: LocalWriter::new(store),
            fleet,
            reporter,
            settings,
            agent: Uuid::now_v7(),
            sequence: 0,
            clock: WindowClock::new(wall_ms(), Duration::ZERO),
            started: Instant::now(),
            collecting: Backoff::new("collecting this host's connections"),
            writing_metrics: Backoff::new("the counters' file"),
            removing_expired: Backoff::new("removing expired data"),
            last_removal: None,
            metrics: Metrics::default(),
        }
    }

    /// Runs until `stop` is ready. Then collects a last window and gives the fleet's store some seconds for the windows
    /// that wait. Returns the reporter.
    pub async fn run(mut self, stop: impl Future<Output = ()>) -> R {
        let first = if self.settings.once { self.settings.interval } else { Duration::ZERO };
        let mut ticks = interval_at(tokio::time::Instant::now() + first, self.settings.interval);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut stop = std::pin::pin!(stop);
        loop {
            tokio::select! {
                _ = ticks.tick() => self.run_once().await,
                () = &mut stop => {
                    self.observer.prepare_last();
                    self.run_once().await;
                    break;
                }
            }
            if self.settings.once {
                break;
            }
        }
        let messages = self.writer.flush().await;
        self.report(messages);
        if let Some(fleet) = &mut self.fleet {
            let messages = fleet.finish().await;
            self.report(messages);
        }
        self.write_metrics();
        self.reporter
    }

    async fn run_once(&mut self) {
        // memory that the store's own thread freed after the last window
        self.observer.trim_memory();
        let start = Instant::now();
        let observation = self.observer.collect();
        let duration = start.elapsed();
        self.metrics.collect_time += duration;
        match observation {
            Ok(observation) => {
                tracing::debug!(?duration, flows = observation.flows.len(), losses = ?observation.losses, "collected");
                let message = self.collecting.record_success();
                self.report(message);
                self.write(observation).await;
            }
            Err(failure) => {
                tracing::debug!(?duration, what = failure.what, why = failure.why, "collection failed");
                self.metrics.collect_failures += 1;
                let message = self.collecting.record_failure(&failure);
                self.report(message);
            }
        }
        self.remove_expired().await;
        self.write_metrics();
        self.observer.trim_memory();
    }

    async fn write(&mut self, observation: Observation) {
        let window = self.window(observation);
        self.observer.trim_memory();
        self.reporter.window(&window);
        if let Some(fleet) = &mut self.fleet {
            let messages = fleet.write(window.clone());
            self.report(messages);
        }
        let messages = self.writer.write(window).await;
        self.report(messages);
    }

    fn report(&mut self, messages: impl IntoIterator<Item = String>) {
        messages.into_iter().for_each(|message| self.reporter.message(&message));
    }

    fn window(&mut self, observation: Observation) -> Window {
        self.sequence += 1;
        let (from_ms, to_ms) = self.clock.window(wall_ms(), self.started.elapsed());
        let metrics = &mut self.metrics;
        metrics.windows += 1;
        metrics.flows = observation.flows.len() as u64;
        metrics.opened += observation.flows.iter().map(|flow| flow.counts.opened).sum::<u64>();
        metrics.last_window_ms = to_ms;
        metrics.losses.add(&observation.losses);
        metrics.clock_jumps = self.clock.jumps;
        Window {
            agent: self.agent,
            sequence: self.sequence,
            from_ms,
            to_ms,
            source: self.observer.source(),
            host: observation.host,
            services: observation.services,
            processes: observation.processes,
            listeners: observation.listeners,
            flows: observation.flows,
            losses: observation.losses,
        }
    }

    async fn remove_expired(&mut self) {
        if self.last_removal.is_some_and(|last| last.elapsed() < RETENTION_INTERVAL) {
            return;
        }
        self.last_removal = Some(Instant::now());
        let message = match self.writer.store().remove_expired(wall_ms()).await {
            Ok(()) => self.removing_expired.record_success(),
            Err(failure) => self.removing_expired.record_failure(&failure),
        };
        self.report(message);
    }

    fn write_metrics(&mut self) {
        let mut metrics = self.metrics.clone();
        metrics.write_time = self.writer.write_time();
        metrics.write_failures = self.writer.failures();
        metrics.losses.windows += self.writer.lost();
        if let Some(fleet) = &self.fleet {
            metrics.losses.windows += fleet.lost();
            metrics.fleet_failures = fleet.failures();
            metrics.spooled = fleet.waiting();
        }
        let text = metrics.text(self.observer.source(), &self.agent.to_string());
        let message = match metrics::write(&self.settings.state, &text) {
            Ok(()) => self.writing_metrics.record_success(),
            Err(e) => {
                let path = self.settings.state.join(metrics::FILE);
                let failure = Failure::environment(format!("cannot write {}", path.display())).why(e.to_string());
                self.writing_metrics.record_failure(&failure)
            }
        };
        self.report(message);
    }
}

fn wall_ms() -> i64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_millis() as i64)
}
