//! Stops the services even when the tool is killed by SIGKILL: a second process monitors it through a pipe.
//!
//! The supervisor starts its own binary again (hidden subcommand) and keeps the writing end of its standard input:
//!
//! ```text
//! mark <mark> <pid> <start ticks>   first line: the mark of this up, the supervisor
//! leader <pid> <start ticks>        a service was started
//! gone <pid> <start ticks>          it has ended with all its processes
//! file <path>                       to be removed at the end if it still contains the mark
//! folder <path>                     a status folder, likewise
//! temporary <path>                  a folder that only processes of this up work in, to be removed
//! done                              the supervisor has stopped everything itself
//! ```
//!
//! The reaper keeps its standard output open, so its death is noticed at once: the supervisor starts another reaper
//! with the same announcements (`reaper_monitor.rs`).
//!
//! If the pipe ends without `done`, the reaper ends all announced processes and all that carry the mark, then removes
//! the files. The writing end is closed on exec, so it is open as long as the supervisor lives *or* one of its services
//! is between fork and exec: no service can start unnoticed. The reaper has its own session, ignores SIGINT, SIGTERM,
//! SIGHUP and SIGQUIT, and holds neither a terminal nor a pipe of the tool.

use crate::cleanup::command_guard::folder_name;
use crate::cleanup::owned_processes::OwnedProcesses;
use crate::state::{atomic_file, status_dir};
use model::Failure;
use process::ProcessId;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc;
use std::time::Duration;

const GRACE: Duration = Duration::from_secs(1);
const READY: &str = "ready";
const READY_TIMEOUT: Duration = Duration::from_secs(10);

/// How to start the reaper: a program and arguments with which it calls [`reaper_main`] and nothing else.
#[derive(Clone, Debug)]
pub struct ReaperCommand {
    pub program: PathBuf,
    pub arguments: Vec<String>,
}

impl ReaperCommand {
    /// The running binary with one hidden subcommand, such as `reaper`.
    pub fn own_binary(subcommand: &str) -> ReaperCommand {
        // A binary that was rebuilt meanwhile has no path any more, but the kernel's link still refers to it.
        let program = std::env::current_exe().ok().filter(|path| path.exists());
        ReaperCommand {
            program: program.unwrap_or_else(|| PathBuf::from("/proc/self/exe")),
            arguments: vec![subcommand.to_owned()],
        }
    }
}

/// The supervisor's end of the pipe.
#[derive(Debug)]
pub(crate) struct Reaper {
    child: Child,
    announcements: ChildStdin,
}

impl Reaper {
    /// Blocks until the reaper is ready, for at most 10 s. `ended` receives its pid when it has ended for any reason.
    pub fn start(command: &ReaperCommand, mark: &str, ended: mpsc::Sender<u32>) -> Result<Reaper, Failure> {
        let cannot = |why: String| {
            Failure::environment("cannot start the reaper, which would end the services if this tool were killed")
                .why(why)
                .next("check that more processes may be started (ulimit -u) and that the binary is intact")
        };
        let mut child = Command::new(&command.program)
            .args(&command.arguments)
            .arg0("faultloom-reaper")
            .current_dir("/")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .map_err(|error| cannot(format!("{}: {error}", command.program.display())))?;
        let (Some(announcements), Some(output)) = (child.stdin.take(), child.stdout.take()) else {
            return Err(cannot("it has no pipes".into()));
        };
        let (sender, receiver) = mpsc::channel();
        let pid = child.id();
        std::thread::spawn(move || {
            let mut output = BufReader::new(output);
            let mut line = String::new();
            let _ = output.read_line(&mut line);
            let _ = sender.send(line);
            // it writes nothing more, so this returns when the kernel closes its end
            let _ = std::io::copy(&mut output, &mut std::io::sink());
            let _ = ended.send(pid);
        });
        if receiver.recv_timeout(READY_TIMEOUT).ok().as_deref().map(str::trim) != Some(READY) {
            let _ = child.kill();
            let _ = child.wait();
            return Err(cannot(format!("{} did not become ready", command.program.display())));
        }
        let mut reaper = Reaper { child, announcements };
        let supervisor = ProcessId::current();
        reaper.send(&format!("mark {mark} {} {}", supervisor.pid, supervisor.start_ticks))?;
        tracing::debug!(pid = reaper.child.id(), mark, "reaper started");
        Ok(reaper)
    }

    pub fn announce_leader(&mut self, leader: ProcessId) -> Result<(), Failure> {
        self.send(&format!("leader {} {}", leader.pid, leader.start_ticks))
    }

    pub fn announce_end(&mut self, leader: ProcessId) -> Result<(), Failure> {
        self.send(&format!("gone {} {}", leader.pid, leader.start_ticks))
    }

    pub fn announce_file(&mut self, path: &Path) -> Result<(), Failure> {
        self.send(&format!("file {}", path.display()))
    }

    pub fn announce_folder(&mut self, path: &Path) -> Result<(), Failure> {
        self.send(&format!("folder {}", path.display()))
    }

    /// The name must be [`folder_name`] of the mark, and the path have no line break.
    pub fn announce_temporary(&mut self, path: &Path) -> Result<(), Failure> {
        self.send(&format!("temporary {}", path.display()))
    }

    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Ends the reaper after everything has been stopped. Waits for it.
    pub fn done(mut self) {
        let sent = self.send("done").is_ok();
        drop(self.announcements);
        if !sent {
            let _ = self.child.kill();
        }
        let _ = self.child.wait();
    }

    fn send(&mut self, line: &str) -> Result<(), Failure> {
        self.announcements.write_all(format!("{line}\n").as_bytes()).map_err(|error| {
            Failure::environment("the reaper has ended; without it services could be left behind")
                .why(error.to_string())
                .next("start again; if this happens again, check what kills `faultloom-reaper`")
        })
    }
}

/// The main function of the reaper process. The hidden subcommand must call it before starting anything else. Never
/// returns.
pub fn reaper_main() -> ! {
    // In a new thread, so that it can also be called inside an async runtime.
    let _ = std::thread::spawn(run).join();
    std::process::exit(0)
}

fn run() {
    let _ = rustix::process::setsid();
    let Ok(runtime) = tokio::runtime::Builder::new_current_thread().enable_all().build() else {
        return;
    };
    let _inside = runtime.enter();
    use tokio::signal::unix::{SignalKind, signal};
    let kinds = [SignalKind::interrupt(), SignalKind::terminate(), SignalKind::hangup(), SignalKind::quit()];
    // A handler that is never polled ignores the signal without unsafe code. It stays until the process ends.
    let _ignored: Vec<_> = kinds.into_iter().map(signal).collect();
    let mut output = std::io::stdout();
    if writeln!(output, "{READY}").and_then(|()| output.flush()).is_err() {
        return;
    }
    let mut announced = Announced::default();
    for line in std::io::stdin().lock().lines() {
        match line {
            Ok(line) if line == "done" => return,
            Ok(line) => announced.add(&line),
            Err(_) => break,
        }
    }
    announced.end();
}

#[derive(Default)]
struct Announced {
    mark: String,
    /// Its pid.
    supervisor: u32,
    processes: Option<OwnedProcesses>,
    files: Vec<PathBuf>,
    folders: Vec<PathBuf>,
    temporary: Vec<PathBuf>,
}

impl Announced {
    fn add(&mut self, line: &str) {
        if let Some(path) = line.strip_prefix("file ") {
            self.files.push(PathBuf::from(path));
            return;
        }
        if let Some(path) = line.strip_prefix("folder ") {
            self.folders.push(PathBuf::from(path));
            return;
        }
        if let Some(path) = line.strip_prefix("temporary ").map(PathBuf::from) {
            // a path that was damaged on its way must not lead to the removal of another folder
            let has_name = path.file_name().is_some_and(|name| *name == *folder_name(&self.mark));
            if let (true, Some(processes)) = (has_name, &mut self.processes) {
                // the kernel reports working directories without symbolic links
                let parent = path.parent().and_then(|parent| parent.canonicalize().ok());
                processes.add_folder(parent.map_or(path.clone(), |parent| parent.join(folder_name(&self.mark))));
                self.temporary.push(path);
            }
            return;
        }
        let words: Vec<&str> = line.split(' ').collect();
        let process =
            |pid: &str, ticks: &str| Some(ProcessId { pid: pid.parse().ok()?, start_ticks: ticks.parse().ok()? });
        match (words.as_slice(), &mut self.processes) {
            (["mark", mark, pid, ticks], None) => {
                self.mark = (*mark).to_owned();
                let supervisor = process(pid, ticks);
                self.supervisor = supervisor.map_or(0, |supervisor| supervisor.pid);
                self.processes = supervisor.map(|supervisor| OwnedProcesses::new(mark, supervisor));
            }
            (["leader", pid, ticks], Some(processes)) => {
                if let Some(leader) = process(pid, ticks) {
                    processes.add_leader(leader);
                }
            }
            (["gone", pid, ticks], Some(processes)) => {
                if let Some(leader) = process(pid, ticks) {
                    processes.remove_leader(leader);
                }
            }
            _ => {}
        }
    }

    fn end(mut self) {
        if let Some(processes) = &mut self.processes {
            processes.end(GRACE);
        }
        for file in &self.files {
            remove_marked(file, &self.mark, self.supervisor);
        }
        for folder in &self.folders {
            status_dir::remove(folder, &self.mark, self.supervisor);
        }
        for folder in &self.temporary {
            let _ = std::fs::remove_dir_all(folder);
        }
    }
}

/// Removes a file if it carries the mark; a later `up` may already have replaced it. What the process `supervisor` had
/// not completed is removed too: it may hold keys.
pub(crate) fn remove_marked(file: &Path, mark: &str, supervisor: u32) {
    let _ = std::fs::remove_file(atomic_file::temporary(file, supervisor));
    if std::fs::read_to_string(file).is_ok_and(|text| text.contains(mark)) {
        let _ = std::fs::remove_file(file);
    }
}
