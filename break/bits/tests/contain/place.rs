//! Where a test builds its programs, runs them contained, and looks at the host from outside.

use std::ffi::OsStr;
use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

pub const PATIENCE: Duration = Duration::from_secs(20);

/// What the engine exits with where it refuses to run the program.
const CANNOT: i32 = 3;

/// A test that cannot run here says so, and is counted.
pub fn skipped(why: &str) {
    let _ = writeln!(std::io::stdout(), "skipped: {}", why.trim().replace('\n', "; ")); // not captured
}

/// A directory that everybody may enter and no other test uses, with the attacking program and the engine in it.
pub struct Place {
    pub directory: PathBuf,
}

impl Place {
    pub fn new() -> Place {
        static PLACES: AtomicU32 = AtomicU32::new(0);
        let number = PLACES.fetch_add(1, Ordering::Relaxed);
        let directory = std::env::temp_dir().join(format!("contain-{}-{number}", std::process::id()));
        std::fs::create_dir(&directory).expect("a directory can be made");
        let place = Place { directory };
        place.mode("", 0o755);
        std::fs::copy(env!("CARGO_BIN_EXE_contained"), place.path("contained")).expect("the engine can be copied");
        place.mode("contained", 0o755);
        place.compile("attack", &[]);
        place
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
        let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/contain/attack.c");
        let built = Command::new("cc").args(["-O1", "-o"]).arg(self.path(name)).arg(source).args(flags).status();
        assert!(built.expect("cc is there").success());
        self.mode(name, 0o755);
    }

    /// What the program says when nothing holds it.
    pub fn free(&self, attempts: &[&str]) -> String {
        let output = Command::new(self.path("attack")).args(attempts).output().expect("the program can be started");
        String::from_utf8(output.stdout).expect("it prints text")
    }

    /// The engine with a program's whole command line, to be started.
    pub fn engine(&self, arguments: &[&str]) -> Command {
        let arguments: Vec<&OsStr> = arguments.iter().map(OsStr::new).collect();
        let mut command = bit_flips::contain::engine_command(&self.path("contained"), &arguments);
        command.stderr(Stdio::piped());
        command
    }

    /// Runs the attacking program contained. Err: containment was refused, with its words.
    pub fn contained(&self, options: &[&str], attempts: &[&str]) -> Result<Told, String> {
        let attack = self.text("attack");
        run(&mut self.engine(&[options, &[&attack], attempts].concat()))
    }

    /// The same as another user, who is not root.
    pub fn contained_as(&self, user: u32, attempts: &[&str]) -> Result<Told, String> {
        let attack = self.text("attack");
        run(self.engine(&[&[attack.as_str()], attempts].concat()).uid(user).gid(user))
    }

    /// Processes of the host that have to do with this place.
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

impl Drop for Place {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.directory);
    }
}

/// What the engine told of a run.
#[derive(Debug)]
pub struct Told {
    pub ending: String,
    pub stdout: String,
    /// Most processes at a time.
    pub most: u64,
    pub refused: u64,
}

impl Told {
    /// `VERB: ANSWER` lines, in order.
    pub fn answers(&self) -> Vec<&str> {
        self.stdout.lines().collect()
    }
}

fn run(command: &mut Command) -> Result<Told, String> {
    let mut engine = command.spawn().expect("the engine can be started");
    // closed early, it would end the engine
    let _wanted = engine.stdin.take();
    let output = engine.wait_with_output().expect("it can be waited for");
    if !output.status.success() {
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(CANNOT), "{said}");
        return Err(said);
    }
    let text = String::from_utf8(output.stdout).expect("JSON is text");
    let last = text.lines().last().unwrap_or_default();
    let told: serde_json::Value = serde_json::from_str(last).expect("the last line is an object");
    let string = |key: &str| told[key].as_str().unwrap_or_default().to_owned();
    let number = |key: &str| told[key].as_u64().unwrap_or_default();
    Ok(Told { ending: string("ending"), stdout: string("stdout"), most: number("most"), refused: number("refused") })
}

/// An engine whose program runs until it is ended.
pub struct Running {
    pub child: Child,
    pub input: Option<ChildStdin>,
    _output: BufReader<ChildStdout>,
}

impl Running {
    /// Returns when the program runs. Err: why it does not.
    pub fn start(command: &mut Command) -> Result<Running, String> {
        let mut child = command.spawn().expect("the engine can be started");
        let input = child.stdin.take();
        let mut output = BufReader::new(child.stdout.take().expect("it is piped"));
        let mut line = String::new();
        output.read_line(&mut line).expect("it prints text");
        if !line.contains("started") {
            let mut why = String::new();
            let errors = child.stderr.take().expect("it is piped").read_to_string(&mut why);
            errors.expect("errors are text");
            let status = child.wait().expect("it can be waited for");
            assert_eq!(status.code(), Some(CANNOT), "{why}");
            return Err(why);
        }
        Ok(Running { child, input, _output: output })
    }
}
