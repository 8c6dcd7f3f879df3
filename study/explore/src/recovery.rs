//! Services that crash while a sweep runs: they are restarted, and each case that met the crash is sent once more.
//!
//! Many cases are in flight when a service dies, and all of them fail. One of them detects the crash and has the
//! service restarted; the others wait for that and recognize the crash by comparing its time with their own start. A
//! restarted service counts as ready once the plain request succeeds: its callers may hold dead connections for a
//! while. If a service crashes again with the same faults, and not without them, the faults caused the crash and the
//! case fails.

use crate::assess::has_unplanned_failure;
use crate::oracle::Oracle;
use model::{Failure, Fault};
use requests::{Reply, RequestSpec, Sender};
use std::future::Future;
use std::path::PathBuf;
use std::pin::Pin;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::sync::Mutex;

/// Pauses before each check for a crash. A process's connections break before its parent can detect its death: on a
/// busy machine, more than 25 ms before.
const CRASH_CHECKS: [Duration; 4] =
    [Duration::ZERO, Duration::from_millis(5), Duration::from_millis(20), Duration::from_millis(150)];
/// How long callers may take to reconnect to a restarted service.
const RECONNECT_MAX: Duration = Duration::from_secs(10);
const RECONNECT_PAUSE: Duration = Duration::from_millis(20);

/// Controls the processes of a target.
pub trait TargetControl: Send + Sync {
    /// Restarts the services that have crashed and returns their names; empty if none had.
    fn restart_crashed(&self) -> Pin<Box<dyn Future<Output = Result<Vec<String>, Failure>> + Send + '_>>;

    /// Why a service may not be stopped.
    fn can_stop(&self, _service: &str) -> Result<(), String> {
        Err("something else runs the target, so nothing of it is stopped".to_owned())
    }

    /// Kills a service, which stays stopped until [`TargetControl::start`].
    fn stop<'a>(&'a self, service: &'a str) -> Pin<Box<dyn Future<Output = Result<(), Failure>> + Send + 'a>> {
        Box::pin(async move { self.can_stop(service).map_err(Failure::environment) })
    }

    /// Starts a stopped service and waits until it is healthy.
    fn start<'a>(&'a self, service: &'a str) -> Pin<Box<dyn Future<Output = Result<(), Failure>> + Send + 'a>> {
        Box::pin(async move { self.can_stop(service).map_err(Failure::environment) })
    }

    /// Whether it can detect crashes at all.
    fn detects_crashes(&self) -> bool {
        true
    }

    /// The log of each service that has one. A service that is restarted continues its log.
    fn logs(&self) -> Vec<(String, PathBuf)> {
        Vec::new()
    }
}

/// A target that this tool did not start: its processes are unknown.
pub struct ExternalTarget;

impl TargetControl for ExternalTarget {
    fn restart_crashed(&self) -> Pin<Box<dyn Future<Output = Result<Vec<String>, Failure>> + Send + '_>> {
        Box::pin(async { Ok(Vec::new()) })
    }

    fn detects_crashes(&self) -> bool {
        false
    }
}

/// Sends requests and recovers from crashes. Shared by all workers of a sweep.
pub struct CrashRecovery {
    target: Arc<dyn TargetControl>,
    restarts: Mutex<Restarts>,
    oracle: Oracle,
}

/// Restarts of services during the sweep.
#[derive(Default)]
struct Restarts {
    last: Option<Instant>,
    /// Why a service could not be restarted. From then on every case with a failed call fails with it: it must not be
    /// stored as completed, since its reply is not that of a healthy target.
    failure: Option<Failure>,
}

impl Restarts {
    fn check(&self) -> Result<(), Failure> {
        self.failure.clone().map_or(Ok(()), Err)
    }
}

/// The result of sending one case.
pub struct SendResult {
    pub reply: Reply,
    /// A service crashed meanwhile, so the request was sent again.
    pub repeated: bool,
    /// Services whose crash was detected by this request.
    pub crashed: Vec<String>,
    /// Services that crashed both times with these faults and not without them.
    pub crashed_by_faults: Vec<String>,
}

impl SendResult {
    fn without_crash(reply: Reply) -> SendResult {
        SendResult { reply, repeated: false, crashed: Vec::new(), crashed_by_faults: Vec::new() }
    }
}

impl CrashRecovery {
    pub fn new(target: Arc<dyn TargetControl>) -> CrashRecovery {
        CrashRecovery { target, restarts: Mutex::default(), oracle: Oracle::default() }
    }

    /// The same with an oracle, whose checks of calls and state run after each request.
    pub fn with_oracle(mut self, oracle: &Oracle) -> CrashRecovery {
        self.oracle = oracle.clone();
        self
    }

    pub(crate) fn logs(&self) -> Vec<(String, PathBuf)> {
        self.target.logs()
    }

    /// Sends once. If a service of the target crashed meanwhile, restarts it and repeats the request once.
    pub async fn send(&self, sender: &mut Sender, spec: &RequestSpec, faults: &[Fault]) -> Result<SendResult, Failure> {
        let mut sent = self.send_recovering(sender, spec, faults).await?;
        self.oracle.apply(spec, faults, &mut sent.reply).await;
        Ok(sent)
    }

    async fn send_recovering(
        &self,
        sender: &mut Sender,
        spec: &RequestSpec,
        faults: &[Fault],
    ) -> Result<SendResult, Failure> {
        let begin = Instant::now();
        let reply = sender.send(spec, faults).await?;
        if !has_unplanned_failure(&reply) || !self.target.detects_crashes() {
            return Ok(SendResult::without_crash(reply));
        }
        for pause in CRASH_CHECKS {
            tokio::time::sleep(pause).await;
            let mut restarts = self.restarts.lock().await;
            restarts.check()?;
            let restarted_meanwhile = restarts.last.is_some_and(|at| at > begin);
            let crashed = if restarted_meanwhile { Vec::new() } else { self.restart_crashed(&mut restarts).await? };
            if !crashed.is_empty() {
                tracing::info!(?crashed, faults = fault_texts(faults), "services crashed and were restarted");
                wait_for_reconnects(sender, spec).await?;
                restarts.last = Some(Instant::now());
            }
            drop(restarts);
            if restarted_meanwhile || !crashed.is_empty() {
                return self.send_again(sender, spec, faults, crashed).await;
            }
        }
        Ok(SendResult::without_crash(reply))
    }

    /// Sends once, to reproduce a crash that [`CrashRecovery::send`] attributed to these faults: services that crash
    /// again are restarted, and the request is not repeated. A supervisor gives a service up that crashes too often.
    pub async fn send_once(
        &self,
        sender: &mut Sender,
        spec: &RequestSpec,
        faults: &[Fault],
    ) -> Result<SendResult, Failure> {
        let mut result = SendResult::without_crash(sender.send(spec, faults).await?);
        if !has_unplanned_failure(&result.reply) || !self.target.detects_crashes() {
            self.oracle.apply(spec, faults, &mut result.reply).await;
            return Ok(result);
        }
        for pause in CRASH_CHECKS {
            tokio::time::sleep(pause).await;
            let mut restarts = self.restarts.lock().await;
            let crashed = self.restart_crashed(&mut restarts).await?;
            if !crashed.is_empty() {
                wait_for_reconnects(sender, spec).await?;
                restarts.last = Some(Instant::now());
                result.crashed.clone_from(&crashed);
                result.crashed_by_faults = crashed;
                break;
            }
        }
        self.oracle.apply(spec, faults, &mut result.reply).await;
        Ok(result)
    }

    pub(crate) fn can_stop(&self, service: &str) -> Result<(), String> {
        self.target.can_stop(service)
    }

    pub(crate) async fn stop(&self, service: &str) -> Result<(), Failure> {
        self.target.stop(service).await
    }

    /// Starts stopped services, all of them whatever happens, and waits until their callers have reconnected.
    pub(crate) async fn start_again(
        &self,
        services: &[String],
        sender: &mut Sender,
        spec: &RequestSpec,
    ) -> Result<(), Failure> {
        let mut first = Ok(());
        for service in services {
            let started = self.target.start(service).await;
            first = first.and(started);
        }
        first?;
        wait_for_reconnects(sender, spec).await
    }

    async fn restart_crashed(&self, restarts: &mut Restarts) -> Result<Vec<String>, Failure> {
        restarts.check()?;
        self.target.restart_crashed().await.inspect_err(|failure| restarts.failure = Some(failure.clone()))
    }

    /// Repeats the request after a crash. If a service crashes again, and not when the plain request is sent, the
    /// faults are the cause. Only the request that detected both crashes can conclude this: others may have met a crash
    /// that they did not cause.
    async fn send_again(
        &self,
        sender: &mut Sender,
        spec: &RequestSpec,
        faults: &[Fault],
        crashed: Vec<String>,
    ) -> Result<SendResult, Failure> {
        tracing::debug!(faults = fault_texts(faults), "sending the case again");
        let reply = sender.send(spec, faults).await?;
        let mut result = SendResult { reply, repeated: true, crashed, crashed_by_faults: Vec::new() };
        if !has_unplanned_failure(&result.reply) {
            return Ok(result);
        }
        self.restarts.lock().await.check()?;
        if faults.is_empty() || result.crashed.is_empty() {
            return Ok(result);
        }
        for pause in CRASH_CHECKS {
            tokio::time::sleep(pause).await;
            let mut restarts = self.restarts.lock().await;
            let second = self.restart_crashed(&mut restarts).await?;
            if second.is_empty() {
                continue;
            }
            wait_for_reconnects(sender, spec).await?;
            restarts.last = Some(Instant::now());
            // the wait has sent the plain request: a service that is down now crashes without these faults as well
            let without = self.restart_crashed(&mut restarts).await?;
            let both = second.iter().filter(|name| result.crashed.contains(name) && !without.contains(name));
            result.crashed_by_faults = both.cloned().collect();
            tracing::info!(crashed = ?second, by_faults = ?result.crashed_by_faults, "services crashed again");
            result.crashed.extend(second);
            break;
        }
        Ok(result)
    }
}

/// For diagnostics.
pub(crate) fn fault_texts(faults: &[Fault]) -> String {
    faults.iter().map(ToString::to_string).collect::<Vec<_>>().join("; ")
}

/// Repeats the request without faults until no call fails. On timeout it returns all the same; the case then records
/// the failure.
async fn wait_for_reconnects(sender: &mut Sender, spec: &RequestSpec) -> Result<(), Failure> {
    let begin = Instant::now();
    while has_unplanned_failure(&sender.send(spec, &[]).await?) && begin.elapsed() < RECONNECT_MAX {
        tokio::time::sleep(RECONNECT_PAUSE).await;
    }
    Ok(())
}
