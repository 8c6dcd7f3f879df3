//! Runs a program under the shim.

use model::replay::{self, InputTrace, OutputRecords};
use std::fs::File;
use std::io::Write;
use std::os::fd::AsRawFd;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

const PATIENCE: Duration = Duration::from_secs(60);
/// Where the program finds its output.
const DESCRIPTOR: i32 = 400;

/// Prints that a test cannot run here, which is counted.
pub fn skipped(why: &str) {
    let test = std::thread::current();
    let _ = writeln!(std::io::stdout(), "skipped: {}: {why}", test.name().unwrap_or("?")); // not captured
}

/// Path of a program; None where it is not installed, which is printed.
pub fn installed(name: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let system = ["/usr/sbin", "/usr/bin"].map(PathBuf::from);
    let found = std::env::split_paths(&path).chain(system).map(|folder| folder.join(name)).find(|path| path.exists());
    if found.is_none() {
        skipped(&format!("{name} is not installed"));
    }
    found
}

/// A folder that is removed when it is dropped.
pub struct Folder(PathBuf);

impl Folder {
    pub fn new() -> Folder {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let name = format!("shim-{}-{}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed));
        let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
        std::fs::create_dir_all(&folder).expect("the build's folder can be written to");
        Folder(folder)
    }

    pub fn join(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }

    pub fn text(&self) -> &str {
        self.0.to_str().expect("the build's folder is text")
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// How a program is run.
#[derive(Clone)]
pub struct Run {
    pub program: PathBuf,
    pub arguments: Vec<String>,
    pub environment: Vec<(String, String)>,
    pub stdin: Vec<u8>,
    pub width: u32,
    pub seed: u64,
    /// Where it and its files are; it runs there.
    pub folder: Option<Arc<Folder>>,
}

/// The result of a run.
pub struct Completed {
    pub status: ExitStatus,
    pub bytes: Vec<u8>,
    pub stdout: String,
    pub stderr: String,
}

impl Completed {
    pub fn records(&self) -> OutputRecords {
        OutputRecords::parse(&self.bytes)
    }

    /// The output to a connection, as text.
    pub fn output(&self, connection: u32) -> String {
        let output = self.records().streams.remove(&connection).unwrap_or_default();
        String::from_utf8_lossy(&output).into_owned()
    }

    /// Ended at the end of its trace.
    pub fn well(self) -> Completed {
        assert_eq!(self.status.code(), Some(0), "{:?}\n{}", self.status, self.stderr);
        self
    }

    /// Ended by the shim for a reason.
    pub fn ended(&self, ending: replay::Ending) -> String {
        assert_eq!(self.status.code(), Some(ending as i32), "{:?}\n{}", self.status, self.stderr);
        self.records().notes.join("\n")
    }
}

impl Run {
    pub fn new(program: &Path, arguments: &[&str]) -> Run {
        Run {
            program: program.to_owned(),
            arguments: arguments.iter().map(|&argument| argument.to_owned()).collect(),
            environment: Vec::new(),
            stdin: Vec::new(),
            width: 1,
            seed: 0,
            folder: None,
        }
    }

    pub fn width(self, width: u32) -> Run {
        Run { width, ..self }
    }

    pub fn seed(self, seed: u64) -> Run {
        Run { seed, ..self }
    }

    pub fn replay(&self, trace: &InputTrace) -> Completed {
        self.replay_bytes(&trace.to_bytes())
    }

    /// Runs it to its end, with its memory at the same addresses each time.
    pub fn replay_bytes(&self, trace: &[u8]) -> Completed {
        let folder = Folder::new();
        let shim = ::replay::write(&folder.0).expect("the shim can be written");
        let input = folder.join("input");
        std::fs::write(&input, trace).expect("the trace can be written");
        std::fs::write(folder.join("stdin"), &self.stdin).expect("the input can be written");
        let create = |name: &str| File::create(folder.join(name)).expect("an output can be made");
        let output = create("output");
        let mut command = Command::new(&self.program);
        command.args(&self.arguments).env_clear().envs(self.environment.iter().cloned());
        command.envs(replay::environment(&shim, &input, DESCRIPTOR, self.width));
        command.env(replay::SEED, self.seed.to_string());
        command.current_dir(&self.folder.as_deref().unwrap_or(&folder).0);
        command.stdin(File::open(folder.join("stdin")).expect("it was just written"));
        command.stdout(create("stdout")).stderr(create("stderr"));
        let ready = output.as_raw_fd();
        // SAFETY: between fork and exec only system calls are made, on descriptors that live until then.
        #[expect(unsafe_code, reason = "a child's descriptors and personality are set before exec")]
        unsafe {
            command.pre_exec(move || {
                libc::personality(libc::ADDR_NO_RANDOMIZE as libc::c_ulong);
                if libc::dup2(ready, DESCRIPTOR) < 0 { Err(std::io::Error::last_os_error()) } else { Ok(()) }
            });
        }
        let status = finish(command);
        let text =
            |name: &str| String::from_utf8_lossy(&std::fs::read(folder.join(name)).unwrap_or_default()).into_owned();
        Completed {
            status,
            bytes: std::fs::read(folder.join("output")).expect("the output is there"),
            stdout: text("stdout"),
            stderr: text("stderr"),
        }
    }
}

/// A program that does not end is killed, and then the test fails by its status.
fn finish(mut command: Command) -> ExitStatus {
    let mut child = command.spawn().expect("the program can be run");
    let begin = Instant::now();
    loop {
        if let Some(status) = child.try_wait().expect("our child can be waited for") {
            return status;
        }
        if begin.elapsed() > PATIENCE {
            child.kill().expect("our child can be killed");
            let status = child.wait().expect("our child can be waited for");
            panic!("it did not end: {:?}", status.signal());
        }
        std::thread::sleep(Duration::from_millis(2));
    }
}

/// Compiles one of the programs beside this file.
pub fn compiled(name: &str, arguments: &[&str]) -> Run {
    let folder = Folder::new();
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/shim/programs").join(format!("{name}.c"));
    let program = folder.join(name);
    let mut compiler = Command::new("cc");
    compiler.args(["-O1", "-D_GNU_SOURCE", "-Wall", "-Wextra", "-Werror", "-pthread", "-o"]).arg(&program).arg(source);
    let output = compiler.stdin(Stdio::null()).output().expect("there is a C compiler: the shim was built with it");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    Run { folder: Some(Arc::new(folder)), ..Run::new(&program, arguments) }
}
