//! `up.json`: the state of a running target, for `ps` and `down` in another terminal.
//!
//! Replaced by rename at every change, removed when everything is stopped. It holds no keys, only the path of the
//! trust file. If the supervisor and its reaper were killed, the file remains and [`down`] uses it to clean up.

use crate::cleanup::owned_processes::{GRACE, OwnedProcesses};
use crate::cleanup::reaper::remove_marked;
use crate::file::address::{Address, HttpAddress};
use crate::health::Health;
use crate::sdk::Sdk;
use crate::state::lock::lock;
use crate::state::{atomic_file, incomplete_up, status_dir, stop_request};
use model::Failure;
use process::{ProcDir, ProcessId, boot_id};
use rustix::process::Signal;
use serde::{Deserialize, Serialize};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant, SystemTime};

const FILE: &str = "up.json";
const FORMAT: u32 = 2;
/// How long [`down`] waits for the supervisor before it ends everything itself.
const DOWN_TIMEOUT: Duration = Duration::from_secs(10);

#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct UpState {
    /// 2; a file with another number is refused.
    pub format: u32,
    pub target: String,
    pub target_file: PathBuf,
    pub entry: Option<HttpAddress>,
    pub environment: String,
    pub trust_file: PathBuf,
    /// The value of `FAULTLOOM_UP` in every process of this `up`.
    pub mark: String,
    /// The boot id: start times are comparable only within one boot.
    pub boot: String,
    pub supervisor: ProcessId,
    /// In the order of the target file, without those that are not started yet.
    pub services: Vec<ServiceRecord>,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct ServiceRecord {
    pub name: String,
    /// Its first process; `None` if it is attached, that is, started by something else.
    pub process: Option<ProcessId>,
    pub started_unix_ms: u64,
    /// Whether it became healthy after its start. Use [`Health::check`] of `health` for its current state.
    pub healthy: bool,
    /// It kept crashing or could not be restarted, so this `up` does not start it again.
    #[serde(default)]
    pub given_up: bool,
    /// How often it was started again in this `up`.
    #[serde(default)]
    pub restarts: u32,
    pub health: Health,
    pub sdk: Sdk,
    pub addresses: Vec<Address>,
    pub log: Option<PathBuf>,
    pub support: bool,
}

impl ServiceRecord {
    /// Whether its first process still runs. Always true for an attached service: only its health is observable.
    pub fn is_alive(&self) -> bool {
        self.process.is_none_or(|process| process.is_alive())
    }

    pub fn uptime(&self) -> Duration {
        let started = SystemTime::UNIX_EPOCH + Duration::from_millis(self.started_unix_ms);
        SystemTime::now().duration_since(started).unwrap_or_default()
    }
}

/// The result of [`down`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Down {
    /// There was no `up` in this state folder.
    NothingUp,
    /// The supervisor stopped its services.
    Stopped { target: String, services: Vec<String> },
    /// The supervisor was dead or did not respond, so the remaining processes were stopped from here.
    CleanedUp { target: String, services: Vec<String> },
}

/// The state of the `up` in this folder, `None` if there is none. It may not run any more, see [`is_alive`].
pub fn read_state(state_dir: &Path) -> Result<Option<UpState>, Failure> {
    let path = state_file(state_dir);
    let unreadable = |why: String| {
        Failure::environment(format!("cannot read {}", path.display()))
            .why(why)
            .next("if no process of the target is running, remove that file")
    };
    let text = match std::fs::read_to_string(&path) {
        Ok(text) => text,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(unreadable(error.to_string())),
    };
    let state: UpState = serde_json::from_str(&text).map_err(|error| unreadable(error.to_string()))?;
    match state.format {
        FORMAT => Ok(Some(state)),
        other => Err(unreadable(format!("its format is {other}, but this version reads format {FORMAT}"))),
    }
}

/// Whether the supervisor that wrote the state still runs.
pub fn is_alive(state: &UpState) -> bool {
    state.boot == boot_id().unwrap_or_default() && state.supervisor.is_alive()
}

/// Stops the `up` of this folder from another process: signals its supervisor, waits up to 10 s, then ends the
/// remaining processes.
///
/// Errors: the state cannot be read, or a process would not end (family `Environment`).
pub async fn down(state_dir: &Path) -> Result<Down, Failure> {
    let state_dir = state_dir.to_owned();
    let task = tokio::task::spawn_blocking(move || down_blocking(&state_dir));
    task.await.unwrap_or_else(|error| Err(Failure::new(model::Family::Bug, "down failed").why(error.to_string())))
}

fn down_blocking(state_dir: &Path) -> Result<Down, Failure> {
    let down = end_up(state_dir)?;
    // held by an `up` that starts meanwhile
    if let Ok(_lock) = lock(state_dir) {
        incomplete_up::remove(state_dir);
    }
    Ok(down)
}

fn end_up(state_dir: &Path) -> Result<Down, Failure> {
    let Some(state) = read_state(state_dir)? else {
        return Ok(Down::NothingUp);
    };
    let mut processes = state.processes();
    let was_alive = is_alive(&state);
    if was_alive {
        state.supervisor.signal(Signal::TERM);
        let begin = Instant::now();
        while begin.elapsed() < DOWN_TIMEOUT {
            if !state.supervisor.is_alive() && processes.alive().is_empty() {
                break;
            }
            std::thread::sleep(Duration::from_millis(30));
        }
    }
    let services = state.services.iter().map(|service| service.name.clone()).collect();
    let target = state.target.clone();
    match was_alive && !state.supervisor.is_alive() && processes.alive().is_empty() {
        true => {
            state.remove_files(state_dir);
            Ok(Down::Stopped { target, services })
        }
        false => {
            if is_alive(&state) {
                state.supervisor.signal(Signal::KILL); // or it would treat the end of its services as crashes
            }
            state.clean_up(state_dir)?;
            Ok(Down::CleanedUp { target, services })
        }
    }
}

impl UpState {
    pub(crate) const FORMAT: u32 = FORMAT;

    /// Replaces the file in the folder.
    pub(crate) fn write(&self, state_dir: &Path) -> Result<(), Failure> {
        let text = serde_json::to_string_pretty(self).map_err(|error| {
            Failure::new(model::Family::Bug, "the state cannot be serialized").why(error.to_string())
        })?;
        atomic_file::write(&state_file(state_dir), &(text + "\n"))
    }

    /// Ends the remaining processes of an `up` whose supervisor has ended, and removes its files. Blocks for up to
    /// 18 s.
    pub(crate) fn clean_up(&self, state_dir: &Path) -> Result<(), Failure> {
        tracing::info!(target_name = self.target, "ending the processes of a supervisor that has ended");
        if self.boot == boot_id().unwrap_or_default() {
            let left = self.processes().end(GRACE);
            if !left.is_empty() {
                return Err(would_not_end(&left));
            }
        }
        self.remove_files(state_dir);
        Ok(())
    }

    pub(crate) fn remove_files(&self, state_dir: &Path) {
        let supervisor = self.supervisor.pid;
        remove_marked(&self.trust_file, &self.mark, supervisor);
        status_dir::remove(&status_dir::path(state_dir), &self.mark, supervisor);
        remove_marked(&stop_request::file(state_dir), &self.mark, supervisor);
        remove_marked(&state_file(state_dir), &self.mark, supervisor);
    }

    fn processes(&self) -> OwnedProcesses {
        let mut processes = OwnedProcesses::new(&self.mark, self.supervisor);
        self.services.iter().filter_map(|service| service.process).for_each(|leader| processes.add_leader(leader));
        processes
    }
}

pub(crate) fn state_file(state_dir: &Path) -> PathBuf {
    state_dir.join(FILE)
}

pub(crate) fn would_not_end(left: &[ProcessId]) -> Failure {
    let name = |pid| ProcDir::open(pid).and_then(|process| process.stat()).map(|stat| stat.comm).unwrap_or_default();
    let names: Vec<String> =
        left.iter().map(|process| format!("{} (pid {})", name(process.pid), process.pid)).collect();
    Failure::environment("some processes did not end, even after SIGKILL")
        .why(names.join(", "))
        .next("they are stuck in the kernel (a disk or network file system); list them with `ps`")
}
