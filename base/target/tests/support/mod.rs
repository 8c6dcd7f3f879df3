//! Folders, free ports, small services, and queries of the process table.

use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};
use target::{ReaperCommand, StartOptions, Supervisor, Target};

/// A service that answers every HTTP request with `hello` and its own pid, and crashes with status 7 on /crash.
pub const SERVER: &str = r#"
import http.server, os, sys
class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        if self.path == "/crash":
            print("crashing on request", flush=True)
            os._exit(7)
        body = ("hello %d" % os.getpid()).encode()
        self.send_response(503 if self.path == "/sick" else 200)
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)
    def log_message(self, *arguments): pass
print("serving", flush=True)
http.server.ThreadingHTTPServer(("127.0.0.1", int(sys.argv[1])), Handler).serve_forever()
"#;

/// A folder of one test, removed at its end.
pub struct Folder(pub PathBuf);

impl Folder {
    pub fn new() -> Folder {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let name = format!("faultloom-target-{}-{}", std::process::id(), COUNT.fetch_add(1, Ordering::Relaxed));
        let path = std::env::temp_dir().join(name);
        std::fs::create_dir_all(&path).unwrap();
        let folder = Folder(path.canonicalize().unwrap());
        folder.file("server.py", SERVER);
        folder
    }

    pub fn file(&self, name: &str, text: &str) -> PathBuf {
        let path = self.0.join(name);
        std::fs::write(&path, text).unwrap();
        path
    }

    pub fn state(&self) -> PathBuf {
        self.0.join("state")
    }

    pub fn target(&self, services: &str) -> Target {
        Target::load(self.file("target.yaml", &format!("name: shop\nservices:\n{services}"))).unwrap()
    }

    pub fn options(&self) -> StartOptions {
        self.options_with_events().0
    }

    pub fn options_with_events(&self) -> (StartOptions, Arc<Mutex<Vec<String>>>) {
        let events = Arc::new(Mutex::new(Vec::new()));
        let sink = events.clone();
        let options = StartOptions {
            state_dir: self.state(),
            kept_trust: None,
            sdks: Default::default(),
            reaper: ReaperCommand { program: env!("CARGO_BIN_EXE_target-up").into(), arguments: vec!["reaper".into()] },
            on_event: Arc::new(move |event| sink.lock().unwrap().push(event.to_string())),
        };
        (options, events)
    }

    pub async fn start(&self, services: &str) -> Result<Supervisor, model::Failure> {
        Supervisor::start(self.target(services), self.options()).await
    }

    /// Every process with this folder in its command line or its environment. None may remain after a test.
    pub fn processes(&self) -> Vec<i32> {
        let needle = self.0.to_str().unwrap().as_bytes();
        let own = std::process::id() as i32;
        let entries = std::fs::read_dir("/proc").unwrap().flatten();
        let pids = entries.filter_map(|entry| entry.file_name().to_str()?.parse::<i32>().ok());
        let holds = |pid: i32, file: &str| {
            let bytes = std::fs::read(format!("/proc/{pid}/{file}")).unwrap_or_default();
            bytes.windows(needle.len()).any(|window| window == needle)
        };
        pids.filter(|pid| *pid != own && (holds(*pid, "cmdline") || holds(*pid, "environ"))).collect()
    }

    pub fn log(&self, service: &str) -> String {
        std::fs::read_to_string(self.state().join(format!("logs/{service}.log"))).unwrap_or_default()
    }

    /// The reaper of a supervising process.
    pub fn reaper_of(&self, supervisor: &Child) -> i32 {
        children_of(supervisor.id(), "faultloom-reaper")[0]
    }

    /// A separate program around the supervisor.
    pub fn target_up(&self) -> Child {
        Command::new(env!("CARGO_BIN_EXE_target-up"))
            .args([Path::new("up"), &self.0.join("target.yaml"), &self.state()])
            .stdout(Stdio::piped())
            .spawn()
            .unwrap()
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// A port without a listener.
pub fn free_port() -> u16 {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port()
}

/// A service entry of a target file around `server.py`.
pub fn server(name: &str, port: u16) -> String {
    format!("  - name: {name}\n    command: [python3, server.py, \"{port}\"]\n    listens: [\"127.0.0.1:{port}\"]\n")
}

/// One plain GET; empty if there is no answer.
pub fn get(port: u16, path: &str) -> String {
    use std::io::{Read, Write};
    let Ok(mut stream) = std::net::TcpStream::connect(("127.0.0.1", port)) else {
        return String::new();
    };
    let _ = write!(stream, "GET {path} HTTP/1.0\r\n\r\n");
    let mut text = String::new();
    let _ = stream.read_to_string(&mut text);
    text
}

/// Waits until a condition holds; fails the test after 15 s.
pub fn wait_for<T>(what: &str, mut poll: impl FnMut() -> Option<T>) -> T {
    let begin = Instant::now();
    loop {
        if let Some(found) = poll() {
            return found;
        }
        assert!(begin.elapsed() < Duration::from_secs(15), "waited 15 s for {what}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// Compares with `tests/goldens/<name>.txt`; `BLESS=1` rewrites it.
pub fn golden(name: &str, text: &str) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/goldens").join(format!("{name}.txt"));
    if std::env::var_os("BLESS").is_some() {
        std::fs::write(&path, text).unwrap();
    }
    let expected = std::fs::read_to_string(&path).unwrap_or_default();
    assert_eq!(text, expected, "{} differs; BLESS=1 rewrites it", path.display());
}

/// Children of a process, by the beginning of their command lines.
pub fn children_of(parent: u32, begins: &str) -> Vec<i32> {
    let tasks = std::fs::read_dir(format!("/proc/{parent}/task")).unwrap().flatten();
    let lists = tasks.map(|task| std::fs::read_to_string(task.path().join("children")).unwrap_or_default());
    let pids: Vec<i32> =
        lists.flat_map(|list| list.split_whitespace().map(|pid| pid.parse().unwrap()).collect::<Vec<_>>()).collect();
    let command = |pid: &i32| std::fs::read_to_string(format!("/proc/{pid}/cmdline")).unwrap_or_default();
    pids.into_iter().filter(|pid| command(pid).starts_with(begins)).collect()
}
