//! The services of a target: start them, keep them running, stop them, list them.

use crate::event::Progress;
use crate::spec::{NoOptions, Version};
use crate::target_session::{self, start_options, state_dir};
use crate::{Context, Event, register_schema};
use model::{Failure, Family};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use std::collections::HashMap;
use std::io::{BufRead, BufReader};
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};
use target::{Crash, Down, StopRequest, Supervisor, Target, UpState};

/// A service that crashes more often than this within [`CRASH_WINDOW`] is given up.
const CRASHES_MAX: usize = 5;
const CRASH_WINDOW: Duration = Duration::from_secs(60);
const CHECK_EVERY: Duration = Duration::from_millis(100);
/// How often the state of a target that starts in the background is read.
const STATE_EVERY: Duration = Duration::from_millis(30);
/// Added to the longest start timeout of the services.
/// Its supervisor decides first whether a late service is busy.
const NOTED_AFTER: Duration = Duration::from_secs(1);
const START_MARGIN: Duration = Duration::from_secs(5);

register_schema!("up", NoOptions);
register_schema!("down", NoOptions);
register_schema!("ps", NoOptions);

/// A target whose services were started here and run until [`UpTarget::stop`].
pub struct UpTarget {
    supervisor: Supervisor,
    pub state: Option<UpState>,
    pub services: u64,
    pub start_time: Duration,
}

/// Loads the target that is to be started: the context's.
///
/// # Errors
/// Environment if a target is up already, request if there is no target file or it is wrong.
pub fn load(context: &Context, _spec: &NoOptions) -> Result<Target, Failure> {
    if let Some(state) = target::read_state(&state_dir(context))?.filter(target::is_alive) {
        return Err(Failure::environment(format!("{} is up already", state.target)).next(format!(
            "`{}` shows it, `{}` stops it",
            context.command("ps"),
            context.command("down")
        )));
    }
    let file = context
        .target_file()
        .ok_or_else(|| Failure::request("there is no target.yaml here").next("name a target file with -t FILE"))?;
    let target = Target::load(&file)?;
    runs::make_home(&context.home)?;
    crate::draft::init::write_schema(&context.home)?;
    Ok(target)
}

/// Starts all services and waits until they are healthy.
pub async fn start(context: &Context, target: Target) -> Result<UpTarget, Failure> {
    let services = target.services().len() as u64;
    let begin = Instant::now();
    let options = start_options(context, &target)?;
    let supervisor = tokio::select! {
        started = Supervisor::start(target, options) => started?,
        () = context.cancel.canceled() => return Err(stopped_early()),
    };
    let state = target::read_state(&state_dir(context))?;
    Ok(UpTarget { supervisor, state, services, start_time: begin.elapsed() })
}

fn stopped_early() -> Failure {
    Failure::new(Family::Aborted, "stopped while the target was starting")
}

impl UpTarget {
    /// Restarts what crashes until the context is canceled. A service that keeps crashing is given up; the others stay.
    pub async fn keep_running(&self, context: &Context) -> Result<(), Failure> {
        let mut crashes: HashMap<String, Vec<Instant>> = HashMap::new();
        let mut stopped = None;
        loop {
            tokio::select! {
                () = context.cancel.canceled() => return Ok(()),
                () = tokio::time::sleep(CHECK_EVERY) => {}
            }
            for crash in self.supervisor.crashed() {
                self.recover(context, crash, &mut crashes).await?;
            }
            stopped = self.follow_stop_request(context, stopped).await?;
        }
    }

    /// Kills the service that another process wants to be stopped, and starts it again once that ends. `stopped`: the
    /// one that is stopped now.
    async fn follow_stop_request(&self, context: &Context, stopped: Option<String>) -> Result<Option<String>, Failure> {
        let Some(state) = &self.state else { return Ok(None) };
        let wanted = StopRequest::current(&state_dir(context), state).map(|request| request.service);
        if stopped == wanted {
            return Ok(stopped);
        }
        if let Some(service) = stopped {
            if let Err(failure) = self.supervisor.restart(&service).await {
                context.emit(Event::ServiceGivenUp { service, reason: failure.to_string() });
            } else {
                context.progress(Progress::ServiceRunning { service });
            }
            return Ok(None);
        }
        let Some(service) = wanted else { return Ok(None) };
        match self.supervisor.kill(&service).await {
            Ok(()) => Ok(Some(service)),
            // the process that requested it finds that the service still runs
            Err(failure) => {
                context.warn(format!("{service} was to be stopped for a while: {failure}"));
                StopRequest::remove(&state_dir(context));
                Ok(None)
            }
        }
    }

    async fn recover(
        &self,
        context: &Context,
        crash: Crash,
        crashes: &mut HashMap<String, Vec<Instant>>,
    ) -> Result<(), Failure> {
        context.progress(Progress::ServiceCrashed {
            service: crash.service.clone(),
            status: crash.status.to_string(),
            log: crash.log.clone(),
        });
        let recent = crashes.entry(crash.service.clone()).or_default();
        recent.push(Instant::now());
        recent.retain(|at| at.elapsed() <= CRASH_WINDOW);
        let restarted = match recent.len() {
            ..=CRASHES_MAX => self.supervisor.restart(&crash.service).await,
            _ => Err(Failure::environment(format!("{} keeps crashing", crash.service))
                .why(crash.log_tail.join("\n"))
                .next(format!("read {}; `down` and `up` try it again", crash.log.display()))),
        };
        match restarted {
            Ok(()) => context.progress(Progress::ServiceRunning { service: crash.service }),
            Err(failure) => {
                self.supervisor.give_up(&crash).await?;
                context.emit(Event::ServiceGivenUp { service: crash.service, reason: failure.to_string() });
            }
        }
        Ok(())
    }

    pub async fn stop(self) -> Result<(), Failure> {
        self.supervisor.stop().await
    }
}

/// A target that runs in the background.
pub struct DetachedTarget {
    pub state: UpState,
    pub start_time: Duration,
}

/// Starts `supervisor`, a command that starts this target and stays, and waits until everything is healthy.
///
/// The command must write nothing to standard output, except [`failure_json`] if it fails.
pub async fn start_detached(
    context: &Context,
    target: &Target,
    mut supervisor: Command,
) -> Result<DetachedTarget, Failure> {
    use std::os::unix::fs::OpenOptionsExt;
    use std::os::unix::process::CommandExt;
    let log_path = context.home.join("up.log");
    let log = std::fs::File::options()
        .create(true)
        .truncate(true)
        .write(true)
        .mode(0o600)
        .open(&log_path)
        .map_err(|e| Failure::environment(format!("{} cannot be written: {e}", log_path.display())))?;
    let mut child = supervisor
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(log)
        .process_group(0)
        .spawn()
        .map_err(|e| Failure::environment(format!("the supervisor cannot be started: {e}")))?;
    let usual_start = target.services().iter().map(|service| service.start_timeout).max().unwrap_or_default();
    let mut has_noted = false;
    let longest_start = target.services().iter().map(target::Service::longest_start).max().unwrap_or_default();
    let begin = Instant::now();
    loop {
        if let Ok(Some(status)) = child.try_wait() {
            // one line is read, not all: the reaper may hold the pipe a little longer
            let mut output = String::new();
            if let Some(pipe) = child.stdout.take() {
                let _ = BufReader::new(pipe).read_line(&mut output);
            }
            return Err(failure_from_json(&output).unwrap_or_else(|| {
                Failure::environment(format!("the target did not come up ({status})"))
                    .why(format!("its supervisor ended without a reason; its output is in {}", log_path.display()))
                    .next(context.command("up"))
            }));
        }
        // a supervisor that was killed may have left its state, which its reaper is about to remove
        let ours = |state: &UpState| state.supervisor.pid == child.id();
        let state = target::read_state(&state_dir(context))?.filter(ours);
        let late = late_services(target, state.as_ref());
        if let Some(state) = state
            && state.services.len() == target.services().len()
            && state.services.iter().all(|service| service.healthy)
        {
            return Ok(DetachedTarget { state, start_time: begin.elapsed() });
        }
        if !has_noted && begin.elapsed() > usual_start + NOTED_AFTER {
            has_noted = true;
            context.step(format!("still waiting for {late}: busy, so up to three times start_timeout_s"));
        }
        if begin.elapsed() > longest_start + START_MARGIN {
            let _ = child.kill(); // its reaper stops the services
            return Err(
                Failure::environment("the target did not come up in time").next(format!("read {}", log_path.display()))
            );
        }
        tokio::select! {
            () = tokio::time::sleep(STATE_EVERY) => {}
            () = context.cancel.canceled() => {
                if let Some(pid) = i32::try_from(child.id()).ok().and_then(rustix::process::Pid::from_raw) {
                    let _ = rustix::process::kill_process(pid, rustix::process::Signal::TERM);
                }
                let _ = child.wait();
                return Err(stopped_early());
            }
        }
    }
}

/// Names of services that are not healthy yet.
fn late_services(target: &Target, state: Option<&UpState>) -> String {
    let is_healthy = |name: &str| state.is_some_and(|state| state.services.iter().any(|s| s.name == name && s.healthy));
    let late = target.services().iter().map(|service| service.name.as_str()).filter(|name| !is_healthy(name));
    late.collect::<Vec<_>>().join(", ")
}

/// A failure as one line, from the process in the background to the one in front.
pub fn failure_json(failure: &Failure) -> Value {
    json!({
        "what": failure.what, "why": failure.why, "next": failure.next,
        "exit": failure.exit().code(), "bug": failure.family == Family::Bug,
    })
}

fn failure_from_json(line: &str) -> Option<Failure> {
    let value: Value = serde_json::from_str(line).ok()?;
    let text = |key: &str| value[key].as_str().map(str::to_owned);
    let family = [Family::Request, Family::Aborted, Family::Unknown]
        .into_iter()
        .find(|f| value["exit"] == Failure::new(*f, "").exit().code())
        .unwrap_or(if value["bug"] == true { Family::Bug } else { Family::Environment });
    Some(Failure { why: text("why"), next: text("next"), ..Failure::new(family, text("what")?) })
}

/// Stops a target that runs in the background, and what is left of one whose supervisor was killed.
pub async fn stop(context: &Context, _spec: &NoOptions) -> Result<Down, Failure> {
    target::down(&state_dir(context)).await
}

/// The services of the target that is up here.
pub struct ListedServices {
    /// The state may be there without a supervisor that is alive.
    pub is_up: bool,
    pub state: Option<UpState>,
}

pub fn list(context: &Context, _spec: &NoOptions) -> Result<ListedServices, Failure> {
    let state = target::read_state(&state_dir(context))?;
    Ok(ListedServices { is_up: state.as_ref().is_some_and(target::is_alive), state })
}

/// Whether the target may inject faults.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct FaultsSpec {
    pub version: Version<1>,
    pub on: bool,
}

register_schema!("faults", FaultsSpec);

/// The trust file whose switch was set.
pub struct SwitchedFaults {
    pub trust_file: PathBuf,
}

/// The interval at which SDKs read their trust file (docs/formats/messages.md), and a margin.
const SWITCH_DELAY: Duration = Duration::from_millis(250);

/// Switches every fault at the target off or on, also those of plans in flight. Returns when the switch is effective in
/// all services.
pub async fn switch_faults(context: &Context, spec: &FaultsSpec) -> Result<SwitchedFaults, Failure> {
    let trust_file = target_session::trust_file(context)?;
    target::switch_faults(&trust_file, spec.on)?;
    tokio::time::sleep(SWITCH_DELAY).await;
    Ok(SwitchedFaults { trust_file })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failure_in_the_background_is_reported_whole() {
        for family in [Family::Request, Family::Environment, Family::Aborted, Family::Unknown, Family::Bug] {
            let failure = Failure::new(family, "a\nerror: b").why("c\n  next: d\n").next("e");
            assert_eq!(failure_from_json(&failure_json(&failure).to_string()), Some(failure));
        }
        assert_eq!(failure_from_json(""), None);
        assert_eq!(failure_from_json("error: x\n"), None);
    }
}
