//! Nothing stays behind even when the tool is killed by SIGKILL: a second process watches it through a pipe.
//!
//! The supervisor starts its own binary again (hidden subcommand) and keeps the writing end of its standard input:
//!
//! ```text
//! mark <mark> <pid> <start ticks>   first line: the mark of this up, the supervisor
//! leader <pid> <start ticks>        a service was started
//! gone <pid> <start ticks>          it has ended, nothing of it is left
//! file <path>                       to be removed at the end, if it still contains the mark
//! folder <path>                     the same for a status folder
//! done                              the supervisor has stopped everything itself
//! ```
//!
//! If the pipe ends without `done`, the reaper ends everything announced, and whatever carries the mark, then removes
//! the files. The writing end is closed on exec, so it is open as long as the supervisor lives *or* a service of its
//! is between fork and exec: no service can be started unseen. The reaper has its own session, ignores SIGINT,
//! SIGTERM, SIGHUP and SIGQUIT, holds no terminal and no pipe of the tool's.

use crate::ending::Belongings;
use crate::process_table::ProcessId;
use crate::status_dir;
use model::Failure;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::time::Duration;

const GRACE: Duration = Duration::from_secs(1);
const READY: &str = "ready";
const READY_WITHIN: Duration = Duration::from_secs(10);

/// How to start the reaper: a program and arguments with which it calls [`reaper_main`] and nothing else.
#[derive(Clone, Debug)]
pub struct ReaperCommand {
    pub program: PathBuf,
    pub arguments: Vec<String>,
}

impl ReaperCommand {
    /// The running binary with one hidden subcommand, such as `reaper`.
    pub fn own_binary(subcommand: &str) -> ReaperCommand {
        // A binary that was rebuilt meanwhile has no path any more; the kernel's link still leads to it.
        let program = std::env::current_exe().ok().filter(|path| path.exists());
        ReaperCommand {
            program: program.unwrap_or_else(|| PathBuf::from("/proc/self/exe")),
            arguments: vec![subcommand.to_owned()],
        }
    }
}

/// The supervisor's end.
#[derive(Debug)]
pub(crate) struct Reaper {
    child: Child,
    announcements: ChildStdin,
}

impl Reaper {
    /// Blocks until the reaper says it is ready, for at most 10 s.
    pub fn start(command: &ReaperCommand, mark: &str) -> Result<Reaper, Failure> {
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
        let (tell, told) = std::sync::mpsc::channel();
        std::thread::spawn(move || {
            let mut line = String::new();
            let _ = BufReader::new(output).read_line(&mut line);
            let _ = tell.send(line);
        });
        if told.recv_timeout(READY_WITHIN).ok().as_deref().map(str::trim) != Some(READY) {
            let _ = child.kill();
            let _ = child.wait();
            return Err(cannot(format!("{} did not get ready", command.program.display())));
        }
        let mut reaper = Reaper { child, announcements };
        let supervisor = ProcessId::current();
        reaper.say(&format!("mark {mark} {} {}", supervisor.pid, supervisor.start_ticks))?;
        Ok(reaper)
    }

    pub fn leader(&mut self, leader: ProcessId) -> Result<(), Failure> {
        self.say(&format!("leader {} {}", leader.pid, leader.start_ticks))
    }

    pub fn gone(&mut self, leader: ProcessId) -> Result<(), Failure> {
        self.say(&format!("gone {} {}", leader.pid, leader.start_ticks))
    }

    pub fn file(&mut self, path: &Path) -> Result<(), Failure> {
        self.say(&format!("file {}", path.display()))
    }

    pub fn folder(&mut self, path: &Path) -> Result<(), Failure> {
        self.say(&format!("folder {}", path.display()))
    }

    /// Everything is stopped: the reaper ends without doing anything. Waits for it.
    pub fn done(mut self) {
        let told = self.say("done").is_ok();
        drop(self.announcements);
        if !told {
            let _ = self.child.kill();
        }
        let _ = self.child.wait();
    }

    fn say(&mut self, line: &str) -> Result<(), Failure> {
        self.announcements.write_all(format!("{line}\n").as_bytes()).map_err(|error| {
            Failure::environment("the reaper has ended; without it services could be left behind")
                .why(error.to_string())
                .next("start again; if it happens again, find out what kills `faultloom-reaper`")
        })
    }
}

/// What the reaper process runs; to be called by the hidden subcommand before anything else is started. Never returns.
pub fn reaper_main() -> ! {
    // A thread of its own, so that it may also be called from inside an async runtime.
    let _ = std::thread::spawn(watch).join();
    std::process::exit(0)
}

fn watch() {
    let _ = rustix::process::setsid();
    let Ok(runtime) = tokio::runtime::Builder::new_current_thread().enable_all().build() else {
        return;
    };
    let _inside = runtime.enter();
    use tokio::signal::unix::{SignalKind, signal};
    let kinds = [SignalKind::interrupt(), SignalKind::terminate(), SignalKind::hangup(), SignalKind::quit()];
    // Caught and never looked at: ignored, without unsafe code. The handlers stay until the process ends.
    let _ignored: Vec<_> = kinds.into_iter().map(signal).collect();
    let mut output = std::io::stdout();
    if writeln!(output, "{READY}").and_then(|()| output.flush()).is_err() {
        return;
    }
    let mut watched = Watched::default();
    for line in std::io::stdin().lock().lines() {
        match line {
            Ok(line) if line == "done" => return,
            Ok(line) => watched.hear(&line),
            Err(_) => break,
        }
    }
    watched.end();
}

#[derive(Default)]
struct Watched {
    mark: String,
    belongings: Option<Belongings>,
    files: Vec<PathBuf>,
    folders: Vec<PathBuf>,
}

impl Watched {
    fn hear(&mut self, line: &str) {
        if let Some(path) = line.strip_prefix("file ") {
            self.files.push(PathBuf::from(path));
            return;
        }
        if let Some(path) = line.strip_prefix("folder ") {
            self.folders.push(PathBuf::from(path));
            return;
        }
        let words: Vec<&str> = line.split(' ').collect();
        let process =
            |pid: &str, ticks: &str| Some(ProcessId { pid: pid.parse().ok()?, start_ticks: ticks.parse().ok()? });
        match (words.as_slice(), &mut self.belongings) {
            (["mark", mark, pid, ticks], None) => {
                self.mark = (*mark).to_owned();
                self.belongings = process(pid, ticks).map(|supervisor| Belongings::new(mark, supervisor));
            }
            (["leader", pid, ticks], Some(belongings)) => {
                if let Some(leader) = process(pid, ticks) {
                    belongings.add_leader(leader);
                }
            }
            (["gone", pid, ticks], Some(belongings)) => {
                if let Some(leader) = process(pid, ticks) {
                    belongings.forget_leader(leader);
                }
            }
            _ => {}
        }
    }

    fn end(mut self) {
        if let Some(belongings) = &mut self.belongings {
            belongings.end(GRACE);
        }
        for file in &self.files {
            remove_marked(file, &self.mark);
        }
        for folder in &self.folders {
            status_dir::remove(folder, &self.mark);
        }
    }
}

/// Removes a file of ours; a later `up` may already have put its own in the same place.
pub(crate) fn remove_marked(file: &Path, mark: &str) {
    if std::fs::read_to_string(file).is_ok_and(|text| text.contains(mark)) {
        let _ = std::fs::remove_file(file);
    }
}
