//! Starts engines for tests and compiles the programs they flip bits in.

use bit_flips::engine_messages::{Draw, Held, Injected, Method, Profile, Program, Reply, Request, Timings, Totals};
use model::flip::{BitPolicy, FlipType};
use std::io::{BufRead, BufReader, Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering};

/// Compiles one of `tests/programs` into the folder that cargo keeps for tests.
pub fn compiled(name: &str, options: &[&str]) -> PathBuf {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("tests/programs/{name}.c"));
    let made = unique(name);
    let mut cc = Command::new("cc");
    cc.args(["-O1", "-g", "-o"]).arg(&made).arg(&source).args(options).arg("-lm");
    assert!(cc.status().expect("a C compiler").success(), "{}", source.display());
    made
}

/// The same with no library but C's.
pub fn compiled_alone(name: &str) -> PathBuf {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("tests/programs/{name}.c"));
    let made = unique(name);
    let status = Command::new("cc").args(["-O1", "-g", "-o"]).arg(&made).arg(&source).status();
    assert!(status.expect("a C compiler").success(), "{}", source.display());
    made
}

pub fn written(name: &str, bytes: &[u8]) -> PathBuf {
    let path = unique(name);
    std::fs::write(&path, bytes).unwrap();
    path
}

/// The replay shim as a file, written once.
fn shim() -> &'static Path {
    static SHIM: OnceLock<PathBuf> = OnceLock::new();
    SHIM.get_or_init(|| written("shim.so", replay::SHIM))
}

/// A path that no concurrent test uses.
fn unique(name: &str) -> PathBuf {
    static COUNT: AtomicU32 = AtomicU32::new(0);
    let id = format!("{name}-{}-{}", std::process::id(), COUNT.fetch_add(1, Ordering::Relaxed));
    Path::new(env!("CARGO_TARGET_TMPDIR")).join(id)
}

pub fn program(argv: &[&str], stdin: Option<PathBuf>) -> Program {
    Program { stdin, ..Program::new(argv.iter().map(|&word| word.to_owned()).collect()) }
}

pub fn draw(types: &[FlipType], count: u32) -> Draw {
    Draw {
        seed: 20_261_122,
        bits: BitPolicy::Full,
        types: types.iter().map(|kind| (*kind, count)).collect(),
        controls: 8,
    }
}

pub struct Engine {
    process: Child,
    requests: Option<ChildStdin>,
    replies: BufReader<ChildStdout>,
}

impl Engine {
    fn command() -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_flip-engine"));
        command.arg(shim()).stdin(Stdio::piped()).stdout(Stdio::piped());
        command
    }

    pub fn start() -> Engine {
        let mut process = Engine::command().spawn().expect("the engine");
        let requests = process.stdin.take();
        let replies = BufReader::new(process.stdout.take().unwrap());
        Engine { process, requests, replies }
    }

    fn send(&mut self, request: &Request) {
        let mut line = serde_json::to_vec(request).unwrap();
        line.push(b'\n');
        self.requests.as_mut().unwrap().write_all(&line).unwrap();
    }

    fn receive(&mut self) -> Reply {
        let mut line = String::new();
        self.replies.read_line(&mut line).unwrap();
        serde_json::from_str(&line).unwrap_or_else(|e| panic!("{e}: {line:?}"))
    }

    /// Err: the text of the refusal.
    pub fn begin(&mut self, program: &Program) -> Result<Profile, String> {
        self.send(&Request::Begin(Box::new(program.clone())));
        loop {
            match self.receive() {
                Reply::Progress { .. } => {}
                Reply::Profile(profile) => return Ok(*profile),
                other => return Err(refusal_text(other)),
            }
        }
    }

    /// The text of the refusal of a request.
    pub fn refused(&mut self, request: &Request) -> String {
        self.send(request);
        loop {
            match self.receive() {
                Reply::Progress { .. } | Reply::Injected(_) => {}
                other => return refusal_text(other),
            }
        }
    }

    /// Injects every flip during the work for a reply; with `classes`, one member of each class.
    pub fn exhaust(
        &mut self,
        reply: usize,
        types: &[FlipType],
        bits: BitPolicy,
        classes: bool,
    ) -> (Totals, Vec<Injected>) {
        let types = types.to_vec();
        self.send(&Request::Exhaust { reply, types, bits, classes, skip: Vec::new(), only: Vec::new() });
        match self.receive() {
            Reply::Totals(totals) => (totals, self.injected().0),
            other => panic!("{other:?}"),
        }
    }

    /// Leaves a process at a flip, for a debugger. Also returns its pid on the host.
    pub fn hold(&mut self, draw: &Draw, id: u32, after: bool) -> (Held, i32) {
        self.send(&Request::Hold { draw: draw.clone(), id, after });
        match self.receive() {
            Reply::Held(held) => {
                let pid = sandbox::host_pid(self.process.id(), held.pid).unwrap().expect("it is there");
                (*held, pid)
            }
            other => panic!("{other:?}"),
        }
    }

    /// Waits for the end of the held process.
    pub fn wait_for_end(&mut self) {
        let answer = self.receive();
        assert!(matches!(answer, Reply::Done(_)), "{answer:?}");
    }

    /// Injects the flips of a draw and returns the results by id.
    pub fn inject(&mut self, draw: &Draw, method: Method, skip: &[u32], only: &[u32]) -> (Vec<Injected>, Timings) {
        self.send(&Request::Inject { draw: draw.clone(), method, skip: skip.to_vec(), only: only.to_vec() });
        self.injected()
    }

    fn injected(&mut self) -> (Vec<Injected>, Timings) {
        let mut all = Vec::new();
        loop {
            match self.receive() {
                Reply::Injected(injected) => all.push(*injected),
                Reply::Progress { .. } => {}
                Reply::Done(timings) => {
                    all.sort_by_key(|injected| injected.id);
                    return (all, timings);
                }
                other => panic!("{other:?}"),
            }
        }
    }
}

/// The text of a refusal.
fn refusal_text(reply: Reply) -> String {
    match reply {
        Reply::Refused { what, why, next, .. } => {
            [Some(what), why, next].into_iter().flatten().collect::<Vec<_>>().join("\n")
        }
        other => panic!("{other:?}"),
    }
}

impl Drop for Engine {
    fn drop(&mut self) {
        drop(self.requests.take());
        let _ = self.process.wait();
    }
}

/// Removes the CPU time, which differs between runs.
pub fn timeless(mut injected: Injected) -> Injected {
    injected.effect.cpu_us = 0;
    injected
}

/// The engine's exit status where there is no sandbox.
const UNAVAILABLE: i32 = 3;

/// Whether engines can run here; prints a skip if not. Any other failure is a bug.
pub fn possible() -> bool {
    let mut engine = Engine::command().stderr(Stdio::piped()).spawn().expect("the engine");
    drop(engine.stdin.take());
    let mut output = String::new();
    engine.stderr.take().unwrap().read_to_string(&mut output).unwrap();
    match engine.wait().unwrap().code() {
        Some(0) => true,
        Some(UNAVAILABLE) => {
            skipped(output.lines().next().unwrap_or_default());
            false
        }
        status => panic!("the engine ended with {status:?}: {output}"),
    }
}

/// Prints past the test runner, which captures the output of passing tests, so that skips are counted.
pub fn skipped(why: &str) {
    let test = std::thread::current();
    let _ = writeln!(std::io::stdout(), "skipped: {}: {why}", test.name().unwrap_or("?"));
}
