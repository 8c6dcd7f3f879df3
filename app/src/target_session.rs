//! The target of a command: already up, started for the duration of the command, or run by something else.

use crate::event::Progress;
use crate::{Context, Event};
use explore::{CrashRecovery, ExternalTarget, TargetControl};
use model::Failure;
use requests::Credentials;
use std::future::Future;
use std::path::{Path, PathBuf};
use std::pin::Pin;
use std::sync::Arc;
use std::time::{Duration, Instant};
use target::{Check, CommandGuard, ReaperCommand, StartOptions, StopRequest, Supervisor, Target, UpState};
use tls::TlsSettings;

/// How long a crashed service of a target that is up elsewhere may take to be restarted by its supervisor.
const RESTART_TIMEOUT: Duration = Duration::from_secs(20);

/// How long a service of a target that is up elsewhere may be stopped, and how long its supervisor may take for it.
const STOP_MAX: Duration = Duration::from_secs(60);

pub struct TargetSession {
    credentials: Credentials,
    entry: Option<String>,
    services: Vec<String>,
    target_file: Option<PathBuf>,
    checks: Vec<Check>,
    tls: TlsSettings,
    kind: Kind,
}

enum Kind {
    /// Started for this command.
    Started(Arc<Started>),
    /// Started by `up`, which restarts what crashes.
    Running(Arc<Running>),
    /// Run by something else.
    External,
}

pub struct Started {
    supervisor: Supervisor,
}

pub struct Running {
    context: Context,
    /// The names of services, and whether each is attached.
    attached: Vec<(String, bool)>,
    one_at_a_time: tokio::sync::Mutex<UpState>,
}

pub fn state_dir(context: &Context) -> PathBuf {
    context.home.join("up")
}

/// The command that runs [`reaper`].
pub(crate) fn reaper_command() -> ReaperCommand {
    ReaperCommand::own_binary("reaper")
}

/// Ends the user's commands if this process is killed.
pub(crate) fn command_guard(context: &Context) -> Result<CommandGuard, Failure> {
    let events = context.events.clone();
    let on_warning = Arc::new(move |message| events(Event::Warning { message }));
    CommandGuard::start(&reaper_command(), on_warning)
}

pub fn reaper() -> ! {
    target::reaper_main()
}

/// Permanent trust settings, for a target with attached services.
pub fn kept_trust(context: &Context, target_name: &str) -> PathBuf {
    let file = context.home.join("keys").join(format!("{target_name}.trust"));
    std::path::absolute(&file).unwrap_or(file)
}

/// The status folder for SDKs of services that are not started here.
pub fn kept_status(context: &Context, target_name: &str) -> PathBuf {
    let folder = context.home.join("status").join(target_name);
    std::path::absolute(&folder).unwrap_or(folder)
}

pub fn start_options(context: &Context, target: &Target) -> Result<StartOptions, Failure> {
    let kept = kept_trust(context, &target.name);
    let attached = target.services().iter().any(target::Service::is_attached);
    let events = context.events.clone();
    Ok(StartOptions {
        state_dir: state_dir(context),
        kept_trust: (attached || kept.exists()).then_some(kept),
        sdks: crate::sdk_paths::all(),
        reaper: reaper_command(),
        on_event: Arc::new(move |event| {
            if matches!(event, target::Event::Warning(_) | target::Event::CleaningUp { .. }) {
                events(Event::Warning { message: event.to_string() });
            }
        }),
    })
}

/// The trust file in force: the one that was named, else that of the target that is up here.
pub fn trust_file(context: &Context) -> Result<PathBuf, Failure> {
    if let Some(file) = &context.trust {
        return Ok(file.clone());
    }
    match target::read_state(&state_dir(context))?.filter(target::is_alive) {
        Some(state) => Ok(state.trust_file),
        None => Err(Failure::environment("no target is up here")
            .next(format!("start one with `{}`, or name its trust file (--trust FILE)", context.command("up")))),
    }
}

impl TargetSession {
    /// A target that is up is used as it is; otherwise the target file's services are started until
    /// [`TargetSession::close`].
    pub async fn open(context: &Context) -> Result<TargetSession, Failure> {
        TargetSession::open_with(context, None).await
    }

    /// As [`TargetSession::open`], but what has to be started is this target.
    pub async fn open_with(context: &Context, target: Option<Target>) -> Result<TargetSession, Failure> {
        let file = context.target_file();
        if let Some(trust) = &context.trust {
            let text = std::fs::read_to_string(trust)
                .map_err(|e| Failure::environment(format!("{} cannot be read: {e}", trust.display())))?;
            let target = file.map(Target::load).transpose()?;
            let (entry, services) = target.as_ref().map_or((None, Vec::new()), entry_and_services);
            return Ok(TargetSession {
                credentials: Credentials::parse(&text)?,
                entry,
                services,
                checks: target.as_ref().map_or_else(Vec::new, |target| target.checks().to_vec()),
                tls: target.as_ref().map(|target| target.tls.clone()).unwrap_or_default(),
                target_file: target.map(|target| target.file),
                kind: Kind::External,
            });
        }
        let state_dir = state_dir(context);
        if let Some(state) = target::read_state(&state_dir)?.filter(target::is_alive) {
            let wanted = match &context.target {
                Some(file) => Some(file.canonicalize().map_err(|e| {
                    Failure::request(format!("cannot read the target file {}", file.display())).why(e.to_string()).next(
                        format!("without one, the target that is up here is used: {}", state.target_file.display()),
                    )
                })?),
                None => None,
            };
            if wanted.as_ref().is_some_and(|f| *f != state.target_file) {
                return Err(Failure::environment(format!(
                    "another target is up here: {}",
                    state.target_file.display()
                ))
                .next(format!("`{}`, or use another store (--home DIR)", context.command("down"))));
            }
            let text = std::fs::read_to_string(&state.trust_file)
                .map_err(|e| Failure::environment(format!("{} cannot be read: {e}", state.trust_file.display())))?;
            let entry = state.entry.as_ref().map(ToString::to_string);
            let services = state.services.iter().filter(|s| !s.support).map(|s| s.name.clone()).collect();
            let target_file = Some(state.target_file.clone());
            let target = Target::load(&state.target_file)?;
            let checks = target.checks().to_vec();
            let attached = state.services.iter().map(|s| (s.name.clone(), s.process.is_none())).collect();
            let one_at_a_time = tokio::sync::Mutex::new(state);
            let running = Running { context: context.clone(), attached, one_at_a_time };
            return Ok(TargetSession {
                credentials: Credentials::parse(&text)?,
                entry,
                services,
                target_file,
                checks,
                tls: target.tls,
                kind: Kind::Running(Arc::new(running)),
            });
        }
        let target = match target {
            Some(target) => target,
            None => Target::load(file.ok_or_else(|| {
                Failure::request("there is no target: no target.yaml here, nothing is up")
                    .next("name a target file (-t FILE), or the trust file of a running target (--trust FILE)")
            })?)?,
        };
        let (entry, services) = entry_and_services(&target);
        let target_file = Some(target.file.clone());
        let checks = target.checks().to_vec();
        let tls = target.tls.clone();
        let count = target.services().len() as u64;
        context.progress(Progress::TargetStarting { target: target.name.clone(), services: count });
        let begin = Instant::now();
        let options = start_options(context, &target)?;
        let supervisor = tokio::select! {
            started = Supervisor::start(target, options) => started?,
            () = context.cancel.canceled() => return Err(Failure::new(model::Family::Aborted, "stopped while the target was starting")),
        };
        context.progress(Progress::TargetHealthy { seconds: begin.elapsed().as_secs_f64() });
        let credentials = Credentials::parse(&supervisor.trust_text())?;
        let started = Started { supervisor };
        let kind = Kind::Started(Arc::new(started));
        Ok(TargetSession { credentials, entry, services, target_file, checks, tls, kind })
    }

    pub fn credentials(&self) -> &Credentials {
        &self.credentials
    }

    pub fn entry(&self) -> Option<&str> {
        self.entry.as_deref()
    }

    /// The target's own services, without its caches and databases.
    pub fn services(&self) -> Vec<String> {
        self.services.clone()
    }

    /// What correct replies are, from the target file.
    pub fn checks(&self) -> &[Check] {
        &self.checks
    }

    /// How certificates are checked, from the target file.
    pub fn tls(&self) -> &TlsSettings {
        &self.tls
    }

    /// The file that describes the target; None for one that something else runs and no file was named for.
    pub fn target_file(&self) -> Option<&Path> {
        self.target_file.as_deref()
    }

    /// For sending requests: restarts what crashes meanwhile.
    pub fn recovery(&self) -> CrashRecovery {
        CrashRecovery::new(match &self.kind {
            Kind::Started(started) => started.clone() as Arc<dyn TargetControl>,
            Kind::Running(running) => running.clone(),
            Kind::External => Arc::new(ExternalTarget),
        })
    }

    /// Stops what was started for this command.
    pub async fn close(self) -> Result<(), Failure> {
        match self.kind {
            Kind::Started(started) => started.supervisor.stop().await,
            Kind::Running(_) | Kind::External => Ok(()),
        }
    }
}

fn entry_and_services(target: &Target) -> (Option<String>, Vec<String>) {
    (target.entry.as_ref().map(ToString::to_string), target.own_services().into_iter().map(str::to_owned).collect())
}

/// `attached`: None for an unknown service.
fn can_stop(service: &str, attached: Option<bool>) -> Result<(), String> {
    match attached {
        Some(true) => Err(format!("{service} is attached: something else started it")),
        Some(false) => Ok(()),
        None => Err(format!("the target file names no service {service}")),
    }
}

impl Running {
    /// Waits until the supervisor has written such a state.
    async fn wait_until(
        &self,
        is_reached: impl Fn(&UpState) -> bool,
        problem: &str,
        service: &str,
    ) -> Result<UpState, Failure> {
        let begin = Instant::now();
        loop {
            let Some(state) = target::read_state(&state_dir(&self.context))?.filter(target::is_alive) else {
                return Err(Failure::environment("the target was stopped")
                    .next(format!("start it again: {}", self.context.command("up"))));
            };
            if is_reached(&state) {
                return Ok(state);
            }
            if begin.elapsed() > STOP_MAX {
                return Err(Failure::environment(format!("{service} {problem}"))
                    .next(format!("`{}` names its log", self.context.command("ps"))));
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    }
}

type RestartedServices<'a> = Pin<Box<dyn Future<Output = Result<Vec<String>, Failure>> + Send + 'a>>;

impl TargetControl for Started {
    fn logs(&self) -> Vec<(String, PathBuf)> {
        self.supervisor.states().into_iter().filter_map(|service| Some((service.name, service.log?))).collect()
    }

    fn restart_crashed(&self) -> RestartedServices<'_> {
        Box::pin(async {
            let mut names = Vec::new();
            for crash in self.supervisor.crashed() {
                self.supervisor.restart(&crash.service).await?;
                names.push(crash.service);
            }
            Ok(names)
        })
    }

    fn can_stop(&self, service: &str) -> Result<(), String> {
        can_stop(service, self.supervisor.target().service(service).map(target::Service::is_attached))
    }

    fn stop<'a>(&'a self, service: &'a str) -> Pin<Box<dyn Future<Output = Result<(), Failure>> + Send + 'a>> {
        Box::pin(self.supervisor.kill(service))
    }

    fn start<'a>(&'a self, service: &'a str) -> Pin<Box<dyn Future<Output = Result<(), Failure>> + Send + 'a>> {
        Box::pin(self.supervisor.restart(service))
    }
}

impl TargetControl for Running {
    fn logs(&self) -> Vec<(String, PathBuf)> {
        // the paths do not change over restarts
        let state = target::read_state(&state_dir(&self.context)).ok().flatten();
        let services = state.into_iter().flat_map(|state| state.services);
        services.filter_map(|service| Some((service.name, service.log?))).collect()
    }

    fn can_stop(&self, service: &str) -> Result<(), String> {
        can_stop(service, self.attached.iter().find(|(name, _)| name == service).map(|(_, attached)| *attached))
    }

    /// By the supervisor that started the target. It starts the service again if this process is killed.
    fn stop<'a>(&'a self, service: &'a str) -> Pin<Box<dyn Future<Output = Result<(), Failure>> + Send + 'a>> {
        Box::pin(async move {
            let state_dir = state_dir(&self.context);
            StopRequest::write(&state_dir, &*self.one_at_a_time.lock().await, service, STOP_MAX)?;
            let is_stopped =
                |state: &UpState| state.services.iter().any(|s| s.name == service && (s.given_up || !s.is_alive()));
            let stopped = self.wait_until(is_stopped, "was not stopped by its supervisor", service).await;
            stopped.map(drop).inspect_err(|_| StopRequest::remove(&state_dir))
        })
    }

    fn start<'a>(&'a self, service: &'a str) -> Pin<Box<dyn Future<Output = Result<(), Failure>> + Send + 'a>> {
        Box::pin(async move {
            let mut known = self.one_at_a_time.lock().await;
            StopRequest::remove(&state_dir(&self.context));
            let runs = |state: &UpState| {
                state.services.iter().any(|s| s.name == service && s.healthy && !s.given_up && s.is_alive())
            };
            *known = self.wait_until(runs, "was stopped and did not come back", service).await?;
            Ok(())
        })
    }

    /// Waits until the supervisor that started the target has restarted crashed services.
    fn restart_crashed(&self) -> RestartedServices<'_> {
        Box::pin(async {
            let mut state = self.one_at_a_time.lock().await;
            let dead: Vec<String> = state.services.iter().filter(|s| !s.is_alive()).map(|s| s.name.clone()).collect();
            if dead.is_empty() {
                return Ok(dead);
            }
            let begin = Instant::now();
            loop {
                let now = target::read_state(&state_dir(&self.context))?.filter(target::is_alive);
                let Some(now) = now else {
                    return Err(Failure::environment("the target was stopped")
                        .next(format!("start it again: {}", self.context.command("up"))));
                };
                if let Some(service) = now.services.iter().find(|s| s.given_up) {
                    return Err(Failure::environment(format!("{} keeps crashing and was given up", service.name))
                        .next(format!("`{}` names its log", self.context.command("ps"))));
                }
                if now.services.iter().all(|s| s.healthy && s.is_alive()) {
                    *state = now;
                    return Ok(dead);
                }
                if begin.elapsed() > RESTART_TIMEOUT {
                    return Err(Failure::environment(format!("{} crashed and did not come back", dead.join(", ")))
                        .next(format!("`{}` names its log", self.context.command("ps"))));
                }
                tokio::time::sleep(Duration::from_millis(50)).await;
            }
        })
    }
}
