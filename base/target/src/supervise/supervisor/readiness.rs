//! Waiting for a service that was started, and why it did not become healthy.

use super::Inner;
use crate::health::ALIVE_FOR;
use crate::supervise::event::Event;
use crate::supervise::service_log::ServiceLog;
use crate::supervise::service_process::{Condition, ExitStatus};
use crate::supervise::start_progress::StartProgress;
use model::Failure;
use std::time::Duration;

/// Time limit of one health check.
const CHECK_TIMEOUT: Duration = Duration::from_secs(1);
/// How often it is checked whether a late service is still busy.
const BUSY_CHECKED_EVERY: Duration = Duration::from_secs(1);
/// First and longest pause between health checks: most services are ready in a few hundred milliseconds.
const CHECK_PAUSES: (Duration, Duration) = (Duration::from_millis(20), Duration::from_millis(200));

impl Inner {
    /// Waits until the service is healthy, or has been alive for a while if it has no check.
    ///
    /// It gets three times its `start_timeout_s` while it is busy (see [`StartProgress`]).
    ///
    /// Errors: it exited, or did not become healthy in time; with the end of its log.
    pub(super) async fn wait_healthy(&self, at: usize) -> Result<(), Failure> {
        let service = &self.target.services()[at];
        let started = self.running().services[at].since().0;
        let (mut pause, pause_max) = CHECK_PAUSES;
        let mut observed = String::from("nothing yet");
        let mut limit = service.start_timeout;
        let own = self.running().services[at].process().map(|process| (process.log.clone(), process.id.pid));
        let mut progress = own.as_ref().map(|(log, group)| StartProgress::new(log, *group));
        loop {
            if let (Some(progress), Some((log, group))) = (&mut progress, &own) {
                progress.sample(log, *group);
            }
            let is_busy = progress.as_ref().is_some_and(StartProgress::is_active);
            if limit.saturating_sub(started.elapsed()).is_zero() {
                if !is_busy || limit >= service.longest_start() {
                    return Err(self.never_healthy(at, started.elapsed(), &observed));
                }
                if limit == service.start_timeout {
                    let (service, longest) = (service.name.clone(), service.longest_start());
                    let still = Event::StillStarting { service, after: started.elapsed(), longest };
                    (self.options.on_event)(&still);
                }
                limit = (started.elapsed() + BUSY_CHECKED_EVERY).min(service.longest_start());
            }
            let left = limit.saturating_sub(started.elapsed());
            let result = service.health.check(left.min(CHECK_TIMEOUT), &self.target.tls).await;
            let condition = self.running().services[at].poll();
            if let Condition::Exited(status) = condition {
                return Err(self.exited_at_start(at, status));
            }
            let alive_long_enough = service.health != crate::Health::Alive || started.elapsed() >= ALIVE_FOR;
            match result {
                Ok(()) if alive_long_enough => break,
                Ok(()) => observed = "alive".into(),
                Err(state) => observed = state,
            }
            tracing::debug!(service = service.name, observed, "not healthy yet");
            tokio::time::sleep(pause.min(left)).await;
            pause = (pause * 3 / 2).min(pause_max);
        }
        self.running().services[at].set_healthy();
        tracing::info!(service = service.name, seconds = started.elapsed().as_secs_f64(), "service healthy");
        (self.options.on_event)(&Event::Healthy { service: service.name.clone(), after: started.elapsed() });
        Ok(())
    }

    pub(super) fn exited_at_start(&self, at: usize, status: ExitStatus) -> Failure {
        let service = &self.target.services()[at];
        let log = self.running().services[at].log().map(ServiceLog::tail_text).unwrap_or_default();
        let next = match status {
            ExitStatus::Code(0) => "its command must stay in the foreground; start it without a daemon option".into(),
            _ => format!("try it by hand: cd {} && {}", service.directory.display(), service.command_line()),
        };
        Failure::environment(format!("service '{}' exited at start: {status}", service.name)).why(log).next(next)
    }

    fn never_healthy(&self, at: usize, after: Duration, observed: &str) -> Failure {
        let service = &self.target.services()[at];
        let Some(log) = self.running().services[at].log().map(ServiceLog::tail_text) else {
            return Failure::environment(format!(
                "service '{}' is not healthy and is not started by this tool",
                service.name
            ))
            .why(format!("its check ({}), last result: {observed}", service.health))
            .next("start it as usual, or give it a `command` in the target file");
        };
        let limit = service.start_timeout;
        // the time itself is of interest only if it was extended
        let extended = if after < limit + CHECK_TIMEOUT { limit } else { Duration::from_secs(after.as_secs()) };
        let seconds = extended.as_secs_f64();
        Failure::environment(format!("service '{}' did not become healthy within {seconds} s", service.name))
            .why(format!("its check ({}), last result: {observed}\n{}", service.health, log))
            .next("if it only starts slowly, raise start_timeout_s; otherwise correct its `health` or the service")
    }
}
