//! A program of the user's that decides about a request. It reads the request, its reply and its trace as JSON from
//! standard input. Exit code 0 is a pass and 1 a failure, whose reason is its first line of output. Anything else is
//! unknown.
//!
//! It runs in a process group of its own, which is killed when the program has ended, after a time limit, and when the
//! sweep is stopped. If this process is killed, the guard kills the group.

use super::Decision;
use model::{Failure, is_deceptive};
use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, kill_process_group, waitid};
use std::path::PathBuf;
use std::process::Stdio;
use std::sync::Arc;
use std::time::Duration;
use target::{CommandGuard, ProcessId};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::process::{Child, Command};

const TIMEOUT: Duration = Duration::from_secs(10);
const OUTPUT_BYTES_MAX: u64 = 64 << 10;
const REASON_CHARS_MAX: usize = 200;
/// First and longest pause between two checks whether it has ended.
const POLLS: (Duration, Duration) = (Duration::from_millis(1), Duration::from_millis(20));

#[derive(Clone)]
pub struct ProgramOracle {
    /// Run by `sh -c`.
    command: String,
    directory: PathBuf,
    guard: Arc<CommandGuard>,
    timeout: Duration,
}

impl ProgramOracle {
    /// # Errors
    /// Request, if the command is empty or the directory does not exist.
    pub fn new(command: &str, directory: PathBuf, guard: Arc<CommandGuard>) -> Result<ProgramOracle, Failure> {
        if command.trim().is_empty() {
            return Err(Failure::request("the command of a check is empty").next("such as --check 'python3 check.py'"));
        }
        if !directory.is_dir() {
            return Err(Failure::request(format!("the folder of a check does not exist: {}", directory.display())));
        }
        Ok(ProgramOracle { command: command.trim().to_owned(), directory, guard, timeout: TIMEOUT })
    }

    pub fn describe(&self) -> String {
        format!("program '{}'", self.command)
    }

    pub(crate) async fn decide(&self, input: &[u8]) -> Decision {
        match self.run(input).await {
            Ok(Ended { code: Some(0), .. }) => Decision::Pass,
            Ok(Ended { code: Some(1), reason }) => Decision::Fail(format!("{}: {reason}", self.describe())),
            Ok(Ended { code, reason }) => {
                let ended = code.map_or("it was killed".to_owned(), |code| format!("exit code {code}"));
                Decision::Unknown(format!("{}: {ended}: {reason}", self.describe()))
            }
            Err(why) => Decision::Unknown(format!("{}: {why}", self.describe())),
        }
    }

    async fn run(&self, input: &[u8]) -> Result<Ended, String> {
        let mut command = Command::new("sh");
        command
            .args(["-c", &self.command])
            .current_dir(&self.directory)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .process_group(0)
            .kill_on_drop(true);
        self.guard.mark(command.as_std_mut());
        let child = command.spawn().map_err(|error| format!("it cannot be started: {error}"))?;
        let mut group = Group::new(child, self.guard.clone())?;
        tokio::time::timeout(self.timeout, group.exchange(input))
            .await
            .unwrap_or_else(|_| Err(format!("it did not end within {} s", self.timeout.as_secs_f64())))
    }
}

struct Ended {
    /// None: killed by a signal.
    code: Option<i32>,
    /// The first line of output.
    reason: String,
}

/// A program with everything that it started. Dropping it kills the whole group. Its leader is not reaped before, so
/// that the group's id cannot belong to other processes.
struct Group {
    child: Child,
    id: ProcessId,
    leader: Pid,
    guard: Arc<CommandGuard>,
}

impl Group {
    fn new(child: Child, guard: Arc<CommandGuard>) -> Result<Group, String> {
        let pid = child.id().and_then(|pid| Some((pid, Pid::from_raw(i32::try_from(pid).ok()?)?)));
        let (pid, leader) = pid.ok_or("it has no process id")?;
        let id = ProcessId::of(pid).unwrap_or(ProcessId { pid, start_ticks: 0 });
        let group = Group { child, id, leader, guard };
        group.guard.watch(id);
        Ok(group)
    }

    async fn exchange(&mut self, input: &[u8]) -> Result<Ended, String> {
        let (Some(mut stdin), Some(stdout)) = (self.child.stdin.take(), self.child.stdout.take()) else {
            return Err("it has no pipes".to_owned());
        };
        let leader = self.leader;
        let write = async move {
            // a program that does not read its input may pass all the same
            let _ = stdin.write_all(input).await;
        };
        let read = async move {
            let mut output = Vec::new();
            let read = stdout.take(OUTPUT_BYTES_MAX + 1).read_to_end(&mut output).await;
            match read {
                Ok(n) if n as u64 > OUTPUT_BYTES_MAX => {
                    Err(format!("it wrote more than {} KiB", OUTPUT_BYTES_MAX >> 10))
                }
                Ok(_) => Ok(output),
                Err(error) => Err(format!("its output cannot be read: {error}")),
            }
        };
        let both = async {
            let ((), output) = tokio::join!(write, read);
            output
        };
        tokio::pin!(both);
        let ended = has_ended(leader);
        tokio::pin!(ended);
        let output = tokio::select! {
            output = &mut both => {
                let output = output?;
                ended.await;
                output
            }
            () = &mut ended => {
                // a process that it left behind may hold its output
                let _ = kill_process_group(leader, Signal::KILL);
                both.await?
            }
        };
        let _ = kill_process_group(leader, Signal::KILL);
        let status = self.child.wait().await.map_err(|error| format!("its exit code is unknown: {error}"))?;
        Ok(Ended { code: status.code(), reason: first_line(&output) })
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        // reaped: the group was killed before
        if self.child.id().is_some() {
            let _ = kill_process_group(self.leader, Signal::KILL);
        }
        self.guard.forget(self.id);
    }
}

/// Waits until the process has ended, without reaping it.
async fn has_ended(pid: Pid) {
    let (mut pause, longest) = POLLS;
    loop {
        let options = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
        match waitid(WaitId::Pid(pid), options) {
            Ok(None) => tokio::time::sleep(pause).await,
            Ok(Some(_)) | Err(_) => return,
        }
        pause = (pause * 2).min(longest);
    }
}

fn first_line(output: &[u8]) -> String {
    let text = String::from_utf8_lossy(output);
    let line = text.lines().map(str::trim).find(|line| !line.is_empty()).unwrap_or("it printed no reason");
    line.chars().filter(|c| !c.is_control() && !is_deceptive(*c)).take(REASON_CHARS_MAX).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Instant;
    use target::ReaperCommand;

    /// Everything that the guard needs of a reaper is that it reports to be ready and reads its input.
    fn program(command: &str) -> ProgramOracle {
        let reaper = ReaperCommand {
            program: "/bin/sh".into(),
            arguments: vec!["-c".into(), "echo ready; exec cat >/dev/null".into()],
        };
        let guard = Arc::new(CommandGuard::start(&reaper, Arc::new(|_| {})).unwrap());
        let oracle = ProgramOracle::new(command, std::env::temp_dir(), guard).unwrap();
        ProgramOracle { timeout: Duration::from_millis(700), ..oracle }
    }

    async fn decided(command: &str) -> String {
        match program(command).decide(b"{\"reply\": {\"status\": 500}}").await {
            Decision::Pass => "pass".to_owned(),
            Decision::Fail(why) => format!("fail {}", why.rsplit("': ").next().unwrap()),
            Decision::Unknown(why) => format!("unknown {}", why.rsplit("': ").next().unwrap()),
        }
    }

    #[tokio::test]
    async fn the_exit_code_decides_and_the_first_line_is_the_reason() {
        for (command, expected) in [
            ("true", "pass"),
            ("grep -q '\"status\": 500'", "pass"),
            ("printf '\\n  two orders \\nmore\\n'; exit 1", "fail two orders"),
            ("exit 1", "fail it printed no reason"),
            ("echo broken; exit 2", "unknown exit code 2: broken"),
            ("kill -KILL $$", "unknown it was killed: it printed no reason"),
            ("no-such-program-here", "unknown exit code 127: it printed no reason"),
            ("printf 'a\\033[31mb'; exit 1", "fail a[31mb"),
            ("head -c 70000 /dev/zero", "unknown it wrote more than 64 KiB"),
            ("yes", "unknown it wrote more than 64 KiB"),
            ("sleep 1000", "unknown it did not end within 0.7 s"),
        ] {
            assert_eq!(decided(command).await, expected, "{command}");
        }
    }

    #[tokio::test]
    async fn a_large_input_is_written_while_output_is_read() {
        let input = vec![b'x'; 1 << 20];
        for command in ["cat | head -c 60000 >/dev/null", "true", "cat | wc -c | grep -q 1048576"] {
            assert_eq!(program(command).decide(&input).await, Decision::Pass, "{command}");
        }
    }

    fn group_of(file: &std::path::Path) -> Option<Pid> {
        Pid::from_raw(std::fs::read_to_string(file).ok()?.trim().parse().ok()?)
    }

    fn is_alive(group: Pid) -> bool {
        rustix::process::test_kill_process_group(group).is_ok()
    }

    async fn assert_ends(group: Pid) {
        let begin = Instant::now();
        while is_alive(group) {
            assert!(begin.elapsed() < Duration::from_secs(20), "the group is alive");
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }

    /// A process that the program leaves behind has its output, which must not delay the verdict either.
    #[tokio::test]
    async fn its_whole_group_ends_with_it_and_with_the_case() {
        let file = std::env::temp_dir().join(format!("faultloom-program-{}", std::process::id()));
        let command = format!("sleep 1000 & echo $$ > {}; exit 0", file.display());
        assert_eq!(program(&command).decide(b"").await, Decision::Pass);
        assert_ends(group_of(&file).unwrap()).await;

        std::fs::remove_file(&file).unwrap();
        let command = format!("sleep 1000 & echo $$ > {}; sleep 1000", file.display());
        let mut oracle = program(&command);
        oracle.timeout = Duration::from_secs(60);
        let running = tokio::spawn(async move { oracle.decide(b"").await });
        let group = loop {
            match group_of(&file) {
                Some(group) => break group,
                None => tokio::time::sleep(Duration::from_millis(5)).await,
            }
        };
        assert!(is_alive(group));
        running.abort();
        assert_ends(group).await;
        std::fs::remove_file(file).unwrap();
    }

    #[test]
    fn an_empty_command_and_a_missing_folder_are_refused() {
        let guard = program("true").guard;
        assert!(ProgramOracle::new(" ", std::env::temp_dir(), guard.clone()).is_err());
        assert!(ProgramOracle::new("true", "/no/such/folder".into(), guard).is_err());
    }
}
