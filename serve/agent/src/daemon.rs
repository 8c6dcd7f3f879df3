//! The loop: look, make a window of it, keep it, until told to stop.
//!
//! Everything runs in one thread, because rights are given up per thread and looking takes milliseconds. Only the fleet's
//! store, which may be slow or far away, has a task of its own.

use crate::clock::WindowClock;
use crate::fleet::Fleet;
use crate::keeper::{Keeper, Shelf};
use crate::metrics::{self, Metrics};
use crate::observer::Observer;
use crate::trouble::Trouble;
use flows::{Seen, Window};
use model::Failure;
use std::future::Future;
use std::path::PathBuf;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};
use tokio::time::{MissedTickBehavior, interval_at};
use uuid::Uuid;

#[derive(Clone, Debug)]
pub struct Settings {
    pub interval: Duration,
    /// Takes one window and ends.
    pub once: bool,
    /// Where counters are written to.
    pub state: PathBuf,
}

/// How often old windows are removed.
const TIDY: Duration = Duration::from_secs(3_600);

/// What the daemon says while it runs.
pub trait Audience {
    /// Every window, before it is kept.
    fn window(&mut self, window: &Window);
    /// Trouble and its end, for the operator.
    fn tell(&mut self, words: &str);
}

/// This host's store: also forgets what is old.
pub trait Store: Shelf {
    fn tidy(&self, now_ms: i64) -> impl Future<Output = Result<(), Failure>> + Send;
}

pub struct Daemon<O, S: Store, A> {
    observer: O,
    keeper: Keeper<S>,
    fleet: Option<Fleet>,
    audience: A,
    settings: Settings,
    agent: Uuid,
    sequence: u64,
    clock: WindowClock,
    started: Instant,
    looking: Trouble,
    counting: Trouble,
    tidying: Trouble,
    tidied: Option<Instant>,
    metrics: Metrics,
}

impl<O: Observer, S: Store, A: Audience> Daemon<O, S, A> {
    pub fn new(observer: O, store: S, fleet: Option<Fleet>, settings: Settings, audience: A) -> Daemon<O, S, A> {
        Daemon {
            observer,
            keeper: Keeper::new(store),
            fleet,
            audience,
            settings,
            agent: Uuid::now_v7(),
            sequence: 0,
            clock: WindowClock::new(wall_ms(), Duration::ZERO),
            started: Instant::now(),
            looking: Trouble::with("looking at this host's connections"),
            counting: Trouble::with("the file of counters"),
            tidying: Trouble::with("forgetting what is old"),
            tidied: None,
            metrics: Metrics::default(),
        }
    }

    /// Runs until `stop` is ready. Then it looks a last time, so that what happened until then is kept, and gives the
    /// fleet's store some seconds to take what waits.
    pub async fn run(mut self, stop: impl Future<Output = ()>) -> Result<A, Failure> {
        let first = if self.settings.once { self.settings.interval } else { Duration::ZERO };
        let mut ticks = interval_at(tokio::time::Instant::now() + first, self.settings.interval);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut stop = std::pin::pin!(stop);
        loop {
            tokio::select! {
                _ = ticks.tick() => self.turn().await,
                () = &mut stop => {
                    self.turn().await;
                    break;
                }
            }
            if self.settings.once {
                break;
            }
        }
        if let Some(told) = self.keeper.write().await {
            self.audience.tell(&told);
        }
        if let Some(fleet) = self.fleet.take() {
            let (told, spooled) = fleet.finish().await;
            self.metrics.spooled = spooled;
            told.iter().for_each(|words| self.audience.tell(words));
        }
        self.count();
        Ok(self.audience)
    }

    async fn turn(&mut self) {
        // what the store's own thread freed after the last turn
        self.observer.rest();
        let begin = Instant::now();
        let seen = self.observer.look();
        self.metrics.look += begin.elapsed();
        let told = match &seen {
            Ok(_) => self.looking.worked(),
            Err(failure) => {
                self.metrics.look_failures += 1;
                self.looking.failed(failure)
            }
        };
        self.tell(told);
        if let Ok(seen) = seen {
            let window = self.window(seen);
            self.observer.rest();
            self.audience.window(&window);
            if let Some(fleet) = &mut self.fleet {
                let told = fleet.keep(window.clone());
                self.tell(told);
            }
            let told = self.keeper.keep(window).await;
            self.tell(told);
        }
        self.tidy().await;
        self.count();
        self.observer.rest();
    }

    fn tell(&mut self, words: impl IntoIterator<Item = String>) {
        words.into_iter().for_each(|words| self.audience.tell(&words));
    }

    fn window(&mut self, seen: Seen) -> Window {
        self.sequence += 1;
        let (from_ms, to_ms) = self.clock.window(wall_ms(), self.started.elapsed());
        let metrics = &mut self.metrics;
        metrics.windows += 1;
        metrics.flows = seen.flows.len() as u64;
        metrics.opened += seen.flows.iter().map(|flow| flow.counts.opened).sum::<u64>();
        metrics.last_window_ms = to_ms;
        metrics.losses.add(&seen.losses);
        metrics.clock_jumps = self.clock.jumps;
        Window {
            agent: self.agent,
            sequence: self.sequence,
            from_ms,
            to_ms,
            source: self.observer.source(),
            host: seen.host,
            services: seen.services,
            processes: seen.processes,
            listeners: seen.listeners,
            flows: seen.flows,
            losses: seen.losses,
        }
    }

    async fn tidy(&mut self) {
        if self.tidied.is_some_and(|last| last.elapsed() < TIDY) {
            return;
        }
        self.tidied = Some(Instant::now());
        let told = match self.keeper.shelf().tidy(wall_ms()).await {
            Ok(()) => self.tidying.worked(),
            Err(failure) => self.tidying.failed(&failure),
        };
        self.tell(told);
    }

    fn count(&mut self) {
        self.metrics.keep = self.keeper.spent;
        self.metrics.keep_failures = self.keeper.failures;
        let mut shown = self.metrics.clone();
        shown.losses.windows += self.keeper.lost_total;
        if let Some(fleet) = &self.fleet {
            shown.losses.windows += fleet.lost();
            shown.fleet_failures = fleet.failures();
            shown.spooled = fleet.waiting();
            self.metrics.fleet_failures = shown.fleet_failures;
        }
        let text = shown.text(self.observer.source(), &self.agent.to_string());
        let told = match metrics::write(&self.settings.state, &text) {
            Ok(()) => self.counting.worked(),
            Err(e) => {
                let path = self.settings.state.join(metrics::FILE);
                let failure = Failure::environment(format!("cannot write {}", path.display())).why(e.to_string());
                self.counting.failed(&failure)
            }
        };
        self.tell(told);
    }
}

fn wall_ms() -> i64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_millis() as i64)
}
