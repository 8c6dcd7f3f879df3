//! The target as a command meets it: already up, started for the duration of the command, or run by somebody else.

use crate::context::Context;
use crate::render::numbers::plural;
use explore::{Attached, Stage as Revive, Watch};
use model::Failure;
use requests::Credentials;
use std::future::Future;
use std::path::PathBuf;
use std::pin::Pin;
use std::sync::Arc;
use std::time::{Duration, Instant};
use target::{ReaperCommand, StartOptions, Supervisor, Target, UpState};

/// How long a crashed service of a target that is up elsewhere may take to be restarted by its supervisor.
const REVIVAL_PATIENCE: Duration = Duration::from_secs(20);

pub struct Stage {
    credentials: Credentials,
    entry: Option<String>,
    services: Vec<String>,
    kind: Kind,
}

enum Kind {
    Own(Arc<Own>),
    Up(Arc<Elsewhere>),
    Foreign,
}

pub struct Own {
    supervisor: Supervisor,
}

pub struct Elsewhere {
    state_dir: PathBuf,
    one_at_a_time: tokio::sync::Mutex<UpState>,
}

pub fn state_dir(context: &Context) -> PathBuf {
    context.common.home.join("up")
}

pub fn reaper() -> ! {
    target::reaper_main()
}

/// Trust settings that stay, for a target of which something else starts a part.
pub fn kept_trust(context: &Context, target_name: &str) -> PathBuf {
    let file = context.common.home.join("keys").join(format!("{target_name}.trust"));
    std::path::absolute(&file).unwrap_or(file)
}

/// Where the SDKs of services that are not started here say what they are.
pub fn kept_status(context: &Context, target_name: &str) -> PathBuf {
    let folder = context.common.home.join("status").join(target_name);
    std::path::absolute(&folder).unwrap_or(folder)
}

pub fn start_options(context: &Context, target: &Target) -> Result<StartOptions, Failure> {
    let kept = kept_trust(context, &target.name);
    let attached = target.services().iter().any(target::Service::is_attached);
    let quiet = context.common.quiet || context.common.json;
    Ok(StartOptions {
        state_dir: state_dir(context),
        kept_trust: (attached || kept.exists()).then_some(kept),
        sdks: crate::sdk_places::all(),
        reaper: ReaperCommand::own_binary("reaper"),
        on_event: Arc::new(move |event| {
            if !quiet && matches!(event, target::Event::Warning(_) | target::Event::CleaningUp { .. }) {
                eprintln!("   {event}");
            }
        }),
    })
}

/// Waits for Ctrl-C or SIGTERM.
pub async fn interrupted() {
    use tokio::signal::unix::{SignalKind, signal};
    match signal(SignalKind::terminate()) {
        Ok(mut terminate) => tokio::select! {
            _ = tokio::signal::ctrl_c() => {}
            _ = terminate.recv() => {}
        },
        Err(_) => {
            let _ = tokio::signal::ctrl_c().await;
        }
    }
}

/// The trust file in force: the one that was named, else that of the target that is up here.
pub fn trust_file(context: &Context) -> Result<PathBuf, Failure> {
    if let Some(file) = &context.common.trust {
        return Ok(file.clone());
    }
    match target::read_state(&state_dir(context))?.filter(target::is_alive) {
        Some(state) => Ok(state.trust_file),
        None => Err(Failure::environment("no target is up here")
            .next("start one with `faultloom up`, or name its trust file with --trust FILE")),
    }
}

impl Stage {
    /// A target that is up is used as it is; otherwise the target file's services are started until [`Stage::close`].
    pub async fn open(context: &Context) -> Result<Stage, Failure> {
        Stage::open_with(context, None).await
    }

    /// As [`Stage::open`], but what has to be started is this target.
    pub async fn open_with(context: &Context, target: Option<Target>) -> Result<Stage, Failure> {
        let file = context.target_file();
        if let Some(trust) = &context.common.trust {
            let text = std::fs::read_to_string(trust)
                .map_err(|e| Failure::environment(format!("{} cannot be read: {e}", trust.display())))?;
            let target = file.map(Target::load).transpose()?;
            let (entry, services) = target.as_ref().map_or((None, Vec::new()), described);
            return Ok(Stage { credentials: Credentials::parse(&text)?, entry, services, kind: Kind::Foreign });
        }
        let state_dir = state_dir(context);
        if let Some(state) = target::read_state(&state_dir)?.filter(target::is_alive) {
            let wanted = match &context.common.target {
                Some(file) => Some(file.canonicalize().map_err(|e| {
                    Failure::request(format!("cannot read the target file {}", file.display()))
                        .why(e.to_string())
                        .next(format!("without -t the target that is up here is used: {}", state.target_file.display()))
                })?),
                None => None,
            };
            if wanted.as_ref().is_some_and(|f| *f != state.target_file) {
                return Err(Failure::environment(format!(
                    "another target is up here: {}",
                    state.target_file.display()
                ))
                .next("`faultloom down`, or use another place with --home DIR"));
            }
            let text = std::fs::read_to_string(&state.trust_file)
                .map_err(|e| Failure::environment(format!("{} cannot be read: {e}", state.trust_file.display())))?;
            let entry = state.entry.as_ref().map(ToString::to_string);
            let services = state.services.iter().filter(|s| !s.support).map(|s| s.name.clone()).collect();
            let elsewhere = Elsewhere { state_dir, one_at_a_time: tokio::sync::Mutex::new(state) };
            return Ok(Stage {
                credentials: Credentials::parse(&text)?,
                entry,
                services,
                kind: Kind::Up(Arc::new(elsewhere)),
            });
        }
        let target = match target {
            Some(target) => target,
            None => Target::load(file.ok_or_else(|| {
                Failure::request("there is no target: no target.yaml here, nothing is up")
                    .next("name a target file with -t FILE, or the trust file of a running target with --trust FILE")
            })?)?,
        };
        let (entry, services) = described(&target);
        context.say(format!("   starting {} of {}", plural(target.services().len() as u64, "service"), target.name));
        let begin = Instant::now();
        let options = start_options(context, &target)?;
        let supervisor = tokio::select! {
            started = Supervisor::start(target, options) => started?,
            () = interrupted() => return Err(Failure::new(model::Family::Aborted, "stopped while the target was starting")),
        };
        context.say(format!("   all healthy after {:.1} s", begin.elapsed().as_secs_f64()));
        let credentials = Credentials::parse(&supervisor.trust_text())?;
        let own = Own { supervisor };
        Ok(Stage { credentials, entry, services, kind: Kind::Own(Arc::new(own)) })
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

    /// For sending requests: restarts what crashes meanwhile.
    pub fn watch(&self) -> Watch {
        Watch::new(match &self.kind {
            Kind::Own(own) => own.clone() as Arc<dyn Revive>,
            Kind::Up(up) => up.clone(),
            Kind::Foreign => Arc::new(Attached),
        })
    }

    /// Stops what was started for this command.
    pub async fn close(self) -> Result<(), Failure> {
        match self.kind {
            Kind::Own(own) => own.supervisor.stop().await,
            Kind::Up(_) | Kind::Foreign => Ok(()),
        }
    }
}

fn described(target: &Target) -> (Option<String>, Vec<String>) {
    (target.entry.as_ref().map(ToString::to_string), target.own_services().into_iter().map(str::to_owned).collect())
}

type Revival<'a> = Pin<Box<dyn Future<Output = Result<Vec<String>, Failure>> + Send + 'a>>;

impl Revive for Own {
    fn revive(&self) -> Revival<'_> {
        Box::pin(async {
            let mut names = Vec::new();
            for crash in self.supervisor.crashed() {
                self.supervisor.restart(&crash.service).await?;
                names.push(crash.service);
            }
            Ok(names)
        })
    }
}

impl Revive for Elsewhere {
    /// The `up` in the other terminal restarts what crashed; here we only notice and wait.
    fn revive(&self) -> Revival<'_> {
        Box::pin(async {
            let mut state = self.one_at_a_time.lock().await;
            let dead: Vec<String> = state.services.iter().filter(|s| !s.is_alive()).map(|s| s.name.clone()).collect();
            if dead.is_empty() {
                return Ok(dead);
            }
            let begin = Instant::now();
            loop {
                let now = target::read_state(&self.state_dir)?.filter(target::is_alive);
                let Some(now) = now else {
                    return Err(Failure::environment("the target went down").next("`faultloom up`"));
                };
                if let Some(gone) = now.services.iter().find(|s| s.given_up) {
                    return Err(Failure::environment(format!("{} keeps crashing and was given up", gone.name))
                        .next("`faultloom ps` names its log"));
                }
                if now.services.iter().all(|s| s.healthy && s.is_alive()) {
                    *state = now;
                    return Ok(dead);
                }
                if begin.elapsed() > REVIVAL_PATIENCE {
                    return Err(Failure::environment(format!("{} crashed and did not come back", dead.join(", ")))
                        .next("`faultloom ps` names its log"));
                }
                tokio::time::sleep(Duration::from_millis(50)).await;
            }
        })
    }
}
