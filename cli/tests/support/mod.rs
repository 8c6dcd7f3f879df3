//! Runs the `faultloom` command as its user does: in its own folder, with its exit code and output, and checks that no
//! process remains.

pub mod bookstore;
pub mod front;
pub mod guide;
pub mod memcached;
pub mod processes;
pub mod relays;
pub mod secure_shop;
pub mod service;
pub mod severed;

use serde_json::Value;
use std::io::{Read, Write};
use std::net::TcpListener;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::{Duration, Instant};

/// Longer than any command here takes; after it a test fails with the output so far.
const COMMAND_TIMEOUT: Duration = Duration::from_secs(150);
/// How long a process may take to end after the command that ends it.
const END_TIMEOUT: Duration = Duration::from_secs(10);

/// A variable of every command; the services it starts inherit it.
const HOME_MARK: &str = "END_TO_END_HOME";

/// Waits until `ready` returns a value. Panics after 120 s, which is much longer than an idle machine needs.
pub fn wait_for<T>(what: &str, mut ready: impl FnMut() -> Option<T>) -> T {
    let begin = Instant::now();
    loop {
        if let Some(value) = ready() {
            return value;
        }
        assert!(begin.elapsed() < Duration::from_secs(120), "waited 120 s for {what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// Prints a line that the test runner does not capture; `make test` counts these lines.
pub fn skipped(why: &str) {
    let test = std::thread::current();
    let _ = writeln!(std::io::stdout(), "skipped: {}: {why}", test.name().unwrap_or("?"));
}

/// `make soak`: more rounds, more seeds.
pub fn soak() -> bool {
    std::env::var_os("FAULTLOOM_SOAK").is_some()
}

pub fn seed(name: &str) -> u64 {
    let seed = std::env::var("FAULTLOOM_TEST_SEED").ok().and_then(|s| s.parse().ok()).unwrap_or_else(|| {
        std::time::SystemTime::now()
            .duration_since(std::time::UNIX_EPOCH)
            .map_or(0, |d| d.as_nanos() as u64 % 1_000_000)
    });
    println!("{name}: seed {seed} (again: FAULTLOOM_TEST_SEED={seed})");
    seed
}

/// The first of `count` consecutive free ports, below those that the kernel assigns.
pub fn free_ports(count: u16) -> u16 {
    const SLOTS: u32 = 600;
    static TAKEN: Mutex<u32> = Mutex::new(0);
    let mut taken = TAKEN.lock().unwrap_or_else(PoisonError::into_inner);
    // a soak starts thousands of targets, so slots are used again
    for _ in 0..2 * SLOTS {
        let slot = std::process::id().wrapping_mul(37).wrapping_add(*taken) % SLOTS;
        *taken = taken.wrapping_add(1);
        let base = 16_000 + (slot * 20) as u16; // below 28,000: drafts in tests use higher ports
        if count <= 20 && (base..base + count).all(|port| TcpListener::bind(("127.0.0.1", port)).is_ok()) {
            return base;
        }
    }
    panic!("no free ports");
}

/// A folder to work in. When it is dropped, every process that was started from it must have ended.
pub struct Home {
    pub path: PathBuf,
}

impl Home {
    pub fn new(name: &str) -> Home {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let n = COUNT.fetch_add(1, Ordering::Relaxed);
        let path = std::env::temp_dir().join(format!("faultloom-{name}-{}-{n}", std::process::id()));
        std::fs::create_dir_all(&path).unwrap();
        Home { path: path.canonicalize().unwrap() }
    }

    pub fn file(&self, name: &str) -> PathBuf {
        self.path.join(name)
    }

    /// Whether a program can run in the sandbox here, by trying one flip. If not, a skip is counted.
    pub fn can_contain(&self, program: &str) -> bool {
        let tried = self.run(&["flip", "-q", "-n", "1", "--types", "CF", "--controls", "1", "--", program]);
        if tried.status.code() == Some(3) && (tried.err.contains("contained") || tried.err.contains("traced")) {
            skipped(tried.err.lines().next().unwrap_or_default());
            return false;
        }
        assert!(matches!(tried.status.code(), Some(0 | 1)), "{}: {}", tried.status, tried.err);
        true
    }

    pub fn write(&self, name: &str, text: &str) -> PathBuf {
        let path = self.file(name);
        std::fs::write(&path, text).unwrap();
        path
    }

    /// The command, with its store in this folder and without FAULTLOOM_ variables of the environment.
    pub fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_faultloom"));
        command.args(arguments).current_dir(&self.path).stdin(Stdio::null()).env(HOME_MARK, &self.path);
        for (name, _) in std::env::vars_os() {
            if name.to_string_lossy().starts_with("FAULTLOOM_") || name == "SHOP_BUGS" {
                command.env_remove(name);
            }
        }
        command
    }

    pub fn run(&self, arguments: &[&str]) -> Completed {
        Started::new(self.command(arguments)).wait()
    }

    pub fn start(&self, arguments: &[&str]) -> Started {
        Started::new(self.command(arguments))
    }

    /// Processes of commands in this folder: the commands, their services with all children, reapers.
    pub fn processes(&self) -> Vec<(i32, String)> {
        let mark = format!("{HOME_MARK}={}", self.path.display());
        let mut found = Vec::new();
        for entry in std::fs::read_dir("/proc").unwrap().flatten() {
            let Ok(pid) = entry.file_name().to_string_lossy().parse::<i32>() else { continue };
            let read = |file: &str| std::fs::read(entry.path().join(file)).unwrap_or_default();
            if read("environ").split(|b| *b == 0).any(|v| v == mark.as_bytes()) {
                found.push((pid, String::from_utf8_lossy(&read("cmdline")).replace('\0', " ").trim().to_owned()));
            }
        }
        found
    }

    pub fn assert_nothing_runs(&self) {
        let begin = Instant::now();
        loop {
            let left = self.processes();
            if left.is_empty() {
                return;
            }
            assert!(begin.elapsed() < END_TIMEOUT, "left behind: {left:?}");
            std::thread::sleep(Duration::from_millis(20));
        }
    }
}

impl Drop for Home {
    fn drop(&mut self) {
        if !std::thread::panicking() {
            self.assert_nothing_runs();
        }
        for (pid, _) in self.processes() {
            let _ = Command::new("kill").args(["-KILL", &pid.to_string()]).status();
        }
        let _ = std::fs::remove_dir_all(&self.path);
    }
}

/// A running command.
pub struct Started {
    pub child: Child,
    line: String,
    out: Pipe,
    err: Pipe,
}

struct Pipe {
    text: Arc<Mutex<Vec<u8>>>,
    reader: Option<std::thread::JoinHandle<()>>,
}

impl Pipe {
    fn new(mut from: impl Read + Send + 'static) -> Pipe {
        let text = Arc::new(Mutex::new(Vec::new()));
        let to = text.clone();
        let reader = std::thread::spawn(move || {
            let mut buffer = [0; 65_536];
            while let Ok(n @ 1..) = from.read(&mut buffer) {
                to.lock().unwrap().extend_from_slice(&buffer[..n]);
            }
        });
        Pipe { text, reader: Some(reader) }
    }

    fn so_far(&self) -> String {
        String::from_utf8_lossy(&self.text.lock().unwrap()).into_owned()
    }

    /// The whole output. Fails if a process that was left behind keeps the pipe open.
    fn all(&mut self, line: &str) -> String {
        let reader = self.reader.take().expect("read once");
        let begin = Instant::now();
        while !reader.is_finished() {
            assert!(begin.elapsed() < END_TIMEOUT, "{line}: a process still holds its output: {}", self.so_far());
            std::thread::sleep(Duration::from_millis(2));
        }
        self.so_far()
    }
}

impl Started {
    pub fn new(mut command: Command) -> Started {
        let line = command.get_args().map(|a| a.to_string_lossy().into_owned()).collect::<Vec<_>>().join(" ");
        processes::mark(&mut command);
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let out = Pipe::new(child.stdout.take().unwrap());
        let err = Pipe::new(child.stderr.take().unwrap());
        Started { child, line, out, err }
    }

    pub fn signal(&self, name: &str) {
        let status = Command::new("kill").args([&format!("-{name}"), &self.child.id().to_string()]).status();
        // it may have ended and been waited for
        assert!(status.unwrap().success() || process::ProcessId::of(self.child.id()).is_none());
    }

    pub fn err_so_far(&self) -> String {
        self.err.so_far()
    }

    pub fn out_so_far(&self) -> String {
        self.out.so_far()
    }

    pub fn has_ended(&mut self) -> bool {
        self.child.try_wait().unwrap().is_some()
    }

    pub fn wait(mut self) -> Completed {
        let begin = Instant::now();
        let status = loop {
            if let Some(status) = self.child.try_wait().unwrap() {
                break status;
            }
            if begin.elapsed() > COMMAND_TIMEOUT {
                let _ = self.child.kill();
                panic!("faultloom {} hangs\n{}\n{}", self.line, self.out.so_far(), self.err.so_far());
            }
            std::thread::sleep(Duration::from_millis(2));
        };
        let (out, err) = (self.out.all(&self.line), self.err.all(&self.line));
        Completed { line: self.line, status, out, err }
    }
}

/// The result of a command.
#[derive(Debug)]
pub struct Completed {
    pub line: String,
    pub status: ExitStatus,
    pub out: String,
    pub err: String,
}

impl Completed {
    /// Panics with the whole output if the exit code is different.
    #[track_caller]
    pub fn exits(self, code: i32) -> Completed {
        assert!(
            self.status.code() == Some(code),
            "faultloom {}: exit {:?} (signal {:?}), expected {code}\n--- out\n{}\n--- err\n{}",
            self.line,
            self.status.code(),
            self.status.signal(),
            self.out,
            self.err
        );
        self
    }

    #[track_caller]
    pub fn says(self, text: &str) -> Completed {
        assert!(
            self.out.contains(text) || self.err.contains(text),
            "faultloom {} does not print '{text}'\n--- out\n{}\n--- err\n{}",
            self.line,
            self.out,
            self.err
        );
        self
    }

    /// Everything on standard error, with `folder` written as `~`.
    pub fn complaint(&self, home: &Home) -> String {
        self.err.replace(&home.path.display().to_string(), "~")
    }

    #[track_caller]
    pub fn json(&self) -> Value {
        serde_json::from_str(&self.out)
            .unwrap_or_else(|e| panic!("faultloom {}: {e}\n--- out\n{}\n--- err\n{}", self.line, self.out, self.err))
    }
}

/// The words of a printed command, split as a shell does. Only single quotes occur.
pub fn words(line: &str) -> Vec<String> {
    let (mut words, mut word, mut quoted, mut any) = (Vec::new(), String::new(), false, false);
    let mut chars = line.chars();
    while let Some(c) = chars.next() {
        match c {
            '\'' => (quoted, any) = (!quoted, true),
            '\\' if !quoted => word.extend(chars.next()),
            ' ' if !quoted => {
                if any || !word.is_empty() {
                    words.push(std::mem::take(&mut word));
                }
                any = false;
            }
            c => word.push(c),
        }
    }
    if any || !word.is_empty() {
        words.push(word);
    }
    words
}

pub fn repository() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap().to_owned()
}

/// The sample application, up in its own folder and on its own ports.
pub struct Shop {
    pub home: Home,
    pub base: u16,
}

const SHOP_PORTS: [(&str, u16); 11] = [
    ("8080", 0),
    ("7001", 1),
    ("7002", 2),
    ("7003", 3),
    ("7004", 4),
    ("7005", 5),
    ("7006", 6),
    ("7007", 7),
    ("7008", 8),
    ("7009", 9),
    ("11311", 10),
];

/// False, with a counted skip, if the shop cannot be started here.
pub fn can_shop() -> bool {
    let built = repository().join("out/shop");
    let shop = repository().join("lab/shop");
    let parts = [
        built.join("frontend"),
        built.join("venv/bin/python"),
        shop.join("java/target/shop.jar"),
        shop.join("node/node_modules"),
    ];
    if parts.iter().any(|part| !part.exists()) {
        skipped("the shop is not built (make test builds it)");
        return false;
    }
    let path = std::env::var_os("PATH").unwrap_or_default();
    if !std::env::split_paths(&path).any(|folder| folder.join("memcached").exists()) {
        skipped("memcached is not installed");
        return false;
    }
    true
}

/// The shop's target file with other ports, and `SHOP_BUGS` set. The first port is the frontend's.
pub fn shop_target(home: &Home, bugs: &str) -> u16 {
    let base = free_ports(11);
    let root = repository();
    let mut text = std::fs::read_to_string(root.join("lab/shop/target.yaml")).unwrap();
    for (port, at) in SHOP_PORTS {
        let (quoted, after_colon) = (format!("\"{port}\""), format!(":{port}"));
        text = text.replace(&quoted, &format!("\"{}\"", base + at)).replace(&after_colon, &format!(":{}", base + at));
    }
    let root = root.display().to_string();
    text = text
        .replace("../../../out/", &format!("{root}/out/"))
        .replace("../../out/", &format!("{root}/out/"))
        .replace("directory: python", &format!("directory: {root}/lab/shop/python"))
        .replace("directory: java", &format!("directory: {root}/lab/shop/java"))
        .replace("directory: node", &format!("directory: {root}/lab/shop/node"));
    for (port, name) in [(base, "frontend"), (base + 9, "checkout")] {
        let line = format!("      PORT: \"{port}\"\n");
        assert!(text.contains(&line), "the target file's {name} has changed");
        text = text.replace(&line, &format!("{line}      SHOP_BUGS: \"{bugs}\"\n"));
    }
    home.write("target.yaml", &text);
    base
}

impl Shop {
    /// Started with `up --detach`, `down` when dropped.
    pub fn up(name: &str, bugs: &str) -> Option<Shop> {
        if !can_shop() {
            return None;
        }
        let home = Home::new(name);
        let base = shop_target(&home, bugs);
        home.run(&["up", "-d", "--json"]).exits(0);
        Some(Shop { home, base })
    }

    /// One shop for concurrent tests; the last of them stops it.
    pub fn shared() -> Option<Arc<Shop>> {
        static SHOP: Mutex<Weak<Shop>> = Mutex::new(Weak::new());
        let mut shop = SHOP.lock().unwrap_or_else(|e| e.into_inner());
        if let Some(up) = shop.upgrade() {
            return Some(up);
        }
        let up = Arc::new(Shop::up("shop", "paper")?);
        *shop = Arc::downgrade(&up);
        Some(up)
    }

    pub fn url(&self, path: &str) -> String {
        format!("http://127.0.0.1:{}{path}", self.base)
    }

    /// The `grpc://` URL of a service, by its port in the shop's target file.
    pub fn grpc(&self, port: u16, method: &str) -> String {
        format!("grpc://127.0.0.1:{}/{method}", self.base + port - 7000)
    }

    pub fn run(&self, arguments: &[&str]) -> Completed {
        self.home.run(arguments)
    }

    pub fn pid(&self, service: &str) -> i32 {
        let state = self.home.run(&["ps", "--json"]).exits(0).json();
        let services = state["state"]["services"].as_array().unwrap().clone();
        let found = services.iter().find(|s| s["name"] == service).unwrap_or_else(|| panic!("{service} is not up"));
        found["process"]["pid"].as_i64().unwrap() as i32
    }

    pub fn log(&self, service: &str) -> String {
        std::fs::read_to_string(self.home.file(&format!(".faultloom/up/logs/{service}.log"))).unwrap_or_default()
    }
}

impl Drop for Shop {
    fn drop(&mut self) {
        let down = self.home.run(&["down"]);
        if !std::thread::panicking() {
            down.exits(0).says("11 services stopped");
        }
    }
}

pub fn kill_dash_9(pid: i32) {
    send_signal(pid, "KILL");
}

pub fn send_signal(pid: i32, name: &str) {
    assert!(Command::new("kill").args([&format!("-{name}"), &pid.to_string()]).status().unwrap().success());
}
