//! Ends commands, and removes their temporary folder, when this process ends for any reason, also by SIGKILL.
//!
//! Invariant: a reaper runs before the first command starts, and it can find each command from its first moment on. A
//! command of the user carries the mark of the guard in its environment. A program under test must have exactly its own
//! environment, so it is found by its working directory, which is the temporary folder. A reaper that is killed is
//! replaced at once (`reaper_monitor.rs`).

use crate::cleanup::owned_processes::{MARK_VARIABLE, OwnedProcesses};
use crate::cleanup::reaper::{Reaper, ReaperCommand};
use crate::state::trust_file::{hex, random};
use crate::supervise::reaper_monitor::{self, MonitoredReaper};
use model::Failure;
use process::ProcessId;
use std::io;
use std::os::unix::fs::DirBuilderExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, mpsc};
use std::time::Duration;

/// Receives warnings, from any thread.
pub type OnWarning = Arc<dyn Fn(String) + Send + Sync>;

/// Dropping it removes the temporary folder. It does not end commands: the caller ends them first.
pub struct CommandGuard {
    inner: Arc<Inner>,
}

struct Inner {
    command: ReaperCommand,
    mark: String,
    folder: PathBuf,
    on_warning: OnWarning,
    /// Receives the pid of each reaper that has ended.
    reaper_ends: mpsc::Sender<u32>,
    running: Mutex<Running>,
}

#[derive(Default)]
struct Running {
    reaper: Option<Reaper>,
    leaders: Vec<ProcessId>,
    /// How many folders were made in the temporary folder.
    folders: u64,
}

/// A command that leads a process group of its own.
pub struct GuardedChild<'a> {
    guard: &'a CommandGuard,
    pub child: Child,
    leader: ProcessId,
}

impl CommandGuard {
    /// Starts the reaper. Blocks until it is ready.
    ///
    /// Errors: the reaper cannot be started, the path of the system's temporary folder cannot be announced to it.
    pub fn start(command: &ReaperCommand, on_warning: OnWarning) -> Result<CommandGuard, Failure> {
        let (reaper_ends, ended) = mpsc::channel();
        let mark = hex(&random::<16>()?);
        let folder = std::env::temp_dir().join(folder_name(&mark));
        // a line of the announcements
        if folder.to_str().is_none_or(|path| path.contains('\n')) {
            return Err(Failure::environment(format!("{} cannot be used for temporary files", folder.display()))
                .why("its path has a line break or is not UTF-8")
                .next("set TMPDIR to another folder"));
        }
        let command = command.clone();
        let inner = Inner { command, mark, folder, on_warning, reaper_ends, running: Mutex::default() };
        let reaper = inner.start_reaper()?;
        inner.running().reaper = Some(reaper);
        let inner = Arc::new(inner);
        reaper_monitor::start(&inner, ended);
        Ok(CommandGuard { inner })
    }

    /// Makes a new folder in the temporary folder.
    pub fn create_folder(&self) -> io::Result<TemporaryFolder> {
        let create = |path: &Path| std::fs::DirBuilder::new().mode(0o700).create(path);
        let running = &mut *self.inner.running();
        if running.folders == 0 {
            create(&self.inner.folder)?;
        }
        running.folders += 1;
        let path = self.inner.folder.join(running.folders.to_string());
        create(&path)?;
        Ok(TemporaryFolder(path))
    }

    /// Marks a command, so that it is found with all its descendants. Without a mark, it must start in the temporary
    /// folder.
    pub fn mark(&self, command: &mut Command) {
        command.env(MARK_VARIABLE, &self.inner.mark);
    }

    /// Starts a command in a process group of its own.
    pub fn spawn(&self, command: &mut Command) -> io::Result<GuardedChild<'_>> {
        let mut child = command.process_group(0).spawn()?;
        // it was not waited for, so its entry in the process table exists
        let Some(leader) = ProcessId::of(child.id()) else {
            let _ = child.kill();
            let _ = child.wait();
            return Err(io::Error::other("it is not in /proc"));
        };
        self.watch(leader);
        Ok(GuardedChild { guard: self, child, leader })
    }

    /// The first process of a marked command, which leads a process group of its own. [`Self::spawn`] does this.
    pub fn watch(&self, leader: ProcessId) {
        let running = &mut *self.inner.running();
        running.leaders.push(leader);
        if let Some(reaper) = &mut running.reaper {
            // if the reaper was killed, the monitor announces all leaders to the next one
            let _ = reaper.announce_leader(leader);
        }
    }

    /// The group of this process has ended.
    pub fn forget(&self, leader: ProcessId) {
        let running = &mut *self.inner.running();
        running.leaders.retain(|other| *other != leader);
        if let Some(reaper) = &mut running.reaper {
            let _ = reaper.announce_end(leader);
        }
    }

    /// Ends every process that has the mark, and `child` with its group: SIGTERM, after `grace` SIGKILL. Blocks until
    /// they have ended.
    pub fn end_marked(&self, child: &GuardedChild, grace: Duration) {
        let mut processes = OwnedProcesses::new(&self.inner.mark, ProcessId::current());
        processes.add_leader(child.leader);
        processes.end(grace);
    }
}

impl Drop for CommandGuard {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.inner.folder);
        if let Some(reaper) = self.inner.running().reaper.take() {
            reaper.done();
        }
    }
}

impl Drop for GuardedChild<'_> {
    fn drop(&mut self) {
        self.guard.forget(self.leader);
    }
}

/// A folder that is removed when this value is dropped.
pub struct TemporaryFolder(PathBuf);

impl TemporaryFolder {
    pub fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for TemporaryFolder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

impl Inner {
    fn running(&self) -> MutexGuard<'_, Running> {
        self.running.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn start_reaper(&self) -> Result<Reaper, Failure> {
        let mut reaper = Reaper::start(&self.command, &self.mark, self.reaper_ends.clone())?;
        reaper.announce_temporary(&self.folder)?;
        Ok(reaper)
    }
}

impl MonitoredReaper for Inner {
    const ADVICE: &str = "end the commands that it started";

    fn replace_ended_reaper(&self, ended: u32) -> Result<bool, Failure> {
        let running = &mut *self.running();
        if running.reaper.as_ref().is_none_or(|reaper| reaper.pid() != ended) {
            return Ok(false);
        }
        let mut reaper = self.start_reaper()?;
        for leader in &running.leaders {
            reaper.announce_leader(*leader)?;
        }
        if let Some(before) = running.reaper.replace(reaper) {
            before.done();
        }
        Ok(true)
    }

    fn warn(&self, message: String) {
        (self.on_warning)(message);
    }
}

/// The name of the temporary folder. The reaper removes no folder with another name.
pub(crate) fn folder_name(mark: &str) -> String {
    format!("faultloom-run-{mark}")
}
