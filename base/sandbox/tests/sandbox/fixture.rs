//! Builds the test programs, runs them in the sandbox, and observes the host from outside.

use std::ffi::OsStr;
use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

pub const PATIENCE: Duration = Duration::from_secs(20);

/// Exit status of a supervisor that cannot run the program.
const UNAVAILABLE: i32 = 3;

/// Prints that a test cannot run here, past the test runner, so that it is counted.
pub fn skipped(why: &str) {
    let (test, why) = (std::thread::current(), why.trim().replace('\n', "; "));
    let _ = writeln!(std::io::stdout(), "skipped: {}: {why}", test.name().unwrap_or("?")); // not captured
}

/// A directory that everybody may enter and no other test uses, with the attacking program and the supervisor in it.
pub struct Fixture {
    pub directory: PathBuf,
}

impl Fixture {
    pub fn new() -> Fixture {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        let directory = std::env::temp_dir().join(format!("sandbox-{}-{number}", std::process::id()));
        std::fs::create_dir(&directory).expect("a directory can be made");
        let fixture = Fixture { directory };
        fixture.mode("", 0o755);
        std::fs::copy(env!("CARGO_BIN_EXE_sandboxed"), fixture.path("sandboxed"))
            .expect("the supervisor can be copied");
        fixture.mode("sandboxed", 0o755);
        fixture.compile("attack", &[]);
        fixture
    }

    pub fn path(&self, name: &str) -> PathBuf {
        if name.is_empty() { self.directory.clone() } else { self.directory.join(name) }
    }

    pub fn text(&self, name: &str) -> String {
        self.path(name).to_str().expect("temporary directories have plain names").to_owned()
    }

    pub fn mode(&self, name: &str, mode: u32) {
        let permissions = std::fs::Permissions::from_mode(mode);
        std::fs::set_permissions(self.path(name), permissions).expect("it is ours");
    }

    pub fn compile(&self, name: &str, flags: &[&str]) {
        let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/sandbox/attack.c");
        let built = Command::new("cc").args(["-O1", "-o"]).arg(self.path(name)).arg(source).args(flags).status();
        assert!(built.expect("cc is there").success());
        self.mode(name, 0o755);
    }

    /// Runs the attacking program outside the sandbox and returns its output.
    pub fn free(&self, attempts: &[&str]) -> String {
        let output = Command::new(self.path("attack")).args(attempts).output().expect("the program can be started");
        String::from_utf8(output.stdout).expect("it prints text")
    }

    /// The command of a supervisor for a program's whole command line.
    pub fn supervisor(&self, arguments: &[&str]) -> Command {
        let arguments: Vec<&OsStr> = arguments.iter().map(OsStr::new).collect();
        let mut command = sandbox::supervisor_command(&self.path("sandboxed"), &arguments);
        command.stderr(Stdio::piped());
        command
    }

    /// Runs the attacking program in the sandbox. Err: why there is no sandbox.
    pub fn sandboxed(&self, options: &[&str], attempts: &[&str]) -> Result<Report, String> {
        let attack = self.text("attack");
        run(&mut self.supervisor(&[options, &[&attack], attempts].concat()))
    }

    /// Runs it as another user, who is not root.
    pub fn sandboxed_as(&self, user: u32, attempts: &[&str]) -> Result<Report, String> {
        let attack = self.text("attack");
        run(self.supervisor(&[&[attack.as_str()], attempts].concat()).uid(user).gid(user))
    }

    /// Processes of the host that belong to this fixture.
    pub fn processes(&self) -> Vec<i32> {
        let own = self.text("");
        let entries = std::fs::read_dir("/proc").expect("there is a /proc").flatten();
        let pids = entries.filter_map(|entry| entry.file_name().to_str()?.parse::<i32>().ok());
        let ours = |pid: &i32| {
            let line = std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
            String::from_utf8_lossy(&line).contains(&own)
        };
        pids.filter(ours).collect()
    }

    pub fn wait_until_empty(&self) {
        let deadline = Instant::now() + PATIENCE;
        while !self.processes().is_empty() {
            assert!(Instant::now() < deadline, "still there: {:?}", self.processes());
            std::thread::sleep(Duration::from_millis(5));
        }
    }
}

impl Drop for Fixture {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.directory);
    }
}

/// How a run ended.
#[derive(Debug)]
pub struct Report {
    pub ending: String,
    pub stdout: String,
    /// The largest number of concurrent processes.
    pub most: u64,
    pub refused: u64,
}

impl Report {
    /// The `VERB: ANSWER` lines, in order.
    pub fn answers(&self) -> Vec<&str> {
        self.stdout.lines().collect()
    }
}

fn run(command: &mut Command) -> Result<Report, String> {
    let mut supervisor = command.spawn().expect("the supervisor can be started");
    // closing it early would end the supervisor
    let _input = supervisor.stdin.take();
    let output = supervisor.wait_with_output().expect("it can be waited for");
    if !output.status.success() {
        let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(UNAVAILABLE), "{stderr}");
        return Err(stderr);
    }
    let text = String::from_utf8(output.stdout).expect("JSON is text");
    let last = text.lines().last().unwrap_or_default();
    let report: serde_json::Value = serde_json::from_str(last).expect("the last line is an object");
    let string = |key: &str| report[key].as_str().unwrap_or_default().to_owned();
    let number = |key: &str| report[key].as_u64().unwrap_or_default();
    Ok(Report { ending: string("ending"), stdout: string("stdout"), most: number("most"), refused: number("refused") })
}

/// A supervisor whose program runs until it is ended.
pub struct Running {
    pub child: Child,
    pub input: Option<ChildStdin>,
    _output: BufReader<ChildStdout>,
}

impl Running {
    /// Returns when the program has started. Err: why it has not.
    pub fn start(command: &mut Command) -> Result<Running, String> {
        let mut child = command.spawn().expect("the supervisor can be started");
        let input = child.stdin.take();
        let mut output = BufReader::new(child.stdout.take().expect("it is piped"));
        let mut line = String::new();
        output.read_line(&mut line).expect("it prints text");
        if !line.contains("started") {
            let mut why = String::new();
            let errors = child.stderr.take().expect("it is piped").read_to_string(&mut why);
            errors.expect("errors are text");
            let status = child.wait().expect("it can be waited for");
            assert_eq!(status.code(), Some(UNAVAILABLE), "{why}");
            return Err(why);
        }
        Ok(Running { child, input, _output: output })
    }
}
