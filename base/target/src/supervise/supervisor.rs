//! Starts a target's services, monitors them, and ends all of them in every case.
//!
//! Invariant: from the first service on, a reaper process has a list of everything started (`reaper.rs`), and
//! `up.json` holds it for other terminals (`up_state.rs`). Every way out goes through one function,
//! [`Inner::end_all`]: `stop`, a failed start, a start that is canceled (its future is dropped), `Drop`. The reaper
//! handles SIGKILL. A reaper that is killed itself is replaced at once (`reaper_monitor.rs`).
//!
//! A service that exits by itself is data, not an error: [`Supervisor::crashed`] reports it, [`Supervisor::restart`]
//! starts it again, [`Supervisor::give_up`] does not.

mod readiness;

use crate::cleanup::owned_processes::{GRACE, OwnedProcesses};
use crate::cleanup::reaper::{Reaper, ReaperCommand};
use crate::file::address::Address;
use crate::file::target::Target;
use crate::sdk::SdkPaths;
use crate::state::atomic_file::{self, cannot_write};
use crate::state::lock::lock;
use crate::state::trust_file::{self, Trust, hex, random};
use crate::state::up_state::{ServiceRecord, UpState, read_state, state_file, would_not_end};
use crate::state::{incomplete_up, status_dir, stop_request};
use crate::supervise::event::Event;
use crate::supervise::instance::ServiceInstance;
use crate::supervise::ports;
use crate::supervise::reaper_monitor::{self, MonitoredReaper};
use crate::supervise::service_process::{Condition, ExitStatus, ServiceProcess, SharedEnvironment};
use model::{Failure, Family};
use process::{ProcessId, boot_id};
use std::collections::HashMap;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, mpsc};
use std::time::{Duration, Instant, SystemTime};

pub type OnEvent = Arc<dyn Fn(&Event) + Send + Sync>;

#[derive(Clone)]
pub struct StartOptions {
    /// A permanent file with trust settings, for services that something else starts; created if missing. `None`: new
    /// keys for this `up` only.
    pub kept_trust: Option<PathBuf>,
    /// For logs, trust file and state; created if missing. One `up` at a time.
    pub state_dir: PathBuf,
    pub sdks: SdkPaths,
    /// The command that runs [`crate::reaper_main`].
    pub reaper: ReaperCommand,
    /// Called from several threads; must neither block nor call the supervisor.
    pub on_event: OnEvent,
}

/// A running target. Dropping it stops everything too, but blocks for as long as that takes (up to 18 s).
pub struct Supervisor {
    inner: Arc<Inner>,
}

/// A service that exited by itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Crash {
    pub service: String,
    pub status: ExitStatus,
    /// Last lines of its log, at most 10.
    pub log_tail: Vec<String>,
    pub log: PathBuf,
}

#[derive(Clone, Debug)]
pub struct ServiceState {
    pub name: String,
    /// `None`: attached, started by something else.
    pub pid: Option<u32>,
    pub condition: Condition,
    /// Since its latest start, also if it has exited.
    pub uptime: Duration,
    pub addresses: Vec<Address>,
    pub log: Option<PathBuf>,
    pub support: bool,
}

struct Inner {
    target: Target,
    options: StartOptions,
    mark: String,
    /// Receives the pid of each reaper that has ended.
    reaper_ends: mpsc::Sender<u32>,
    trust: Trust,
    trust_file: PathBuf,
    /// The status folder of the SDKs; emptied at the start, removed at the end.
    status: PathBuf,
    peers: String,
    running: Mutex<Running>,
    /// One restart at a time.
    restarts: tokio::sync::Mutex<()>,
}

struct Running {
    /// In the order of the target's services; shorter while they are being started.
    services: Vec<ServiceInstance>,
    /// How often each service was started again, by its position.
    restarts: HashMap<usize, u32>,
    reaper: Option<Reaper>,
    /// Held as long as something may run; released by the kernel if we are killed.
    lock: Option<File>,
}

impl Supervisor {
    /// Starts all services in parallel and waits until each is healthy.
    ///
    /// Dropping the future (Ctrl-C in a `select!`) stops what was started, blocking for up to 18 s.
    ///
    /// Errors: another `up` uses the folder, a port is in use, a program is missing, a service exits or does not become
    /// healthy in time, the disk is full. Everything that was started has been stopped.
    pub async fn start(target: Target, options: StartOptions) -> Result<Supervisor, Failure> {
        let (reaper_ends, ended) = mpsc::channel();
        let prepared = tokio::task::spawn_blocking(move || Inner::prepare(target, options, reaper_ends)).await;
        let inner = prepared.unwrap_or_else(|error| Err(bug("preparing the start failed", &error.to_string())))?;
        // From here on, every return from this function stops everything.
        let supervisor = Supervisor { inner: Arc::new(inner) };
        reaper_monitor::start(&supervisor.inner, ended);
        let outcome = supervisor.start_services().await;
        match outcome {
            Ok(()) => Ok(supervisor),
            Err(failure) => {
                let stopped = supervisor.stop().await;
                Err(match stopped {
                    Ok(()) => failure,
                    Err(left) => {
                        let why = [failure.why.clone().unwrap_or_default(), left.what, left.why.unwrap_or_default()];
                        failure.why(why.join("\n").trim().to_owned())
                    }
                })
            }
        }
    }

    async fn start_services(&self) -> Result<(), Failure> {
        for at in 0..self.inner.target.services().len() {
            self.inner.launch(at)?;
        }
        self.inner.write_state()?;
        let mut waits = tokio::task::JoinSet::new();
        for at in 0..self.inner.target.services().len() {
            let inner = self.inner.clone();
            waits.spawn(async move { inner.wait_healthy(at).await });
        }
        while let Some(waited) = waits.join_next().await {
            waited.unwrap_or_else(|error| Err(bug("waiting for health failed", &error.to_string())))?;
        }
        // A healthy service may have exited while others were starting.
        for at in 0..self.inner.target.services().len() {
            let condition = self.inner.running().services[at].poll();
            if let Condition::Exited(status) = condition {
                return Err(self.inner.exited_at_start(at, status));
            }
        }
        self.inner.write_state()
    }

    /// Sends SIGTERM to every service, after 3 s SIGKILL; removes the trust file and the state, keeps the logs. Does
    /// nothing when called again.
    ///
    /// Errors: a process that even SIGKILL does not end.
    pub async fn stop(&self) -> Result<(), Failure> {
        let inner = self.inner.clone();
        let task = tokio::task::spawn_blocking(move || inner.end_all());
        task.await.unwrap_or_else(|error| Err(bug("stopping failed", &error.to_string())))
    }

    /// All services in the order of the target file. Does not block.
    pub fn states(&self) -> Vec<ServiceState> {
        let mut running = self.inner.running();
        let services = self.inner.target.services().iter().zip(running.services.iter_mut());
        services
            .map(|(service, instance)| ServiceState {
                name: service.name.clone(),
                pid: instance.id().map(|id| id.pid),
                condition: instance.poll(),
                uptime: instance.since().0.elapsed(),
                addresses: service.listens.clone(),
                log: instance.log().map(|log| log.path.clone()),
                support: service.support,
            })
            .collect()
    }

    /// Services that have exited by themselves since the last call. One system call per service.
    pub fn crashed(&self) -> Vec<Crash> {
        let mut running = self.inner.running();
        let mut crashes = Vec::new();
        for (service, instance) in self.inner.target.services().iter().zip(running.services.iter_mut()) {
            if let Some((status, log)) = instance.take_crash() {
                tracing::warn!(service = service.name, %status, "service exited by itself");
                let (log_tail, log) = (log.tail(), log.path.clone());
                crashes.push(Crash { service: service.name.clone(), status, log_tail, log });
            }
        }
        crashes
    }

    /// Ends the remaining processes of a service, starts it again and waits until it is healthy. Its log is continued.
    ///
    /// Errors: as for [`Supervisor::start`]; the other services keep running.
    pub async fn restart(&self, name: &str) -> Result<(), Failure> {
        let services = self.inner.target.services();
        let Some(at) = services.iter().position(|service| service.name == name) else {
            let names: Vec<&str> = services.iter().map(|service| service.name.as_str()).collect();
            return Err(Failure::request(format!("no service is named '{name}'"))
                .why(format!("services: {}", names.join(", "))));
        };
        if services[at].is_attached() {
            return Err(Failure::request(format!(
                "service '{name}' is not started by this tool, so it cannot be restarted"
            ))
            .next("restart it where it was started"));
        }
        let _one_at_a_time = self.inner.restarts.lock().await;
        tracing::info!(service = name, "restarting service");
        (self.inner.options.on_event)(&Event::Restarting { service: name.to_owned() });
        let inner = self.inner.clone();
        let relaunched = tokio::task::spawn_blocking(move || inner.relaunch(at)).await;
        relaunched.unwrap_or_else(|error| Err(bug("restarting failed", &error.to_string())))?;
        let healthy = self.inner.wait_healthy(at).await;
        if healthy.is_err() {
            self.end(at).await?;
        }
        self.inner.write_state()?;
        healthy
    }

    /// Kills a service at once and keeps it stopped until [`Supervisor::restart`]. It is not reported as crashed.
    ///
    /// Errors: it is attached or unknown; a process that even SIGKILL does not end.
    pub async fn kill(&self, name: &str) -> Result<(), Failure> {
        let services = self.inner.target.services();
        let at = services.iter().position(|service| service.name == name && !service.is_attached());
        let Some(at) = at else {
            return Err(Failure::request(format!(
                "service '{name}' is not started by this tool, so it is not stopped"
            )));
        };
        let _no_restart_meanwhile = self.inner.restarts.lock().await;
        tracing::info!(service = name, "killing service");
        self.end_within(at, Duration::ZERO).await?;
        self.inner.write_state()
    }

    /// Ends the remaining processes of a crashed service and does not start it again. The other services keep running.
    ///
    /// Errors: a process that even SIGKILL does not end, the disk is full.
    pub async fn give_up(&self, crash: &Crash) -> Result<(), Failure> {
        let services = self.inner.target.services();
        let Some(at) = services.iter().position(|service| service.name == crash.service) else { return Ok(()) };
        let _no_restart_meanwhile = self.inner.restarts.lock().await;
        self.end(at).await?;
        self.inner.write_state()
    }

    async fn end(&self, at: usize) -> Result<(), Failure> {
        self.end_within(at, GRACE).await
    }

    async fn end_within(&self, at: usize, grace: Duration) -> Result<(), Failure> {
        let inner = self.inner.clone();
        let ended = tokio::task::spawn_blocking(move || inner.end_one(at, grace)).await;
        ended.unwrap_or_else(|error| Err(bug("ending a service failed", &error.to_string())))
    }

    pub fn target(&self) -> &Target {
        &self.inner.target
    }

    /// The environment whose envelopes its services accept.
    pub fn environment(&self) -> &str {
        &self.inner.trust.environment
    }

    /// The trust settings with their keys, for signing requests.
    pub fn trust_text(&self) -> String {
        self.inner.trust.text()
    }

    /// The folder with the status files of the SDKs.
    pub fn status_dir(&self) -> &Path {
        &self.inner.status
    }

    /// The argument for [`crate::switch_faults`].
    pub fn trust_file(&self) -> &Path {
        &self.inner.trust_file
    }
}

impl Drop for Supervisor {
    fn drop(&mut self) {
        let _ = self.inner.end_all();
    }
}

impl Inner {
    /// Everything before the first service. Blocks.
    fn prepare(target: Target, mut options: StartOptions, reaper_ends: mpsc::Sender<u32>) -> Result<Inner, Failure> {
        let logs = options.state_dir.join("logs");
        atomic_file::create_folder(&logs)?;
        options.state_dir =
            options.state_dir.canonicalize().map_err(|error| cannot_write(&options.state_dir, &error))?;
        let lock = lock(&options.state_dir)?;
        if let Some(left) = read_state(&options.state_dir)? {
            (options.on_event)(&Event::CleaningUp { target: left.target.clone() });
            left.clean_up(&options.state_dir)?;
        }
        incomplete_up::remove(&options.state_dir);
        options.sdks.check(&target, &|event| (options.on_event)(event))?;
        ports::check_free(
            target.services().iter().filter(|service| !service.is_attached()),
            &target.file.display().to_string(),
        )?;
        let mark = hex(&random::<16>()?);
        let (trust, trust_file) = match &options.kept_trust {
            Some(kept) => (Trust::load_or_create(kept, &target.name)?, kept.clone()),
            None => (Trust::generate(&target.name)?, options.state_dir.join(trust_file::NAME)),
        };
        let kept = options.kept_trust.is_some();
        let status = status_dir::path(&options.state_dir);
        let inner = Inner {
            peers: target.peers(),
            running: Mutex::new(Running {
                services: Vec::new(),
                restarts: HashMap::new(),
                reaper: None,
                lock: Some(lock),
            }),
            restarts: tokio::sync::Mutex::new(()),
            target,
            options,
            mark,
            reaper_ends,
            trust,
            trust_file,
            status,
        };
        let text = format!("# up {}\n{}", inner.mark, inner.trust.text());
        let write_trust = || if kept { Ok(()) } else { atomic_file::write(&inner.trust_file, &text) };
        // the reaper comes first: it removes the other files if this process is killed
        let ready = inner
            .start_reaper()
            .map(|reaper| inner.running().reaper = Some(reaper))
            .and_then(|()| status_dir::create(&inner.options.state_dir, &inner.mark).map(|_| ()))
            .and_then(|()| write_trust())
            .and_then(|()| inner.write_state());
        match ready {
            Ok(()) => Ok(inner),
            Err(failure) => {
                let _ = inner.end_all();
                Err(failure)
            }
        }
    }

    fn running(&self) -> MutexGuard<'_, Running> {
        self.running.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Starts the process of one service. The lock is held throughout, so that a concurrent stop either finds the
    /// process or has completed before.
    fn launch(&self, at: usize) -> Result<(), Failure> {
        let service = &self.target.services()[at];
        let log = self.options.state_dir.join("logs").join(format!("{}.log", service.name));
        let shared = SharedEnvironment {
            mark: &self.mark,
            trust_file: &self.trust_file,
            peers: &self.peers,
            status: &self.status,
            sdks: &self.options.sdks,
        };
        let running = &mut *self.running();
        if running.lock.is_none() {
            return Err(Failure::new(Family::Aborted, "the target has been stopped"));
        }
        if service.is_attached() {
            running.services.push(ServiceInstance::attached());
            return Ok(());
        }
        (self.options.on_event)(&Event::Starting { service: service.name.clone() });
        let started = ServiceProcess::start(service, log, &shared)?;
        let leader = started.id;
        tracing::info!(service = service.name, pid = leader.pid, "service started");
        match running.services.get_mut(at) {
            Some(instance) => *instance = ServiceInstance::Started(started),
            None => running.services.push(ServiceInstance::Started(started)),
        }
        let announced = running.reaper.as_mut().map_or(Ok(()), |reaper| reaper.announce_leader(leader));
        if announced.is_err() {
            self.replace_reaper(running)?;
            self.warn(reaper_monitor::REPLACED.to_owned());
        }
        Ok(())
    }

    /// Starts a new reaper with the same announcements, after the previous one was killed.
    fn replace_reaper(&self, running: &mut Running) -> Result<(), Failure> {
        tracing::warn!("the reaper has ended; starting another one");
        let mut reaper = self.start_reaper()?;
        let processes = running.services.iter().filter_map(ServiceInstance::process);
        for process in processes.filter(|process| process.condition != Condition::Stopped) {
            reaper.announce_leader(process.id)?;
        }
        if let Some(before) = running.reaper.replace(reaper) {
            before.done();
        }
        Ok(())
    }

    fn start_reaper(&self) -> Result<Reaper, Failure> {
        let mut reaper = Reaper::start(&self.options.reaper, &self.mark, self.reaper_ends.clone())?;
        reaper.announce_file(&self.trust_file)?;
        reaper.announce_file(&state_file(&self.options.state_dir))?;
        reaper.announce_file(&stop_request::file(&self.options.state_dir))?;
        reaper.announce_folder(&self.status)?;
        Ok(reaper)
    }

    /// Blocks while the old process is being ended, for up to 18 s.
    fn relaunch(&self, at: usize) -> Result<(), Failure> {
        self.end_one(at, GRACE)?;
        let service = std::iter::once(&self.target.services()[at]);
        ports::check_free(service, &self.target.file.display().to_string())?;
        self.launch(at)?;
        *self.running().restarts.entry(at).or_default() += 1;
        self.write_state()
    }

    /// Ends one service and reaps it, after `grace` by SIGKILL. Blocks for up to 18 s.
    fn end_one(&self, at: usize, grace: Duration) -> Result<(), Failure> {
        let name = &self.target.services()[at].name;
        let mut processes = OwnedProcesses::new(&self.mark, ProcessId::current()).of_service(name);
        let leader = self.running().services[at].mark_stopping();
        leader.into_iter().for_each(|leader| processes.add_leader(leader));
        let left = processes.end(grace);
        if !left.is_empty() {
            return Err(would_not_end(&left));
        }
        tracing::info!(service = name, "service ended");
        let running = &mut *self.running();
        running.services[at].reap();
        if let (Some(reaper), Some(leader)) = (&mut running.reaper, leader) {
            let _ = reaper.announce_end(leader); // if it was killed, the next start replaces it
        }
        Ok(())
    }

    /// Ends everything, removes the files of this `up`, ends the reaper. Blocks for up to 18 s. If a process does not
    /// end, state, lock and reaper remain, and the next call tries again.
    fn end_all(&self) -> Result<(), Failure> {
        let begin = Instant::now();
        let services = match &*self.running() {
            Running { lock: None, .. } => return Ok(()),
            running => running.services.len(),
        };
        if services > 0 {
            (self.options.on_event)(&Event::Stopping { services });
        }
        {
            // Locked to the end, so that a second caller returns only when everything has ended.
            let running = &mut *self.running();
            if running.lock.is_none() {
                return Ok(());
            }
            let mut processes = OwnedProcesses::new(&self.mark, ProcessId::current());
            for leader in running.services.iter_mut().filter_map(ServiceInstance::mark_stopping) {
                processes.add_leader(leader);
            }
            let left = processes.end(GRACE);
            if !left.is_empty() {
                return Err(would_not_end(&left));
            }
            running.services.iter_mut().for_each(ServiceInstance::reap);
            self.state(running).remove_files(&self.options.state_dir);
            if let Some(reaper) = running.reaper.take() {
                reaper.done();
            }
            running.lock = None;
        }
        tracing::info!(services, seconds = begin.elapsed().as_secs_f64(), "all services ended");
        if services > 0 {
            (self.options.on_event)(&Event::Stopped { after: begin.elapsed() });
        }
        Ok(())
    }

    fn write_state(&self) -> Result<(), Failure> {
        let mut running = self.running();
        if running.lock.is_none() {
            return Ok(()); // already stopped
        }
        running.services.iter_mut().for_each(|process| {
            process.poll();
        });
        self.state(&running).write(&self.options.state_dir)
    }

    fn state(&self, running: &Running) -> UpState {
        let unix_ms =
            |at: SystemTime| at.duration_since(SystemTime::UNIX_EPOCH).map_or(0, |past| past.as_millis() as u64);
        UpState {
            format: UpState::FORMAT,
            target: self.target.name.clone(),
            target_file: self.target.file.clone(),
            entry: self.target.entry.clone(),
            environment: self.trust.environment.clone(),
            trust_file: self.trust_file.clone(),
            mark: self.mark.clone(),
            boot: boot_id().unwrap_or_default(),
            supervisor: ProcessId::current(),
            services: (self.target.services().iter().zip(&running.services).enumerate())
                .map(|(at, (service, instance))| ServiceRecord {
                    name: service.name.clone(),
                    process: instance.id(),
                    started_unix_ms: unix_ms(instance.since().1),
                    healthy: instance.is_healthy(),
                    given_up: instance.is_ended(),
                    restarts: running.restarts.get(&at).copied().unwrap_or_default(),
                    health: service.health.clone(),
                    sdk: service.sdk,
                    addresses: service.listens.clone(),
                    log: instance.log().map(|log| log.path.clone()),
                    support: service.support,
                })
                .collect(),
        }
    }
}

impl MonitoredReaper for Inner {
    const ADVICE: &str = "run `faultloom down`";

    fn replace_ended_reaper(&self, ended: u32) -> Result<bool, Failure> {
        let running = &mut *self.running();
        // everything has been stopped, or another thread has replaced it
        if running.reaper.as_ref().is_none_or(|reaper| reaper.pid() != ended) {
            return Ok(false);
        }
        self.replace_reaper(running).map(|()| true)
    }

    fn warn(&self, message: String) {
        (self.options.on_event)(&Event::Warning(message));
    }
}

fn bug(what: &str, why: &str) -> Failure {
    Failure::new(Family::Bug, what).why(why)
}
